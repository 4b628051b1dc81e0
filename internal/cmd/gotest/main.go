// Command gotest runs go test with its arguments, shows the output of go test, and adds a list of the skipped tests
// with the reasons.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run runs go test -json with args and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(stderr, "gotest:", err)
		return 1
	}
	r := newReport(stdout)
	readErr := r.read(events)
	err = cmd.Wait()
	r.leftOut()
	if readErr != nil {
		fmt.Fprintln(stderr, "gotest:", readErr)
		return 1
	}
	if err != nil {
		return max(cmd.ProcessState.ExitCode(), 1)
	}
	return 0
}
