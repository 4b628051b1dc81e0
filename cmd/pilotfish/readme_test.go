package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
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

// TestReadmeCommands: docs/commands.md has a row for every command, and all flags in it and in the README exist.
func TestReadmeCommands(t *testing.T) {
	text := page(t, "docs/commands.md")
	flags := []string{"help", "version"}
	var visit func(c *cobra.Command, path string)
	visit = func(c *cobra.Command, path string) {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		for _, sub := range c.Commands() {
			if name := sub.Name(); name != "completion" && name != "help" && name != "version" {
				if sub.Runnable() {
					assert.Regexp(t, "\n\\| `"+path+name+"[ `]", text, "a row for %s%s", path, name)
				}
				visit(sub, path+name+" ")
			}
		}
	}
	visit(cli.NewRootCommand(&cli.App{Commands: commands}), "")
	for _, found := range regexp.MustCompile("`[^`\n]*--[^`\n]*`").FindAllString(text+page(t, "README.md"), -1) {
		for _, flag := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(found, -1) {
			assert.True(t, slices.Contains(flags, flag[1]), "%s in %s", flag[0], strings.TrimSpace(found))
		}
	}
}
