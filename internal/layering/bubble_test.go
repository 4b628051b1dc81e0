package layering

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBubbles: tests with virtual time use internal/bubble, because synctest alone may crash the race detector.
func TestBubbles(t *testing.T) {
	entered := 0
	eachFile(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") || path == "internal/layering/bubble_test.go" {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		assert.False(t, bytes.Contains(text, []byte("synctest.Test(")), "%s: use bubble.Test", path)
		entered += bytes.Count(text, []byte("bubble.Test("))
	})
	assert.Positive(t, entered)
}
