// Package cli has what all commands share: running the program, the declarations of flags, help, settings and output.
// It does not depend on any command.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes, besides those of an [Interruption].
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Program is a program of several commands.
type Program struct {
	Name     string                      // of its file
	Short    string                      // what it does, in a line
	Long     string                      // what it does, and how to begin
	Commands func(*App) []*cobra.Command // creates the commands, in the order of the help
	Profiled []string                    // the commands that can be profiled: those that run for long
}

// App is the environment of a command: its streams, environment variables and measured properties of the machine.
type App struct {
	Stdin  io.Reader
	Stdout io.Writer               // requested text
	Stderr io.Writer               // everything else
	Env    func(key string) string // os.Getenv

	// Patience limits how long a run that needed no answer waits for its first attempt to connect. It is measured from
	// the start of the attempt.
	Patience time.Duration

	// Bandwidth measures the bandwidth of memory in 1e9 bytes per second, as [record.Bandwidth] does.
	Bandwidth func() float64

	Program Program

	Command *cobra.Command    // the running command; nil before
	Settled map[string]string // sources of the flags that are not from the command line, by flag
}

// New returns an App for this process with the given streams.
func New(p Program, stdin io.Reader, stdout, stderr io.Writer) *App {
	return &App{Program: p, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: os.Getenv,
		Patience: 500 * time.Millisecond, Bandwidth: record.Bandwidth}
}

// Main is the main function of a program.
func Main(p Program) {
	enableEscapes(os.Stdout)
	ctx, stop := watchSignals(context.Background())
	code := New(p, os.Stdin, os.Stdout, os.Stderr).Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Run runs the command in args and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	a.Stdout = &Output{W: a.Stdout}
	return a.executeCommand(ctx, NewRootCommand(a), args)
}

func (a *App) executeCommand(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(append([]string{}, args...)) // never nil: cobra would use the arguments of the process
	a.wrapCommands(root)

	stderr := a.Stderr
	cmd, err := root.ExecuteContextC(ctx)
	a.Stderr = stderr // also after --quiet
	if stopped := (*Interruption)(nil); errors.As(context.Cause(ctx), &stopped) {
		return a.reportInterruption(stopped, err)
	}
	if wrong := (*UsageError)(nil); err != nil && (a.Command == nil || errors.As(err, &wrong)) {
		fmt.Fprintf(a.Stderr, "%s: %s%s\nusage: %s\nTry '%s --help'.\n", a.Program.Name, Harmless(err.Error()),
			a.settingOrigins(err.Error()), cmd.UseLine(), cmd.CommandPath())
		return ExitUsage
	}
	if unwritten, silent := a.OutputError(); silent {
		return ExitFailed
	} else if unwritten != nil {
		err = unwritten // other errors are a consequence of this one
	}
	if err == nil {
		return ExitDone
	}
	fmt.Fprintf(a.Stderr, "%s: %s\n", a.Program.Name, Harmless(err.Error())) // it may have the words of a peer
	return ExitFailed
}

// reportInterruption reports that a signal ended the command, with its progress if err has it. SIGTERM is the normal
// end of a gateway.
func (a *App) reportInterruption(stopped *Interruption, err error) int {
	if err == nil && stopped.Signal == syscall.SIGTERM {
		return ExitDone
	}
	if err != nil {
		errors.As(err, &stopped)
		fmt.Fprintf(a.Stderr, "%s: %v\n", a.Program.Name, stopped)
	}
	return stopped.exitCode()
}

// wrapCommands stores the command that begins to run in a.Command, and profiles it if flags request this. Errors of
// cobra before that (unknown commands and flags, bad values, missing arguments) are wrong usage.
func (a *App) wrapCommands(root *cobra.Command) {
	visitCommands(root, func(c *cobra.Command) {
		prepare := c.PreRunE
		c.PreRunE = func(c *cobra.Command, args []string) error {
			if quiet := c.Flags().Lookup("quiet"); quiet != nil && isFlagOn(quiet) {
				a.Stderr = io.Discard // errors are printed later
			}
			if prepare != nil {
				if err := prepare(c, args); err != nil {
					return err
				}
			}
			return checkRequiredFlags(c)
		}
		if work := c.RunE; work != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				a.Command = c
				if err := CheckFlags(c.Flags()); err != nil {
					return err
				}
				a.warnIdleFlags(c)
				if err := a.resolveModelFlags(c); err != nil {
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
				return addModelHint(c, err)
			}
		}
	})
}

// UsageError is wrong usage that only the command itself can detect, such as two flags that exclude each other.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef is fmt.Errorf for wrong usage: the program exits with 2 and refers to the help.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// PrintJSON writes v to stdout as one line.
func (a *App) PrintJSON(v any) error {
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// IsTerminal reports whether w, one of the app's writers, is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := underlyingFile(w)
	return ok && term.IsTerminal(int(f.Fd()))
}

func underlyingFile(w io.Writer) (f *os.File, ok bool) {
	switch to := w.(type) {
	case *Output:
		w = to.W
	case *Wrapper:
		return underlyingFile(to.out)
	}
	f, ok = w.(*os.File)
	return f, ok
}
