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
		name      string
		variable  string // "-": not set
		file      string // "-": not given
		content   string
		want, err string
	}{
		{"none", "-", "-", "", "", ""},
		{"the variable", "from the variable ", "-", "", "from the variable", ""},
		{"an empty variable", "", "-", "", "", "PILOTFISH_TOKEN"},
		{"a blank variable", " \n", "-", "", "", "PILOTFISH_TOKEN"},
		{"both", "from the variable", file, " from the file\n", "from the file", ""},
		{"an empty name", "from the variable", "", "", "", "--token-file"},
		{"an empty file", "from the variable", file, "", "", file},
		{"a blank file", "-", file, "\n \n", "", file},
		{"two lines", "-", file, "one\ntwo\n", "", "more than one line"},
		{"no file", "-", "/nowhere/t", "", "", "/nowhere/t"},
	} {
		t.Run(c.name, func(t *testing.T) {
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
				return
			}
			require.ErrorContains(t, err, c.err)
			assert.NotContains(t, err.Error(), "two")
		})
	}
}
