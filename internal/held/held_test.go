package held

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/mapfile"
)

// TestFiles: what is open and what is mapped is found, also when it has no name any more, and only in the folder.
func TestFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	dir := TempDir(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(a, make([]byte, 4096), 0o600))
	other, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer other.Close()
	assert.Empty(t, files(dir))

	before := Descriptors()
	open, err := os.Open(a)
	require.NoError(t, err)
	assert.Equal(t, before+1, Descriptors())
	_, unmap, err := mapfile.Map(open, 4096)
	require.NoError(t, err)
	assert.Equal(t, []string{"open " + a, "mapped " + a}, files(dir))
	require.NoError(t, os.Rename(a, b))
	require.NoError(t, os.Remove(b))
	assert.Equal(t, []string{"open " + b + " (deleted)", "mapped " + b + " (deleted)"}, files(dir))
	require.NoError(t, unmap())
	require.NoError(t, open.Close())
	assert.Empty(t, files(dir))
}
