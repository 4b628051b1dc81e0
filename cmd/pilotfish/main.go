// Command pilotfish runs a small language model on this device and asks a large one for the few tokens that matter.
//
// Text goes to stdout and everything else to stderr. It exits with 0 when done, 1 when something failed, 2 when it was
// called the wrong way, and 130 or 143 when Ctrl-C or SIGTERM ended it.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	obeyEscapes(os.Stdout)
	ctx, stop := watchSignals(context.Background())
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the command that args name, without the program's own name, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newApp(stdin, stdout, stderr).execute(ctx, newRootCommand, args)
}
