package layering

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBubbles: virtual time is entered through internal/bubble, or the race detector may crash.
func TestBubbles(t *testing.T) {
	const root = "../.."
	entered := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "bubble_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		assert.False(t, bytes.Contains(text, []byte("synctest.Test(")), "%s: use bubble.Test", path)
		entered += bytes.Count(text, []byte("bubble.Test("))
		return nil
	})
	require.NoError(t, err)
	assert.Positive(t, entered)
}
