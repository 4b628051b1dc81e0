package routing

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// measureCells runs the modes in every cell and prints the reports, also if it could finish only some of them.
func (f *routingFlags) measureCells(
	ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions,
) (err error) {
	if err := f.timeline.Start(); err != nil {
		return err
	}
	if len(f.upstream.O.URLs) > 0 {
		if s.Upstream, err = engine.OpenUpstream(ctx, f.upstream.Tokenizer, f.upstream.O); err != nil {
			return err
		}
		defer s.Upstream.Close()
		if err := measure.CheckPair(a, o.Edge, s.Upstream, "--tokenizer "+f.upstream.Tokenizer, f.raw); err != nil {
			return err
		}
	}
	about, err := group.Describe(group.Measured(a, "bench routing"), o.Edge.File(), o.Large.File())
	if err != nil {
		return err
	}
	if f.json {
		about.Machine.Bandwidth = a.Bandwidth()
	}
	defer func() { err = errors.Join(err, f.timeline.Write(about)) }()
	o.Timeline = f.timeline.Drawn(o.Questions, len(f.cellCombinations()) > 1)
	var all []outcome.Report
	links := f.cellCombinations()
	end, err := f.recording.startRecording(&o, about, len(links))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i, c := range links {
		c.applyCell(&o, &s)
		reports, err := f.measureCell(ctx, a, o, s)
		err = errors.Join(f.printReports(a, reports, about), err)
		all = append(all, reports...)
		if err != nil {
			return errors.Join(f.finishReport(a, all, about), addLinkProgress(err, i, links))
		}
	}
	return f.finishReport(a, all, about)
}

func (f *routingFlags) measureCell(
	ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions,
) (_ []outcome.Report, err error) {
	stage, err := remote.NewStage(o.Edge, o.Large, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	o.Direct, o.Dial = stage.Direct(), stage.Dial
	if err := checkVerification(ctx, o.Modes, o.Draft, stage); err != nil {
		return nil, err
	}
	m := cli.NewMeter(a.Stderr, "answers", false)
	o.Progress = func(done, total int) { m.Show(int64(done), int64(total)) }
	reports, err := routing.Measure(ctx, o)
	m.Close()
	if stopped := (*cli.Interruption)(nil); errors.As(err, &stopped) {
		done := 0
		if len(reports) > 0 {
			done = reports[0].Answers
		}
		progress := fmt.Sprintf("%d of %d questions are answered in all modes", done, max(1, o.Repeat)*len(o.Questions))
		err = &cli.Interruption{Signal: stopped.Signal, Progress: progress}
	}
	return reports, err
}

func checkVerification(ctx context.Context, modes []outcome.Mode, o engine.DraftOptions, stage *remote.Stage) error {
	for _, m := range modes {
		if !m.Verifies() {
			continue
		}
		if err := stage.Verifies(ctx, m.Draft(o).Judge); errors.Is(err, netproto.CannotVerify) {
			return fmt.Errorf("--modes %s is not possible here: %w: leave it out", m.Name, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (f *routingFlags) printReports(a *cli.App, reports []outcome.Report, about record.Run) error {
	if f.json {
		for _, r := range reports {
			if err := group.PrintResult(a, r, about); err != nil {
				return err
			}
		}
	}
	if f.json || len(reports) == 0 {
		return nil
	}
	title, t, err := reportTable(reports, about)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s%s, %d answers\n", gainText(reports), title, reports[0].Answers)
	return t.Body(a.Stdout)
}

// gainText says what asking for tokens gains, in the mode of our protocol that takes the shortest time; "" if none was
// compared with a model alone.
func gainText(reports []outcome.Report) string {
	var ours *outcome.Report
	var alone []string
	for i := range reports {
		r := &reports[i]
		switch m, _ := outcome.ParseMode(r.Mode); {
		case m.Kind == outcome.Routed || m.Kind == outcome.Verified:
			if ours == nil || r.Time.P50 < ours.Time.P50 {
				ours = r
			}
		case r.Mode == "local":
			alone = append(alone, "small model "+shortResult(r))
		case r.Mode == "cloud":
			alone = append(alone, "large model "+shortResult(r))
		}
	}
	if ours == nil || alone == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s, with %.1f%% of the tokens from the large model.\nAlone: %s.\n", ours.Mode,
		shortResult(ours), 100*ours.Rates()["escalated_share"], strings.Join(alone, ", "))
}

func shortResult(r *outcome.Report) string {
	if r.Accuracy == nil {
		return fmt.Sprintf("%.0f ms", r.Time.P50)
	}
	return fmt.Sprintf("%.1f%% right in %.0f ms", 100*r.Accuracy.Value, r.Time.P50)
}

func reportTable(reports []outcome.Report, about record.Run) (string, *report.Table, error) {
	r, err := report.Of(reports, about)
	if err != nil {
		return "", nil, err
	}
	s := &r.Sections[0]
	return s.Title, s.Tables[0].Pick("mode", "RTT", "right", "cloud", "p50", "p90", "hidden", "hits", "asks",
		"timed out", "unverified", "equal"), nil
}

// finishReport prints the explanation of the columns after all cells.
func (f *routingFlags) finishReport(a *cli.App, all []outcome.Report, about record.Run) error {
	if len(all) == 0 || f.json {
		return nil
	}
	_, t, err := reportTable(all, about)
	if err != nil {
		return err
	}
	return t.Legend(a.Stdout)
}
