// Command gotest runs go test with its arguments, shows the output of go test, and adds a list of the skipped tests
// with the reasons. With -short, tests that have no short form, which skip themselves as "not with -short", are run
// whole after the others.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	os.Exit(runTests(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// runTests runs go test -json with args, in which a flag and its value are one, and returns its exit code.
func runTests(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	r := newReport(stdout)
	code := r.runGoTest(ctx, args, stderr)
	if len(r.whole) > 0 {
		code = max(code, r.runGoTest(ctx, r.rerunArgs(args), stderr))
	}
	r.printSkipped()
	return code
}

func (r *report) runGoTest(ctx context.Context, args []string, stderr io.Writer) int {
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
	readErr := r.readEvents(events)
	err = cmd.Wait()
	if readErr != nil {
		fmt.Fprintln(stderr, "gotest:", readErr)
		return 1
	}
	if err != nil {
		return max(cmd.ProcessState.ExitCode(), 1)
	}
	return 0
}

// rerunArgs returns the arguments with which the tests without a short form are run: flags, and packages in place of
// patterns.
func (r *report) rerunArgs(args []string) (all []string) {
	for _, a := range args {
		if strings.HasPrefix(a, "-") && a != "-short" {
			all = append(all, a)
		}
	}
	var names, packages []string
	for _, t := range r.whole {
		names, packages = append(names, t.name), append(packages, t.in)
	}
	slices.Sort(packages)
	return append(append(all, "-run=^("+strings.Join(names, "|")+")$"), slices.Compact(packages)...)
}
