package files

import (
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestLock: one caller has the lock until it releases it, and then no file is left. Releasing it again does not take it
// from the next holder.
func TestLock(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "a.lock")
	unlock, err := Lock(path)
	require.NoError(t, err)
	_, err = Lock(path)
	require.ErrorIs(t, err, ErrHeld)
	assert.ErrorContains(t, err, path)
	unlock()
	assert.NoFileExists(t, path)
	next, err := Lock(path)
	require.NoError(t, err)
	unlock()
	_, err = Lock(path)
	require.ErrorIs(t, err, ErrHeld)
	next()
	assert.NoFileExists(t, path)
	_, err = Lock(filepath.Join(path, "none", "x"))
	assert.Error(t, err)
	assert.NotErrorIs(t, err, ErrHeld)
}

// TestSyncFolder: the folder is flushed, which /proc refuses, and not kept open. A missing one is an error.
func TestSyncFolder(t *testing.T) {
	dir := held.TempDir(t)
	require.NoError(t, SyncFolder(filepath.Join(dir, "a")))
	assert.Error(t, SyncFolder(filepath.Join(dir, "none", "a")))
	if runtime.GOOS == "linux" {
		assert.Error(t, SyncFolder("/proc/a"))
	}
}

// TestLockAtOnce: of many concurrent callers, never two have the lock.
func TestLockAtOnce(t *testing.T) {
	path := filepath.Join(held.TempDir(t), "a.lock")
	var holders, had atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				unlock, err := Lock(path)
				if err != nil {
					assert.ErrorIs(t, err, ErrHeld)
					continue
				}
				assert.EqualValues(t, 1, holders.Add(1))
				had.Add(1)
				for range 20 { // so that others try
					runtime.Gosched()
				}
				assert.FileExists(t, path, "the holder before has not removed it late")
				holders.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	assert.Positive(t, had.Load())
}
