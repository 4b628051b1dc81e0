package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json, with the fields that are used here.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// report writes the usual output of go test, and records the skipped tests.
type report struct {
	w       io.Writer
	output  map[[2]string][]string // package and test to the lines of a running test
	ended   int
	reasons []string            // of skips, in order of occurrence
	skipped map[string][]string // reason to "package.Test"
	total   int                 // of skipped
	whole   []testName          // those without a short form
}

// testName is a test of a package, no subtest.
type testName struct{ in, name string }

func newReport(w io.Writer) *report {
	return &report{w: w, output: map[[2]string][]string{}, skipped: map[string][]string{}}
}

func (r *report) readEvents(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.handleLine(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) handleLine(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		r.w.Write(line)
		return
	}
	key := [2]string{e.Package, e.Test}
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
		io.WriteString(r.w, e.Output)
	case e.Action == "output" && e.Test != "":
		r.output[key] = append(r.output[key], e.Output)
	case e.Test == "":
	case e.Action == "fail":
		r.finishTest(key, func(o []string) { io.WriteString(r.w, strings.Join(o, "")) })
	case e.Action == "skip":
		r.finishTest(key, func(o []string) { r.recordSkip(e, o) })
	case e.Action == "pass":
		r.finishTest(key, func([]string) {})
	}
}

func (r *report) finishTest(key [2]string, use func(output []string)) {
	use(slices.DeleteFunc(r.output[key], func(s string) bool { return strings.HasPrefix(s, "=== ") }))
	delete(r.output, key)
	r.ended++
}

// position matches the beginning of a line in a test's log.
var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// noShortForm ends the reason of a test that is skipped with -short.
const noShortForm = ": not with -short"

// recordSkip records a skipped test: its reason is the last line of its log.
func (r *report) recordSkip(e event, output []string) {
	reason := "no reason given"
	for _, line := range output {
		if at := position.FindStringIndex(line); at != nil {
			reason = strings.TrimSpace(line[at[1]:])
		}
	}
	if strings.HasSuffix(reason, noShortForm) && !strings.Contains(e.Test, "/") {
		r.whole = append(r.whole, testName{e.Package, e.Test})
		r.ended--
		return
	}
	if _, known := r.skipped[reason]; !known {
		r.reasons = append(r.reasons, reason)
	}
	r.skipped[reason] = append(r.skipped[reason], e.Package+"."+e.Test)
	r.total++
}

func (r *report) printSkipped() {
	if r.total == 0 {
		return
	}
	fmt.Fprintf(r.w, "\n*** LEFT OUT: %d of %d tests did not run ***\n", r.total, r.ended)
	for _, reason := range r.reasons {
		fmt.Fprintf(r.w, "%s\n", reason)
		for _, name := range r.skipped[reason] {
			fmt.Fprintf(r.w, "    %s\n", name)
		}
	}
	fmt.Fprintln(r.w)
}
