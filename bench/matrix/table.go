package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/pilotfish-ai/pilotfish/bench"
)

const head = "| mode | ms mean | p50 | p90 | of local | bound, ms | passes | asks | from cloud | bytes up | down | " +
	"accuracy | equal |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// table writes what was measured at a round trip.
func table(out io.Writer, f *flags, rtt time.Duration, reports []bench.ModeReport) error {
	var b strings.Builder
	pace := "full speed"
	if f.edgeTPS > 0 {
		pace = fmt.Sprintf("%v tokens/s, %v%% a further row", f.edgeTPS, 100*f.rowCost)
	}
	fmt.Fprintf(&b, "\nRTT %v, loss %v%%, device %s, cloud %v a token, %d answers, ahead %d\n\n",
		rtt, 100*f.loss, pace, f.cloud, reports[0].Answers, f.ahead)
	b.WriteString(head)
	local := find(reports, "local")
	for _, r := range reports {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Mode, r.Time.Mean,
			r.Time.P50, r.Time.P90, overLocal(local, r), f.boundText(local, r, rtt), passes(r), number(r.Asks),
			percent(r.EscalatedShare), number(r.BytesUp), number(r.BytesDown), percent(r.Accuracy), equal(r))
	}
	f.auto(&b, reports)
	_, err := io.WriteString(out, b.String())
	return err
}

// auto compares pipelined-auto with the fixed numbers of branches, by paired differences of answers to the same
// question.
func (f *flags) auto(b *strings.Builder, reports []bench.ModeReport) {
	auto, best := find(reports, "pipelined-auto"), (*bench.ModeReport)(nil)
	for i, r := range reports {
		fixed := strings.HasPrefix(r.Mode, "pipelined-") && r.Mode != "pipelined-auto"
		if fixed && (best == nil || r.Time.Mean < best.Time.Mean) {
			best = &reports[i]
		}
	}
	if auto == nil || best == nil {
		return
	}
	var all []float64
	for i := range auto.Each {
		all = append(all, (auto.Each[i].Took-best.Each[i].Took).Seconds()*1000)
	}
	mean, spread := stat.MeanStdDev(all, nil)
	spread *= 1.96 / math.Sqrt(float64(len(all)))
	fmt.Fprintf(b, "\npipelined-auto less the best fixed number, %s: %+.1f%% (95%%: %+.1f to %+.1f)\n", best.Mode,
		100*mean/best.Time.Mean, 100*(mean-spread)/best.Time.Mean, 100*(mean+spread)/best.Time.Mean)
}

func find(reports []bench.ModeReport, mode string) *bench.ModeReport {
	for i := range reports {
		if reports[i].Mode == mode {
			return &reports[i]
		}
	}
	return nil
}

func overLocal(local *bench.ModeReport, r bench.ModeReport) string {
	if local == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", r.Time.Mean/local.Time.Mean)
}

// boundText is what arithmetic allows for a mode in which the large model looks at every token, in milliseconds: the
// time of the small model alone, times the forward calls that were needed, with those of text that was dropped, over
// the calls of a text of this length; and the wait for the verdict on the last token, a round trip and a token of the
// large model, where no other answer had told it.
func (f *flags) boundText(local *bench.ModeReport, r bench.ModeReport, rtt time.Duration) string {
	if local == nil || !strings.HasPrefix(r.Mode, "verified") && !strings.HasPrefix(r.Mode, "overlapped") {
		return ""
	}
	alone, calls := 0.0, 0 // of the small model alone: time and calls
	for _, e := range local.Each {
		alone, calls = alone+e.Took.Seconds()*1000, calls+e.Passes
	}
	sum := 0.0
	for _, e := range r.Each {
		sum += alone / float64(max(1, calls)) * float64(e.Passes)
		if e.LastAsked {
			sum += float64((rtt + f.cloud).Milliseconds())
		}
	}
	return fmt.Sprintf("%.0f", sum/float64(len(r.Each)))
}

func passes(r bench.ModeReport) string {
	n := 0
	for _, e := range r.Each {
		n += e.Passes
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(n)/float64(len(r.Each)))
}

func equal(r bench.ModeReport) string {
	switch {
	case r.EqualToCloud != nil && *r.EqualToCloud:
		return "to cloud"
	case r.EqualToCloud != nil:
		return fmt.Sprintf("NOT to cloud in %d", *r.DifferingFromCloud)
	case r.EqualToSerial != nil && *r.EqualToSerial:
		return "to serial"
	case r.EqualToSerial != nil:
		return fmt.Sprintf("NOT to serial in %d", *r.Differing)
	}
	return ""
}

func percent(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**x)
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *x)
}
