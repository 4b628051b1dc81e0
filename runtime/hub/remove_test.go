package hub

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/held"
)

// TestLockAll: all files stay locked until all are unlocked, and none is after a failure.
func TestLockAll(t *testing.T) {
	dir := held.TempDir(t)
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	unlock, err := lockAll(paths)
	require.NoError(t, err)
	for _, p := range paths {
		_, err := lockAll([]string{p})
		assert.ErrorIs(t, err, ErrBusy, p)
	}
	unlock()
	last, err := lockAll(paths[2:])
	require.NoError(t, err)
	_, err = lockAll(paths)
	require.ErrorIs(t, err, ErrBusy)
	first, err := lockAll(paths[:2])
	require.NoError(t, err)
	first()
	last()
}
