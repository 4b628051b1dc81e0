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
	whole   []test              // those without a short form
}

// test is a test of a package, no subtest.
type test struct{ in, name string }

func newReport(w io.Writer) *report {
	return &report{w: w, output: map[[2]string][]string{}, skipped: map[string][]string{}}
}

func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// line handles one event, and writes a line that is not an event.
func (r *report) line(line []byte) {
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
		r.end(key, func(o []string) { io.WriteString(r.w, strings.Join(o, "")) })
	case e.Action == "skip":
		r.end(key, func(o []string) { r.skip(e, o) })
	case e.Action == "pass":
		r.end(key, func([]string) {})
	}
}

// end passes the output of a test to use, without the lines that announce tests, and then drops it.
func (r *report) end(key [2]string, use func(output []string)) {
	use(slices.DeleteFunc(r.output[key], func(s string) bool { return strings.HasPrefix(s, "=== ") }))
	delete(r.output, key)
	r.ended++
}

// position matches the beginning of a line in a test's log.
var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// noShortForm ends the reason of a test that is skipped with -short.
const noShortForm = ": not with -short"

// skip records a skipped test: its reason is the last line of its log.
func (r *report) skip(e event, output []string) {
	reason := "no reason given"
	for _, line := range output {
		if at := position.FindStringIndex(line); at != nil {
			reason = strings.TrimSpace(line[at[1]:])
		}
	}
	if strings.HasSuffix(reason, noShortForm) && !strings.Contains(e.Test, "/") {
		r.whole = append(r.whole, test{e.Package, e.Test})
		r.ended--
		return
	}
	if _, known := r.skipped[reason]; !known {
		r.reasons = append(r.reasons, reason)
	}
	r.skipped[reason] = append(r.skipped[reason], e.Package+"."+e.Test)
	r.total++
}

// leftOut writes the skipped tests, by reason.
func (r *report) leftOut() {
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
