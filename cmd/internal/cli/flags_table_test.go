package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/flags.txt anew")

// TestDeclarations: which flags are in the short help, which are settings, which have a letter, which need or exclude
// other flags, and which values, files and ranges they have.
func TestDeclarations(t *testing.T) {
	const file = "testdata/flags.txt"
	var all strings.Builder
	for _, d := range Declarations() {
		d.Help = ""
		text := fmt.Sprintf("%+v", d)
		for _, zero := range []string{"Short: ", "Often:false ", "Env:false ", "Help: ", "Span: ", "Choices: ",
			"Values: ",
			"Files: ", "Empty:false ", "Needs: ", "Unless: ", "Excludes: ", "With:}"} {
			text = strings.ReplaceAll(text, zero, "")
		}
		if text = strings.Trim(text, "{} "); strings.Contains(text, " ") {
			fmt.Fprintln(&all, strings.TrimPrefix(text, "Name:"))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), all.String(), "if this is right: go test -run TestDeclarations -update")
}
