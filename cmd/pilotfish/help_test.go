package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHelpWidth: help is wrapped at a readable width if stdout is not a terminal, and no text is lost.
func TestHelpWidth(t *testing.T) {
	flagsOfCommands(func(c *cobra.Command, flags []*pflag.Flag) {
		code, stdout, stderr := clitest.Call(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		require.Equal(t, cli.ExitDone, code, stderr)
		_, rest, _ := clitest.Call(t, append(strings.Fields(c.CommandPath())[1:], "--help", "--all")...)
		text := strings.Join(strings.Fields(stdout+rest), " ")
		assert.Contains(t, text, strings.Join(strings.Fields(c.Long), " "))
		for _, f := range flags {
			_, usage := pflag.UnquoteUsage(f)
			assert.Contains(t, text, strings.Join(strings.Fields(usage), " "), "%s --%s", c.CommandPath(), f.Name)
			o, ok := f.Value.(*cli.OptionsFlag)
			if !ok {
				continue
			}
			assert.Contains(t, text, "Options of --"+f.Name+", as NAME=VALUE:", c.CommandPath())
			o.VisitAll(func(option *pflag.Flag) {
				_, usage := pflag.UnquoteUsage(option)
				assert.Contains(t, text, strings.Join(strings.Fields(usage), " "), "%s --%s", c.CommandPath(), f.Name)
			})
		}
		for line := range strings.Lines(stdout) {
			// except for a command line
			if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "  pilotfish ") {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), cli.HelpColumns, "%s: %s", c.CommandPath(), line)
			}
		}
	})
}

// TestEveryCommandShowsAnExample: every command has a line of help and an example.
func TestEveryCommandShowsAnExample(t *testing.T) {
	flagsOfCommands(func(c *cobra.Command, _ []*pflag.Flag) {
		assert.NotEmpty(t, c.Short, c.Name())
		if c.HasParent() {
			assert.Contains(t, c.Example, c.CommandPath(), c.Name())
		}
	})
}

// TestHelpOfRun: the help of run is short and refers to the complete help.
func TestHelpOfRun(t *testing.T) {
	flags := func(text string) int { return len(regexp.MustCompile(`(?m)^ +(-\w, )?--\w`).FindAllString(text, -1)) }
	_, usual, _ := clitest.Call(t, "run", "--help")
	_, all, _ := clitest.Call(t, "run", "--help", "--all")
	assert.LessOrEqual(t, flags(usual), 17)
	assert.Less(t, flags(usual), flags(all)/2)
	assert.LessOrEqual(t, strings.Count(all, "\n"), 80)
}
