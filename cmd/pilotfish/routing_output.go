package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
	"github.com/pilotfish-ai/pilotfish/runtime/tokenizer"
)

// measure runs the modes and prints what was found, also where only some of them could be finished. On a terminal it
// shows one answer first.
func (f *routingFlags) measure(ctx context.Context, a *app, o bench.RoutingOptions, s bench.StageOptions) (err error) {
	if s.Upstream, err = f.openUpstream(ctx); err != nil {
		return err
	}
	if s.Upstream != nil {
		defer s.Upstream.Close()
	}
	stage, err := bench.NewStage(o.Edge, o.Large, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	o.Direct, o.Dial = stage.Direct(), stage.Dial
	if !f.json && isTerminal(a.stdout) {
		if err := f.live(ctx, a, o, stage); err != nil {
			return err
		}
	}
	m := newMeter(a.stderr, "answers", inPieces)
	o.Progress = func(done, total int) { m.show(int64(done), int64(total)) }
	reports, err := bench.Routing(ctx, o)
	m.close()
	if stopped := (*interruption)(nil); errors.As(err, &stopped) {
		progress := fmt.Sprintf("%d of %d modes are finished", len(reports), len(o.Modes))
		err = &interruption{signal: stopped.signal, progress: progress}
	}
	return errors.Join(f.print(a, reports), err)
}

// print prints the reports. Of none there is nothing to print.
func (f *routingFlags) print(a *app, reports []bench.ModeReport) error {
	if len(reports) == 0 {
		return nil
	}
	if !f.json {
		return printRouting(a.stdout, reports)
	}
	for _, r := range reports {
		if err := a.printJSON(r); err != nil {
			return err
		}
	}
	return nil
}

// live shows one answer as it comes, with tokens of the cloud in colour, in the last of the modes that asks for tokens
// over our protocol. Without such a mode it shows nothing.
func (f *routingFlags) live(ctx context.Context, a *app, o bench.RoutingOptions, stage *bench.Stage) error {
	mode := len(o.Modes) - 1
	for ; mode >= 0 && !o.Modes[mode].OverLink(); mode-- {
	}
	if mode < 0 {
		return nil
	}
	q := o.Questions[0]
	prompt, err := o.Edge.Chat(tokenizer.Message{Role: "user", Content: q.Text})
	if err != nil {
		return err
	}
	session, err := o.Edge.NewSession()
	if err != nil {
		return err
	}
	far, end, err := stage.Dial(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	r, err := router.New(o.Router)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s\n", q.Text)
	print := newTokenPrinter(a)
	var tally bench.Tally
	route := liveRoute(o, o.Modes[mode])
	route.Router, route.Cloud, route.Observe = r, far, tally.Add
	for t, err := range session.Routed(ctx, prompt, route) {
		if err != nil {
			return err
		}
		if err := print(t); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "\n(%s: %s)\n\n", o.Modes[mode].Name, tallyText(tally))
	return err
}

// liveRoute is how the answer that is shown is decoded in a mode: as those that are measured.
func liveRoute(o bench.RoutingOptions, m bench.Mode) engine.Route {
	return engine.Route{Request: engine.Request{MaxTokens: 64}, Draft: m.Draft(o.Draft), Pace: o.EdgeTPS, RowCost: o.RowCost}
}

// tallyText says in a few words where tokens came from.
func tallyText(t bench.Tally) string {
	text := fmt.Sprintf("%d tokens, %d of them from the large model", t.Tokens, t.Cloud)
	if t.Timeouts > 0 {
		text += fmt.Sprintf(", %d from the small one since no answer came in time", t.Timeouts)
	}
	if t.Answered > 0 {
		text += fmt.Sprintf("; of %v from asks to answers, %v were spent on drafting that held",
			t.Wait.Round(time.Millisecond), t.Hidden.Round(time.Millisecond))
	}
	return text
}

// routingColumn is a column of the table of modes.
type routingColumn struct {
	name   string
	legend string // what it says, and of what; "" where the column before tells
	cell   func(bench.ModeReport) string
}

// routingColumns are the columns of a table of these reports.
func routingColumns(reports []bench.ModeReport) []routingColumn {
	return []routingColumn{
		{"mode", "", func(r bench.ModeReport) string { return r.Mode }},
		{
			"accuracy", "share of the questions that were answered rightly",
			func(r bench.ModeReport) string { return percent(r.Accuracy) },
		},
		{"interval", "where that share lies with 95% confidence, for this number of questions", interval},
		{
			"from cloud", "share of the generated tokens that the large model chose, end tokens included",
			func(r bench.ModeReport) string { return percent(r.EscalatedShare) },
		},
		{
			"timed out", "tokens, in all answers together, that stayed the small model's since no answer came before --deadline",
			timedOut,
		},
		{
			"asks", "tokens asked for, per question; also those that were no longer needed when a guess did not hold",
			func(r bench.ModeReport) string { return number(r.Asks) },
		},
		{
			"ms p50", "milliseconds until an answer was complete: median of the questions",
			func(r bench.ModeReport) string { return fmt.Sprintf("%.0f", r.Time.P50) },
		},
		{
			"ms p90", "the same: nine of ten answers took no longer",
			func(r bench.ModeReport) string { return fmt.Sprintf("%.0f", r.Time.P90) },
		},
		{
			"hidden", "share of the time from asks to their answers that was spent on drafting which held",
			func(r bench.ModeReport) string { return percent(r.HiddenShare) },
		},
		{
			"hits", "share of the answers from the large model that were among the guesses",
			func(r bench.ModeReport) string { return percent(r.HitRate) },
		},
		{
			"bytes up", "payload sent, per answer from the large model; also what was sent in vain on wrong guesses",
			func(r bench.ModeReport) string { return number(r.BytesUp) },
		},
		{
			"bytes down", "payload received, alike",
			func(r bench.ModeReport) string { return number(r.BytesDown) },
		},
		{
			"as serial",
			"whether all tokens are those of serial, from the same model; if not, how many timed out in both together",
			asSerial(reports),
		},
	}
}

// printRouting prints a row per mode, and below what the columns mean.
func printRouting(out io.Writer, reports []bench.ModeReport) error {
	columns := routingColumns(reports)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cell func(routingColumn) string) {
		for _, c := range columns {
			fmt.Fprintf(table, "%s\t", cell(c))
		}
		fmt.Fprintln(table)
	}
	row(func(c routingColumn) string { return c.name })
	for _, r := range reports {
		row(func(c routingColumn) string { return c.cell(r) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var legend strings.Builder
	for _, c := range columns[1:] {
		fmt.Fprintf(&legend, "%-11s %s\n", c.name, c.legend)
	}
	const empty = "A cell is empty where the mode has no such figure, or no answer came from the large model."
	_, err := fmt.Fprintf(out, "\n%s\n%s\n", legend.String(), empty)
	return err
}

func interval(r bench.ModeReport) string {
	if r.AccuracyLow == nil {
		return ""
	}
	return fmt.Sprintf("%.0f–%.0f%%", 100**r.AccuracyLow, 100**r.AccuracyHigh)
}

func timedOut(r bench.ModeReport) string {
	if r.Timeouts == nil {
		return ""
	}
	return fmt.Sprint(*r.Timeouts)
}

// asSerial returns what to say of a report beside that of the mode serial. Where nothing timed out, they must be equal.
func asSerial(reports []bench.ModeReport) func(bench.ModeReport) string {
	serial := 0 // tokens that timed out there
	for _, r := range reports {
		if r.Mode == "serial" && r.Timeouts != nil {
			serial = *r.Timeouts
		}
	}
	return func(r bench.ModeReport) string {
		switch {
		case r.EqualToSerial == nil:
			return ""
		case *r.EqualToSerial:
			return "yes"
		case r.Timeouts != nil && *r.Timeouts+serial > 0:
			return fmt.Sprintf("no: %d timed out", *r.Timeouts+serial)
		}
		return "NO"
	}
}

func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100**share)
}

func number(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *x)
}
