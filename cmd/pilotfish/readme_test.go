package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page returns a file of the repository.
func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", name))
	require.NoError(t, err)
	return string(b)
}

// TestReadmeProgram: the Go program in the README builds.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page(t, "README.md"), -1)
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
	rows := page(t, "docs/use/commands.md")
	// flags of other programs, or of every command
	known := map[string]bool{"help": true, "version": true, "all": true}
	for _, name := range strings.Fields("chown from system shell now model-path host port") {
		known[name] = true
	}
	flagsOfCommands(func(c *cobra.Command, flags []*pflag.Flag) {
		for _, f := range flags {
			known[f.Name] = true
		}
		if name := strings.TrimPrefix(c.CommandPath(), "pilotfish "); c.HasParent() && c.Runnable() &&
			name != "version" {
			assert.Regexp(t, "\n\\| `"+name+"[ `]", rows, "a row for %s", name)
		}
	})
	n := 0
	for name, place := range map[string]string{
		"docs/use/commands.md": "`[^`\n]*--[^`\n]*`", "README.md": "`[^`\n]*--[^`\n]*`",
		"docs/operate/gateway.md":                     ".*",
		"docs/operate/deploy/pilotfish-cloud.service": ".*", "docs/operate/deploy/compose.yaml": ".*",
		"docs/operate/deploy/Dockerfile": ".*", "docs/operate/deploy/cloud.yaml": ".*",
	} {
		for _, found := range regexp.MustCompile(place).FindAllString(page(t, name), -1) {
			for _, flag := range regexp.MustCompile(`(?:^|[\s"\x60(])--([a-z][a-z-]+)`).FindAllStringSubmatch(found,
				-1) {
				n++
				assert.True(t, known[flag[1]], "--%s in %s", flag[1], name)
			}
		}
	}
	assert.Greater(t, n, 100)
}
