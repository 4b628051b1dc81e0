package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
)

// TestProfiledCommands: every command that runs for long has --profile.
func TestProfiledCommands(t *testing.T) {
	for _, name := range cli.ProfiledCommands() {
		c, rest, err := cli.NewRootCommand(&cli.App{Commands: allCommands}).Find(strings.Fields(name))
		require.NoError(t, err)
		assert.Empty(t, rest, name)
		assert.NotNil(t, c.Flags().Lookup("profile"), name)
	}
}
