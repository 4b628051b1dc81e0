package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deployed reads a file of docs/deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy", name))
	require.NoError(t, err)
	return string(b)
}

// knownFlags returns the names of all flags of all commands.
func knownFlags() (all []string) {
	flagsOfCommands(func(_ *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			all = append(all, f.Name)
		}
	})
	return all
}

// TestDeployFlags: every flag in the files for operators exists.
func TestDeployFlags(t *testing.T) {
	known := knownFlags()
	operating, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	require.NoError(t, err)
	// flags of other programs, or of every command
	foreign := []string{"chown", "from", "system", "shell", "now", "model-path", "host", "port", "help", "all"}
	n := 0
	for _, text := range []string{deployed(t, "pilotfish-cloud.service"), deployed(t, "compose.yaml"),
		deployed(t, "Dockerfile"), deployed(t, "cloud.yaml"), string(operating)} {
		for _, found := range regexp.MustCompile(`(?:^|[\s"\x60(])--([a-z][a-z-]+)`).FindAllStringSubmatch(text, -1) {
			if name := found[1]; !slices.Contains(foreign, name) {
				n++
				assert.Contains(t, known, name)
			}
		}
	}
	assert.Greater(t, n, 25)
}
