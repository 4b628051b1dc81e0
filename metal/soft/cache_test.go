package soft

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// TestCache: compiled code is cached by content: the same source is not compiled again, another variant or text is, and
// concurrent writes of several devices give complete files.
func TestCache(t *testing.T) {
	racing.Spare(t)
	open(t, Options{})
	dir := held.TempDir(t)
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

// TestNotLoaded: a library that is refused, or that is compiled while the device is closed, does not stay in memory.
func TestNotLoaded(t *testing.T) {
	open(t, Options{})
	d, err := Open(Options{})
	require.NoError(t, err)
	path, err := d.compiler.Build(countSource, Fast)
	require.NoError(t, err)
	_, err = d.cachedModule(path) // it needs libm
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	libm, err := os.ReadFile(regexp.MustCompile(`/\S+/libm\.so\.6`).FindString(string(maps)))
	require.NoError(t, err)
	other := filepath.Join(held.TempDir(t), "other.so")
	require.NoError(t, os.WriteFile(other, libm, 0o644))
	_, err = d.cachedModule(other)
	require.ErrorContains(t, err, "load compiled kernels: ")

	require.NoError(t, d.Close())
	_, err = d.cachedModule(path)
	assert.ErrorIs(t, err, metal.ErrClosed)
}

// TestCloseUnmaps: a device that is closed leaves no memory mapped, whether its buffers were closed or not, and maps
// none afterwards.
func TestCloseUnmaps(t *testing.T) {
	open(t, Options{})
	mapped := func() (pages int) {
		statm, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(statm), &pages)
		require.NoError(t, err)
		return pages
	}
	for _, o := range []Options{{}, {Variant: Check}, {Variant: Check, PoisonBuffers: true}} {
		before := mapped()
		for i := range 4 {
			d, err := Open(o)
			require.NoError(t, err)
			for range 2 {
				b, err := d.NewBuffer(1 << 22)
				require.NoError(t, err)
				if i%2 == 0 {
					b.Close()
				}
			}
			require.NoError(t, d.Close())
			for range 2 {
				_, err := d.NewBuffer(1 << 26)
				require.ErrorIs(t, err, metal.ErrClosed)
			}
		}
		assert.Less(t, (mapped()-before)*os.Getpagesize(), 1<<27, "%+v", o)
	}
}
