package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBandwidth: outside of tests the bandwidth of the machine is measured.
func TestBandwidth(t *testing.T) {
	racing.Spare(t)
	assert.Greater(t, New(nil, nil, nil, nil).Bandwidth(), 0.1)
}

// TestModelHint: only the error of a missing model has the flag and what to give.
func TestModelHint(t *testing.T) {
	c := new(cobra.Command)
	Add(c.Flags(), "large", new(string), "")
	assert.NoError(t, c.ParseFlags([]string{"--large", "m"}))
	assert.ErrorContains(t, modelHint(c, &fs.PathError{Path: "m", Err: fs.ErrNotExist}), "--large: ")
	for _, err := range []error{&fs.PathError{Path: "m", Err: fs.ErrPermission}, &fs.PathError{Err: fs.ErrNotExist}} {
		assert.Equal(t, err, modelHint(c, err))
	}
}

// TestErrorsOfCommands: the error of a command selects exit status 1 or 2, and an interrupted command reports it.
func TestErrorsOfCommands(t *testing.T) {
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(&Interruption{Signal: os.Interrupt})
	terminated, terminate := context.WithCancelCause(t.Context())
	terminate(&Interruption{Signal: syscall.SIGTERM})
	progress := &Interruption{Signal: os.Interrupt, Progress: "3 of 7 questions are answered in all modes"}
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		code   int
		stderr string
	}{
		{"none", t.Context(), nil, ExitDone, ""},
		{"failure", t.Context(), io.ErrUnexpectedEOF, ExitFailed, "pilotfish: unexpected EOF\n"},
		{"usage", t.Context(), Usagef("-a excludes -b"), ExitUsage,
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
			a := &App{Stderr: &stderr}
			root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
				RunE: func(*cobra.Command, []string) error { return c.err }}
			assert.Equal(t, c.code, a.execute(c.ctx, root, nil))
			assert.Equal(t, c.stderr, stderr.String())
		})
	}
}
