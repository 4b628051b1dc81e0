package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
)

// TestReadmeProgram: the Go program in the README builds.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	readme := clitest.RepositoryFile(t, "README.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		dir := t.TempDir()
		file := filepath.Join(dir, "main.go")
		require.NoError(t, os.WriteFile(file, []byte(block[1]), 0o600))
		build := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), file) // in this module
		out, err := build.CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}

// TestDocumentedFlags: docs/use/commands.md has a row for every command, and every flag in it, in the README and in
// what is for operators exists.
func TestDocumentedFlags(t *testing.T) {
	before, rest, found := strings.Cut(clitest.RepositoryFile(t, "docs/use/commands.md"), "\n## Measuring")
	require.True(t, found)
	_, after, found := strings.Cut(rest, "\n## ")
	require.True(t, found)
	pages := map[string]string{"docs/use/commands.md": clitest.InlineCode(before + after),
		"README.md": clitest.InlineCode(clitest.RepositoryFile(t, "README.md"))}
	for _, name := range []string{"gateway.md", "deploy/pilotfish-cloud.service", "deploy/compose.yaml",
		"deploy/Dockerfile", "deploy/cloud.yaml"} {
		pages[name] = clitest.RepositoryFile(t, "docs/operate/"+name)
	}
	clitest.DocumentedFlags(t, before, pages, "chown from system shell now model-path host port")
}
