package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// measuredPackages returns the folders with the code that determines the figures.
func measuredPackages() []string {
	return []string{
		"bench", "bench/demo", "bench/link", "kernels/cpu", "netproto", "netproto/client", "netproto/gateway",
		"runtime/backend/host", "runtime/batch", "runtime/draft", "runtime/engine", "runtime/lookup", "runtime/qwen",
		"runtime/router",
	}
}

// sources returns the hashes of the measured packages of a checkout: of the names and the contents of their files,
// without tests, in the order of the names. That of kernels/cpu includes the packages below it; that of bench is of the
// packages that measure answers, the engine and the network.
func sources(root string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range measuredPackages() {
		h := sha256.New()
		dir := filepath.Join(root, name)
		err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error { // by name
			switch {
			case err != nil:
				return err
			case f.IsDir() && path != dir && !partOf(name, f.Name()):
				return fs.SkipDir
			case !f.Type().IsRegular() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md"):
				return nil
			}
			return hashFile(h, path)
		})
		if err != nil {
			return nil, err
		}
		all[name] = hex.EncodeToString(h.Sum(nil))
	}
	return all, nil
}

// partOf reports whether a folder below a measured package counts as part of it.
func partOf(name, folder string) bool {
	switch name {
	case "bench":
		return slices.Contains([]string{"outcome", "remote", "routing", "speed", "wire"}, folder)
	case "kernels/cpu":
		return folder != "testdata"
	}
	return false
}

// hashFile adds a file's name, length and content.
func hashFile(h io.Writer, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s %d\n", filepath.Base(path), len(b))
	_, err = h.Write(b)
	return err
}
