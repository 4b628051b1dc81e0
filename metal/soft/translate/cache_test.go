package translate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cacheWithRuntime returns a new cache that contains the runtime, which takes longer to compile than the sources of
// these tests.
func cacheWithRuntime(t *testing.T) string {
	t.Helper()
	dir := held.TempDir(t)
	parts, err := open(t, Options{}).buildRuntime()
	require.NoError(t, err)
	for _, p := range parts {
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(p)), text, 0o666))
	}
	return dir
}

// TestCacheWithoutCompiling: a source that was compiled needs no compiler to run again, unless the source, the variant,
// the compiler or the processor is another one.
func TestCacheWithoutCompiling(t *testing.T) {
	dir := cacheWithRuntime(t)
	c := open(t, Options{Cache: dir})
	text := source(t, "counts")
	path, err := c.Build(text, Fast)
	require.NoError(t, err)
	script := filepath.Join(dir, "clang")
	const versionOnly = "#!/bin/sh\ncase $1 in --version|-dumpversion) exec %s $1;; esac\nexit 1\n"
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, versionOnly, c.clang), 0o755))
	old := filepath.Join(dir, "library-old.so")
	require.NoError(t, os.WriteFile(old, nil, 0o666))
	require.NoError(t, os.Chtimes(old, time.Unix(0, 0), time.Unix(0, 0)))
	again, err := NewCompiler(Options{Cache: dir, Clang: script})
	if err != nil && strings.Contains(err.Error(), "linker") {
		sharedtest.Missing(t, fmt.Errorf("lld is found only beside clang, which this test replaces: %w", err))
	}
	require.NoError(t, err)
	assert.NoFileExists(t, old)
	kept, err := again.Build(text, Fast)
	assert.NoError(t, err)
	assert.Equal(t, path, kept)
	assert.FileExists(t, kept)
	own, err := ownText()
	require.NoError(t, err)
	assert.NoError(t, again.checkStrictOnce(&unit{}, text, own))
	elsewhere := "arm64"
	if c.arch == elsewhere {
		elsewhere = "amd64"
	}
	for what, other := range map[string]func() error{
		"source":  func() error { _, err := again.Build(text+"\n", Fast); return err },
		"variant": func() error { _, err := again.Build(text, Check); return err },
		"version": func() error { again.version += "1"; _, err := again.Build(text, Fast); return err },
		"strict":  func() error { again.version += "2"; return again.checkStrictOnce(&unit{}, text, own) },
		"text":    func() error { return again.checkStrictOnce(&unit{}, text, own+"\n") },
		"arch":    func() error { again.arch = elsewhere; _, err := again.Build(text, Fast); return err },
	} {
		before := *again
		assert.ErrorContains(t, other(), "exit status 1", what)
		*again = before
	}
}

// TestCacheKeepsNothingRefused: a source that the strict pass refuses is refused every time, even if clang would
// compile it.
func TestCacheKeepsNothingRefused(t *testing.T) {
	dir := cacheWithRuntime(t)
	c := open(t, Options{Cache: dir})
	for range 2 {
		_, err := c.Build("#include <metal_stdlib>\n"+
			"kernel void k(device float *x [[buffer(0)]], constant float *y [[buffer(1)]]) "+
			"{ device const float *z = y; x[0] = z[0]; }", Fast)
		assert.ErrorContains(t, err, "library.metal:2:")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, f := range left {
		assert.NotContains(t, f, "library-")
		assert.NotContains(t, f, "new-")
	}
}

// TestPrune: old files are removed from the cache; used ones and files of others stay.
func TestPrune(t *testing.T) {
	dir, now := held.TempDir(t), time.Now()
	for name, age := range map[string]time.Duration{
		"library-old.so": 31 * 24 * time.Hour, "library-new.so": 29 * 24 * time.Hour,
		"library-used.so": 31 * 24 * time.Hour,
		"runtime-old.o":   31 * 24 * time.Hour, "strict-old": 31 * 24 * time.Hour, "shim-old": 31 * 24 * time.Hour,
		"runtime-new.o": 29 * 24 * time.Hour, "strict-new": 29 * 24 * time.Hour, "shim-new": 29 * 24 * time.Hour,
		"new-left": 2 * time.Hour, "new-busy": time.Minute, "other": 1000 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	assert.True(t, inCache(filepath.Join(dir, "library-used.so")))
	assert.False(t, inCache(filepath.Join(dir, "library-absent.so")))
	pruneCache(dir, now)
	var left []string
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		left = append(left, f.Name())
	}
	assert.Equal(t, []string{
		"library-new.so", "library-used.so", "new-busy", "other", "runtime-new.o", "shim-new", "strict-new",
	}, left)
}

// TestOwnText: every file that affects the result of a source is part of the cache key.
func TestOwnText(t *testing.T) {
	text, err := ownText()
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	headers, err := filepath.Glob("msl/*")
	require.NoError(t, err)
	keeps := []string{"cache.go", "lines.go"} // which make, cache or read something else
	for _, f := range slices.Concat(files, headers) {
		if !strings.HasSuffix(f, "_test.go") {
			assert.Equal(t, !slices.Contains(keeps, f), strings.Contains("\n"+text, "\n"+f+"\n"), f)
		}
	}
}
