package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The exit codes, beside those of an [interruption].
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

	// patience is how long a run that needed no answer waits for its first attempt to connect, from when that began.
	patience time.Duration

	// bandwidth measures that of memory in 1e9 bytes per second, as [result.Bandwidth] does.
	bandwidth func() float64

	commands func(*app) []*cobra.Command // new ones, in the order of the help

	command *cobra.Command    // at work; nil before
	settled map[string]string // flags that are not from the command line, and where they are from
}

// newApp is the world as it is, with the three streams that are given.
func newApp(commands func(*app) []*cobra.Command, stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{commands: commands, stdin: stdin, stdout: stdout, stderr: stderr, env: os.Getenv,
		patience: 500 * time.Millisecond, bandwidth: result.Bandwidth}
}

// runMain is the main function of a program with such commands.
func runMain(commands func(*app) []*cobra.Command) {
	obeyEscapes(os.Stdout)
	ctx, stop := watchSignals(context.Background())
	code := newApp(commands, os.Stdin, os.Stdout, os.Stderr).run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs the one of its commands that args name, and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.stdout = &output{w: a.stdout}
	return a.execute(ctx, newRootCommand(a), args)
}

// execute runs the command of the tree that args name, prints its error and returns the exit code.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would take the process's own
	a.watchBegin(root)

	cmd, err := root.ExecuteContextC(ctx)
	if stopped := (*interruption)(nil); errors.As(context.Cause(ctx), &stopped) {
		return a.interrupted(stopped, err)
	}
	if wrong := (*usageError)(nil); err != nil && (a.command == nil || errors.As(err, &wrong)) {
		fmt.Fprintf(a.stderr, "pilotfish: %v%s\nusage: %s\nTry '%s --help'.\n", err, a.origin(err.Error()),
			cmd.UseLine(), cmd.CommandPath())
		return exitUsage
	}
	if unwritten, silent := a.outputError(); silent {
		return exitFailed
	} else if unwritten != nil {
		err = unwritten // whatever else went wrong is a consequence
	}
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(a.stderr, "pilotfish: %v\n", err)
	return exitFailed
}

// interrupted says that a signal ended the command, and what was done until then where its error tells. A gateway that
// SIGTERM has ended in order has done what it was started for.
func (a *app) interrupted(stopped *interruption, err error) int {
	if err == nil && stopped.signal == syscall.SIGTERM {
		return exitDone
	}
	if err != nil {
		errors.As(err, &stopped)
		fmt.Fprintf(a.stderr, "pilotfish: %v\n", stopped)
	}
	return stopped.code()
}

// watchBegin notes in a.command which command of the tree began its work, and profiles that work where flags say so.
// Whatever cobra refuses before it begins (unknown commands and flags, bad values, missing arguments) is wrong usage.
func (a *app) watchBegin(root *cobra.Command) {
	var wrap func(c *cobra.Command)
	wrap = func(c *cobra.Command) {
		prepare := c.PreRunE
		c.PreRunE = func(c *cobra.Command, args []string) error {
			if prepare != nil {
				if err := prepare(c, args); err != nil {
					return err
				}
			}
			return missingFlags(c)
		}
		if work := c.RunE; work != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				a.command = c
				if allFlags(c) {
					return usagef("--all goes with --help: add that, or leave it out")
				}
				if err := checkSpans(c.Flags()); err != nil {
					return err
				}
				if err := a.findModels(c); err != nil {
					return err
				}
				stop, err := startProfile(c)
				if err != nil {
					return err
				}
				err = work(c, args)
				if failed := stop(err); failed != nil {
					err = errors.Join(err, failed)
				}
				return modelHint(c, err)
			}
		}
		for _, sub := range c.Commands() {
			wrap(sub)
		}
	}
	wrap(root)
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
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// modelHint adds to the error of a model that is not there which flag named it, and what could be.
func modelHint(c *cobra.Command, err error) error {
	missing, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(missing, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"model", "large", "tokenizer"} {
		if flag := c.Flags().Lookup(name); flag != nil && flag.Changed && flag.Value.String() == missing.Path {
			return fmt.Errorf("--%s: %w: give the path of a GGUF file, or the name of a downloaded model "+
				"(\"pilotfish list\" shows them)", name, err)
		}
	}
	return err
}
