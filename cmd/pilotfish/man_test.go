package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManPages: every command has a man page with its flags. With PILOTFISH_MAN they are written to that folder, which
// is how `make man` works. A test does this so that the program need not link the generator.
func TestManPages(t *testing.T) {
	dir := os.Getenv("PILOTFISH_MAN")
	if dir == "" {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	root := cli.NewRootCommand(&cli.App{Commands: allCommands, Env: os.Getenv})
	root.DisableAutoGenTag = true
	var indent func(c *cobra.Command)
	indent = func(c *cobra.Command) {
		c.Long = manText(c.Long)
		for _, sub := range c.Commands() {
			indent(sub)
		}
	}
	indent(root)
	header := doc.GenManHeader{Title: "PILOTFISH", Section: "1", Source: "Pilotfish", Manual: "Pilotfish"}
	require.NoError(t, doc.GenManTree(root, &header, dir))
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		require.NoError(t, err)
		assert.Contains(t, string(page), ".SH SYNOPSIS", c.CommandPath())
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	chat, err := os.ReadFile(filepath.Join(dir, "pilotfish-chat.1"))
	require.NoError(t, err)
	assert.Contains(t, string(chat), `--no-history`)
	assert.Contains(t, string(chat), "[PILOTFISH_CLOUD]")
	first, err := os.ReadFile(filepath.Join(dir, "pilotfish.1"))
	require.NoError(t, err)
	assert.Contains(t, string(first), ".EX\n0    success\n1    failure; ", "a list stays a list")
}

// manText formats lists in a help text, which would become paragraphs, as blocks of lines that fit on a page.
func manText(long string) string {
	var out []string
	before := false
	for line := range strings.SplitSeq(cli.Reflow(long, 72), "\n") {
		list := strings.HasPrefix(line, "  ") || before && line == ""
		if list != before {
			out = append(out, "")
		}
		if before = list; list && line != "" {
			line = "  " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
