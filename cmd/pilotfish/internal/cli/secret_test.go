package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSecret: an empty access token is an error, not a missing one.
func TestSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(" from the file\n"), 0o600))
	for _, c := range []struct {
		variable  string // "-": not set
		file      string // "-": not given
		content   string
		want, err string
	}{
		{"-", "-", "", "", ""},
		{"from the variable ", "-", "", "from the variable", ""},
		{"", "-", "", "", "PILOTFISH_TOKEN"},
		{" \n", "-", "", "", "PILOTFISH_TOKEN"},
		{"from the variable", file, " from the file\n", "from the file", ""},
		{"from the variable", "", "", "", "--token-file"},
		{"from the variable", file, "", "", file},
		{"-", file, "\n \n", "", file},
		{"-", file, "one\ntwo\n", "", "more than one line"},
		{"-", "/nowhere/t", "", "", "/nowhere/t"},
	} {
		t.Setenv("PILOTFISH_TOKEN", c.variable)
		if c.variable == "-" {
			require.NoError(t, os.Unsetenv("PILOTFISH_TOKEN"))
		}
		require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
		path, given := c.file, c.file != "-"
		if !given {
			path = ""
		}
		secret, found, err := (&App{}).Secret(path, given)
		assert.Equal(t, c.want, secret)
		assert.Equal(t, c.want != "", found)
		if c.err == "" {
			assert.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.err)
		assert.NotContains(t, err.Error(), "two")
	}
}
