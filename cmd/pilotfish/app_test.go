package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { clitest.Main(m, commands) }

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout string // parts of the text; "" means no output
		stderr string
	}{
		{"", cli.ExitUsage, "", "no command given"},
		{"frob", cli.ExitUsage, "", `there is no command "frob"`},
		{"versoin", cli.ExitUsage, "", "did you mean version?"},
		{"--frob", cli.ExitUsage, "", "unknown flag: --frob"},
		{"version --frob", cli.ExitUsage, "", "Try 'pilotfish version --help'."},
		{"version more", cli.ExitUsage, "", "usage: pilotfish version"},
		{"version", cli.ExitDone, "pilotfish ", ""},
		{"--version", cli.ExitDone, "pilotfish version ", ""},
		{"--help", cli.ExitDone, "\nCommands:\n", ""},
		{"help", cli.ExitDone, "\nCommands:\n", ""},
		{"help version", cli.ExitDone, "Examples:\n  pilotfish version", ""},
		{"help bench engine", cli.ExitDone, "pilotfish bench engine -m FILE", ""},
		{"help frob", cli.ExitUsage, "", `there is no command "frob"`},
		{"help versoin", cli.ExitUsage, "", "did you mean version?"},
		{"help bench frob", cli.ExitUsage, "", `pilotfish bench has no command "frob"`},
		{"__complete help bench e", cli.ExitDone, "engine\t", "NoFileComp"},
		{"version --help", cli.ExitDone, "Examples:\n  pilotfish version", ""},
		{"completion bash", cli.ExitDone, "bash completion V2 for pilotfish", ""},
		{"completion zsh", cli.ExitDone, "#compdef pilotfish", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := clitest.Call(t, strings.Fields(c.args)...)
			assert.Equal(t, c.code, code)
			containsOrEmpty(t, stdout, c.stdout)
			containsOrEmpty(t, stderr, c.stderr)
		})
	}
}

func containsOrEmpty(t *testing.T, text, part string) {
	t.Helper()
	if part == "" {
		assert.Empty(t, text)
	}
	assert.Contains(t, text, part)
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

func TestVersionJSON(t *testing.T) {
	code, stdout, _ := clitest.Call(t, "version", "--json")
	require.Equal(t, cli.ExitDone, code)
	var b cli.Build
	require.NoError(t, json.Unmarshal([]byte(stdout), &b))
	assert.Equal(t, cli.ReadBuild(), b)
	assert.NotEmpty(t, b.Version)
}
