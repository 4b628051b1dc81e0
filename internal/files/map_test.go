package files

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMap: the bytes are those of the beginning of the file, also when it is closed, and are released once.
func TestMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mapped-file")
	text := strings.Repeat("0123456789abcdef", 1000)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for _, n := range []int{1, 4096, 4097, len(text)} {
		f, err := os.Open(path)
		require.NoError(t, err)
		b, release, err := Map(f, n)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		assert.Equal(t, text[:n], string(b))
		if runtime.GOOS == "linux" {
			listed := func() bool {
				maps, err := os.ReadFile("/proc/self/maps")
				require.NoError(t, err)
				return strings.Contains(string(maps), path)
			}
			assert.Equal(t, Mapped, listed())
			require.NoError(t, release())
			assert.False(t, listed(), "released")
		} else {
			require.NoError(t, release())
		}
	}
	folder, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer folder.Close()
	_, _, err = Map(folder, 1)
	assert.Error(t, err, "a folder")
}
