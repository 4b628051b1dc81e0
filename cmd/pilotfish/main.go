// Command pilotfish runs a small language model on this device and asks a large one for the few tokens that matter.
//
// Text goes to stdout and everything else to stderr. It exits with 0 when done, 1 when something failed and 2 when it
// was called the wrong way.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends a command that is slow to stop
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the command that args name, without the program's own name, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: os.Getenv}
	return a.run(ctx, args)
}
