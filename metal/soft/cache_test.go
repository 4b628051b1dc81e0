package soft

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCache: compiled code is cached by content: the same source is not compiled again, another variant or text is, and
// concurrent writes of several devices give complete files.
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
