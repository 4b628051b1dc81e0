package selfcheck

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Write prints the report as a page of text.
func (r *Report) Write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s on %s, %s\n\n", r.GPU, r.Machine.System, r.Machine.CPU)
	r.writeKernels(w)
	r.writeChecks(w)
	for _, t := range r.Texts {
		fmt.Fprintf(w, "%s\t%d tokens of %s: %s\n", mark(t.Failed()), t.Tokens, t.Model, orError(t.Error,
			"%d differ from the CPU's, by at most %.2g in logits; logits are off by %.1g", t.Differ, t.Gap, t.Off))
	}
	for _, f := range r.Faults {
		seen := orError(f.Seen, "the device reports no fault")
		fmt.Fprintf(w, "%s\t%s (%s): %s\n", mark(!f.Recovered), f.Kind, seen,
			orError(f.Error, "the next pass is right"))
	}
	m := r.Minute
	fmt.Fprintf(w, "%s\t%d tokens in %v: %s\n", mark(m.Failed()), m.Tokens, m.Took.Round(time.Second), orError(m.Error,
		"buffers %s before and %s after, heap %s and %s", megabytes(m.BuffersBefore), megabytes(m.BuffersAfter),
		megabytes(m.HeapBefore), megabytes(m.HeapAfter)))
	r.writeSpeed(w)
	verdict := "everything is right"
	if r.Failures > 0 {
		verdict = fmt.Sprintf("%d of these are wrong", r.Failures)
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
	return w.Flush()
}

func (r *Report) writeKernels(w io.Writer) {
	total, slowest, pipelines := time.Duration(0), Kernel{}, 0
	var unused []string
	for _, k := range r.Kernels {
		total += k.Took
		if k.Took > slowest.Took {
			slowest = k
		}
		if k.Name != "" {
			pipelines++
		}
		if k.Refused != "" {
			fmt.Fprintf(w, "%s\t%s, in another form than the first: %s\n", mark(false), k.title(), firstLine(k.Refused))
		}
		if k.Error != "" {
			fmt.Fprintf(w, "%s\t%s: %s\n", mark(true), k.title(), firstLine(k.Error))
		} else if k.Name != "" && k.Runs == 0 {
			unused = append(unused, k.Name)
		}
	}
	ran := "all of them ran"
	if len(unused) > 0 {
		ran = "never run: " + strings.Join(unused, " ")
	}
	fmt.Fprintf(w, "%s\t%d kernels from %d sources in %v of compiling, %s the longest with %v; %s\n", mark(false),
		pipelines, len(r.Kernels)-pipelines, total.Round(time.Millisecond), slowest.title(),
		slowest.Took.Round(time.Millisecond), ran)
}

func (k Kernel) title() string {
	if k.Name == "" {
		return strings.TrimSpace("the source " + k.Weights)
	}
	return k.Name
}

func (r *Report) writeChecks(w io.Writer) {
	worst := 0.0
	for _, k := range r.Checks {
		if worst = max(worst, k.Off); k.Failed() {
			fmt.Fprintf(w, "%s\t%s with %s weights, heads %s, keys in %s, %d rows: %s\n", mark(true), k.Operation,
				k.Weights, k.Heads, k.KV, k.Rows, orError(firstLine(k.Error), "off by %.2g", k.Off))
		}
	}
	bad := slices.ContainsFunc(r.Checks, Check.Failed)
	fmt.Fprintf(w, "%s\t%d passes through parts of a layer, off by at most %.1g from the exact CPU\n", mark(bad),
		len(r.Checks), worst)
}

func (r *Report) writeSpeed(w io.Writer) {
	for _, s := range r.Speed {
		what, limit, predicted := fmt.Sprintf("a prompt of %d", s.Rows), "at most", ""
		if s.Rows == 1 {
			what, limit = "decoding", "predicted"
		}
		if s.Predicted > 0 {
			predicted = fmt.Sprintf(" (%s %.0f)", limit, s.Predicted)
		}
		fmt.Fprintf(w, "%s\t%s with %s: %s\n", mark(s.Error != ""), what, s.Model, orError(s.Error,
			"%.1f tokens/s%s, weights at %.1f GB/s, %d levels of %.1f µs", s.Tokens, predicted, s.Bandwidth, s.Levels,
			s.Level))
	}
	fmt.Fprintf(w, "%s\ta dispatch that only waits for the one before: %s\n", mark(r.TimingError != ""),
		orError(r.TimingError, "%.1f µs", r.Step))
	for _, d := range r.Dispatches {
		fmt.Fprintf(w, "\t%d × %s of %d threadgroups: %.1f µs", d.Count, d.Kernel, d.Threadgroups, d.Micros)
		if d.Predicted > 0 {
			fmt.Fprintf(w, " (predicted %.1f)", d.Predicted)
		}
		fmt.Fprintln(w)
	}
}

func mark(failed bool) string {
	if failed {
		return "WRONG"
	}
	return "ok"
}

// orError returns an error, or if it is empty the text instead.
func orError(err, format string, args ...any) string {
	if err != "" {
		return err
	}
	return fmt.Sprintf(format, args...)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
