package soft

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is compiled is kept by content: the same source is not compiled again, another variant or text is, and what
// several devices write at once is whole.
func TestCache(t *testing.T) {
	open(t, Options{})
	dir := t.TempDir()
	libraries := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "library-*.so"))
		require.NoError(t, err)
		return len(files)
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			d, err := Open(Options{Cache: dir})
			if assert.NoError(t, err) {
				_, err = d.NewLibrary(countSource)
				assert.NoError(t, err)
				assert.NoError(t, d.Close())
			}
		})
	}
	all.Wait()
	assert.Equal(t, 1, libraries())
	d := open(t, Options{Cache: dir, Variant: Check})
	_, err := d.NewLibrary(countSource)
	require.NoError(t, err)
	assert.Equal(t, 2, libraries())
	_, err = d.NewLibrary(countSource + "\n")
	require.NoError(t, err)
	assert.Equal(t, 3, libraries())
	left, err := filepath.Glob(filepath.Join(dir, "new-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// cacheWithRuntime is a new cache with the runtime in it, which takes longer to compile than what these tests compile.
func cacheWithRuntime(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	parts, err := open(t, Options{}).compiler.runtime()
	require.NoError(t, err)
	for _, p := range parts {
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(p)), text, 0o666))
	}
	return dir
}

// A source that was compiled needs no compiler to run again.
func TestCacheWithoutCompiling(t *testing.T) {
	dir := cacheWithRuntime(t)
	d := open(t, Options{Cache: dir})
	_, err := d.NewLibrary(countSource)
	require.NoError(t, err)
	script := filepath.Join(dir, "clang")
	real := d.compiler.clang
	require.NoError(t, os.WriteFile(script, []byte(fmt.Sprintf("#!/bin/sh\ncase $1 in --version|-dumpversion) exec %s $1;; esac\nexit 1\n", real)), 0o755))
	again, err := Open(Options{Cache: dir, Clang: script})
	if err != nil && strings.Contains(err.Error(), "linker") {
		sharedtest.Missing(t, fmt.Errorf("lld is found only beside clang, which this test replaces: %w", err))
	}
	require.NoError(t, err)
	_, err = again.NewLibrary(countSource)
	assert.NoError(t, err)
	_, err = again.NewLibrary(countSource + "\n")
	assert.Error(t, err)
	require.NoError(t, again.Close())
}

// Everything compiles for the other processor as well, as far as can be seen from here.
func TestOtherProcessors(t *testing.T) {
	d := open(t, Options{})
	for _, arch := range []string{"amd64", "arm64"} {
		if arch == runtime.GOARCH {
			continue
		}
		c := *d.compiler
		c.arch, c.cache = arch, t.TempDir()
		_, err := c.runtime()
		require.NoError(t, err)
		u, err := c.translate(featureSource)
		require.NoError(t, err)
		text, err := u.runText()
		require.NoError(t, err)
		for _, v := range []Variant{Fast, Check} {
			_, err = c.clangRun(text, append(v.flags(), "-O0", "-include", "metal.h", "-c", "-o", filepath.Join(c.cache, "a.o"))...)
			require.NoError(t, err, "%s %s", arch, v)
		}
	}
}

// What the strict pass refuses is refused every time, though clang would compile it.
func TestCacheKeepsNothingRefused(t *testing.T) {
	dir := cacheWithRuntime(t)
	d := open(t, Options{Cache: dir})
	for range 2 {
		_, err := d.NewLibrary("#include <metal_stdlib>\nkernel void k(device float *x [[buffer(0)]], constant float *y [[buffer(1)]]) { device const float *z = y; x[0] = z[0]; }")
		assert.ErrorContains(t, err, "library.metal:2:")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, f := range left {
		assert.NotContains(t, f, "library-")
		assert.NotContains(t, f, "new-")
	}
}

// What is old leaves the cache, what is used stays, and what is not ours is not touched.
func TestPrune(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{
		"library-old.so": 31 * 24 * time.Hour, "library-new.so": 29 * 24 * time.Hour, "library-used.so": 31 * 24 * time.Hour,
		"new-left": 2 * time.Hour, "new-busy": time.Minute, "other": 1000 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o644))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	assert.True(t, inCache(filepath.Join(dir, "library-used.so")))
	assert.False(t, inCache(filepath.Join(dir, "library-absent.so")))
	prune(dir, now)
	var left []string
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		left = append(left, f.Name())
	}
	assert.Equal(t, []string{"library-new.so", "library-used.so", "new-busy", "other"}, left)
}
