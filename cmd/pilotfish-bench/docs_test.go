package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestDocumentedFlags: docs/use/commands.md has a row for every command, and every flag there exists.
func TestDocumentedFlags(t *testing.T) {
	_, rows, found := strings.Cut(clitest.RepositoryFile(t, "docs/use/commands.md"), "\n## Measuring")
	require.True(t, found)
	rows, _, found = strings.Cut(rows, "\n## ")
	require.True(t, found)
	clitest.DocumentedFlags(t, rows, map[string]string{"docs/use/commands.md": clitest.InlineCode(rows)}, "")
}
