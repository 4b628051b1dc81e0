package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// app is what a command may touch of the world around it.
type app struct {
	stdin  io.Reader
	stdout io.Writer               // the text that was asked for
	stderr io.Writer               // everything else
	env    func(key string) string // os.Getenv
}

// run runs the command that args name and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	return a.execute(ctx, newRootCommand(a), args)
}

// execute runs the command of the tree that args name, prints its error and returns the exit code.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would take the process's own
	began := watchBegin(root)

	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var wrong *usageError
	if !*began || errors.As(err, &wrong) {
		fmt.Fprintf(a.stderr, "pilotfish: %v\nusage: %s\nTry '%s --help'.\n", err, cmd.UseLine(), cmd.CommandPath())
		return exitUsage
	}
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil && !errors.Is(err, cause) {
		err = cause // such as "interrupt signal received", which says more than "context canceled"
	}
	fmt.Fprintf(a.stderr, "pilotfish: %v\n", err)
	return exitFailed
}

// watchBegin reports through its result whether a command of the tree began its work. Whatever cobra refuses before that
// (unknown commands and flags, bad values, missing arguments) is wrong usage.
func watchBegin(root *cobra.Command) *bool {
	began := new(bool)
	var wrap func(c *cobra.Command)
	wrap = func(c *cobra.Command) {
		if work := c.RunE; work != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				*began = true
				return work(c, args)
			}
		}
		for _, sub := range c.Commands() {
			wrap(sub)
		}
	}
	wrap(root)
	return began
}

// usageError is a wrong call that only the command itself could find out, such as two flags that exclude each other.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef is fmt.Errorf for a wrong call: the program exits with 2 and points at the help.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// printJSON writes v to stdout as one line.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// isTerminal reports whether w, one of the app's writers, is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
