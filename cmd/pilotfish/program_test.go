//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// printers returns calls of every command that prints something.
func printers(t *testing.T) [][]string {
	m := clitest.TinyModel(t, "q8_0")
	var all [][]string
	for _, call := range []string{
		"--help", "help", "version", "version --json", "completion bash", "demo --help", "demo", "inspect M",
		"inspect M --json", "tokenize -m M hello", "logits -m M --tokens 1", "logits -m M --tokens 1 --json",
	} {
		var args []string
		for _, a := range strings.Fields(call) {
			args = append(args, strings.ReplaceAll(a, "M", m))
		}
		all = append(all, args)
	}
	return all
}

// TestUnwritableStdout: with a full stdout every command ends with one line and exit status 1; with a closed one with
// exit status 1, silently.
func TestUnwritableStdout(t *testing.T) {
	if testing.Short() {
		t.Skip("commands one after another: not with -short")
	}
	for _, args := range printers(t) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, read.Close())
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("this system has no /dev/full")
		}
		for out, lines := range map[*os.File]int{full: 1, write: 0} {
			var stderr bytes.Buffer
			c := clitest.Program(t, args...)
			c.Stdout, c.Stderr = out, &stderr
			_ = c.Run() // the exit code says how it ended
			assert.Equal(t, cli.ExitFailed, c.ProcessState.ExitCode(), "%v: %s", args, &stderr)
			assert.Len(t, clitest.Failures(stderr.String()), lines, "%v: %s", args, &stderr)
			assert.Equal(t, lines == 1, strings.Contains(stderr.String(), "no space left on device"), args)
			require.NoError(t, out.Close())
		}
	}
}
