package translate

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// headers are the C++ files for kernels: the replacement of <metal_stdlib>, and the runtime.
//
//go:embed msl
var headers embed.FS

// translator is the source of this package: when it changes, the cache is invalid.
//
//go:embed body.go clang.go compiler.go constants.go edit.go emit.go kernel.go lexer.go lint.go opencl.go parse.go
//go:embed templates.go translate.go unit.go vectors.go
var translator embed.FS

// stubs are the headers of Metal. They are empty, because the replacement header has their content.
var stubs = [...]string{"metal_stdlib", "metal_atomic", "metal_common", "metal_compute", "metal_geometric",
	"metal_integer", "metal_math", "metal_matrix", "metal_pack", "metal_relational", "metal_simdgroup",
	"metal_simdgroup_matrix", "metal_types"}

func defaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "pilotfish", "soft")
}

func contentKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:40]
}

func (c *Compiler) cacheKey(source, ownText string, flags []string) string {
	return contentKey(source, ownText, strings.Join(append(languageFlags(c.arch), flags...), " "), c.version, c.arch)
}

// ownText returns all source of this package that compiled code depends on, for keys.
func ownText() (string, error) {
	var b strings.Builder
	for _, tree := range [...]embed.FS{headers, translator} {
		err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := tree.ReadFile(path)
			b.WriteString(path + "\n")
			b.Write(text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func (c *Compiler) writeShim() (string, error) {
	text, err := ownText()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.cache, "shim-"+contentKey(text, strings.Join(stubs[:], " ")))
	if inCache(dir) {
		return dir, nil
	}
	scratch, err := os.MkdirTemp(c.cache, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch) // after success it does not exist any more
	if err := fillShim(scratch); err != nil {
		return "", err
	}
	if err := os.Rename(scratch, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		} // another process was faster
	}
	return dir, nil
}

func fillShim(dir string) error {
	sub, err := fs.Sub(headers, "msl")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, sub); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "stubs"), 0o777); err != nil {
		return err
	}
	for _, name := range stubs {
		if err := os.WriteFile(filepath.Join(dir, "stubs", name), nil, 0o666); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755)
}

// Ages at which files are deleted from the cache.
const (
	unusedFor    = 30 * 24 * time.Hour // since a file was last opened
	unfinishedIn = time.Hour           // of a temporary file that a killed process left
)

// pruneCache removes old files. It ignores errors.
func pruneCache(dir string, now time.Time) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return // using the folder will report the error
	}
	for _, f := range files {
		name := f.Name()
		kinds := []string{"library-", "runtime-", "strict-", "shim-", "new-"}
		own := slices.ContainsFunc(kinds, func(s string) bool { return strings.HasPrefix(name, s) })
		info, err := f.Info()
		if !own || err != nil {
			continue
		}
		age := now.Sub(info.ModTime())
		if age > unusedFor || age > unfinishedIn && strings.HasPrefix(name, "new-") {
			_ = os.RemoveAll(filepath.Join(dir, name)) // another process may be faster
		}
	}
}

// inCache reports whether a file or folder exists, and marks it as used.
func inCache(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if now := time.Now(); now.Sub(info.ModTime()) > unusedFor/30 {
		_ = os.Chtimes(path, now, now) // at worst it is pruned and made again
	}
	return true
}
