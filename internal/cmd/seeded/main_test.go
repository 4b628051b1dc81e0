package main

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOverlay: all changes fit to the files of this Go.
func TestOverlay(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	path, err := writeOverlay(strings.TrimSpace(string(root)), t.TempDir())
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var overlay struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &overlay))
	assert.Len(t, overlay.Replace, 5)
	for original, changed := range overlay.Replace {
		before, err := os.ReadFile(original)
		require.NoError(t, err)
		after, err := os.ReadFile(changed)
		require.NoError(t, err)
		assert.NotEqual(t, string(before), string(after), original)
		_, err = parser.ParseFile(token.NewFileSet(), changed, after, parser.SkipObjectResolution)
		assert.NoError(t, err)
	}
}
