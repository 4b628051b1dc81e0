package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBandwidth: outside of tests it is what the machine does.
func TestBandwidth(t *testing.T) {
	racing.Spare(t)
	assert.Greater(t, newApp(nil, nil, nil, nil).bandwidth(), 0.1)
}

func TestMain(m *testing.M) { testMain(m, commands) }

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stdout string // both are parts of the text; "" means none at all
		stderr string
	}{
		{"", exitUsage, "", "no command given"},
		{"frob", exitUsage, "", `there is no command "frob"`},
		{"versoin", exitUsage, "", "did you mean version?"},
		{"--frob", exitUsage, "", "unknown flag: --frob"},
		{"version --frob", exitUsage, "", "Try 'pilotfish version --help'."},
		{"version more", exitUsage, "", "usage: pilotfish version"},
		{"version", exitDone, "pilotfish ", ""},
		{"--version", exitDone, "pilotfish version ", ""},
		{"--help", exitDone, "\nCommands:\n", ""},
		{"help", exitDone, "\nCommands:\n", ""},
		{"help version", exitDone, "Examples:\n  pilotfish version", ""},
		{"help bench engine", exitDone, "pilotfish bench engine -m FILE", ""},
		{"__complete help bench e", exitDone, "engine\t", "NoFileComp"},
		{"version --help", exitDone, "Examples:\n  pilotfish version", ""},
		{"completion bash", exitDone, "bash completion V2 for pilotfish", ""},
		{"completion zsh", exitDone, "#compdef pilotfish", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := call(t, strings.Fields(c.args)...)
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

// Every command of the tree has a line of help and an example of how to call it.
func TestEveryCommandShowsAnExample(t *testing.T) {
	root := newRootCommand(&app{commands: commands, stdout: io.Discard, stderr: io.Discard})
	for _, c := range root.Commands() {
		if c.Name() == "completion" || c.Name() == "help" {
			continue // cobra's own
		}
		assert.NotEmpty(t, c.Short, c.Name())
		assert.Contains(t, c.Example, "pilotfish "+c.Name(), c.Name())
	}
}

func TestVersionJSON(t *testing.T) {
	code, stdout, _ := call(t, "version", "--json")
	require.Equal(t, exitDone, code)
	var b build
	require.NoError(t, json.Unmarshal([]byte(stdout), &b))
	assert.Equal(t, readBuild(), b)
	assert.NotEmpty(t, b.Version)
}

// What a command returns decides between 1 and 2, and an interrupted command says so.
func TestErrorsOfCommands(t *testing.T) {
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(&interruption{signal: os.Interrupt})
	terminated, terminate := context.WithCancelCause(t.Context())
	terminate(&interruption{signal: syscall.SIGTERM})
	progress := &interruption{signal: os.Interrupt, progress: "3 of 7 questions are answered in all modes"}
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		code   int
		stderr string
	}{
		{"none", t.Context(), nil, exitDone, ""},
		{"failure", t.Context(), io.ErrUnexpectedEOF, exitFailed, "pilotfish: unexpected EOF\n"},
		{"usage", t.Context(), usagef("-a excludes -b"), exitUsage,
			"pilotfish: -a excludes -b\nusage: root\nTry 'root --help'.\n"},
		{"interrupt", interrupted, context.Canceled, 130, "pilotfish: interrupted\n"},
		{"interrupt of a part", interrupted, fmt.Errorf("paper: %w", context.Cause(interrupted)), 130,
			"pilotfish: interrupted\n"},
		{"interrupt with progress", interrupted, errors.Join(nil, progress), 130,
			"pilotfish: interrupted: 3 of 7 questions are answered in all modes\n"},
		{"interrupt of a server that ends in order", interrupted, nil, 130, ""},
		{"terminate", terminated, context.Canceled, 143, "pilotfish: terminated\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			a := &app{stderr: &stderr}
			root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
				RunE: func(*cobra.Command, []string) error { return c.err }}
			assert.Equal(t, c.code, a.execute(c.ctx, root, nil))
			assert.Equal(t, c.stderr, stderr.String())
		})
	}
}
