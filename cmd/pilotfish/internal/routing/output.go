package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// measure runs the modes in every cell and prints the reports, also if it could finish only some of them.
func (f *routingFlags) measure(ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions) (err error) {
	if err := f.timeline.Start(); err != nil {
		return err
	}
	if len(f.upstream.O.URLs) > 0 {
		if s.Upstream, err = engine.OpenUpstream(ctx, f.upstream.Tokenizer, f.upstream.O); err != nil {
			return err
		}
		defer s.Upstream.Close()
		if err := group.CheckPair(a, o.Edge, s.Upstream, "--tokenizer "+f.upstream.Tokenizer, f.raw); err != nil {
			return err
		}
	}
	about, err := group.Describe(group.Measured(a), o.Edge.File(), o.Large.File())
	if err != nil {
		return err
	}
	if err := cli.CheckPlace("--html", f.page); err != nil {
		return err
	}
	if f.json || f.page != "" {
		about.Machine.Bandwidth = a.Bandwidth()
	}
	defer func() { err = errors.Join(err, f.timeline.Write(about)) }()
	o.Timeline = f.timeline.Drawn(o.Questions, len(f.cells()) > 1)
	var all []outcome.Report
	links := f.links()
	if len(f.edgeTPS.Values) > 1 {
		o.Paces = f.edgeTPS.Values
	}
	links[0].set(&o, &s)
	end, err := f.recording.start(&o, about, len(f.cells()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i, c := range links {
		c.set(&o, &s)
		reports, err := f.cell(ctx, a, o, s)
		err = errors.Join(f.print(a, reports, about), err)
		all = append(all, reports...)
		if err != nil {
			return errors.Join(f.finish(a, all, about), stoppedIn(err, i, links))
		}
	}
	return f.finish(a, all, about)
}

func (f *routingFlags) cell(
	ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions,
) (_ []outcome.Report, err error) {
	stage, err := remote.NewStage(o.Edge, o.Large, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	o.Direct, o.Dial = stage.Direct(), stage.Dial
	if err := f.verifiable(ctx, o.Modes, stage); err != nil {
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

// verifiable returns an error for modes with verification that the engines of --upstream do not support. The large
// model does.
func (f *routingFlags) verifiable(ctx context.Context, modes []outcome.Mode, stage *remote.Stage) error {
	i := slices.IndexFunc(modes, outcome.Mode.Verifies)
	if i < 0 {
		return nil
	}
	if err := stage.Verifies(ctx); errors.Is(err, netproto.CannotVerify) {
		return fmt.Errorf("--modes %s is not possible here: %w: leave it out", modes[i].Name, err)
	} else if err != nil {
		return err
	}
	return nil
}

// print prints the reports of cells: lines, or tables.
func (f *routingFlags) print(a *cli.App, reports []outcome.Report, about result.Run) error {
	if !f.json {
		return tables(reports, about, func(title string, t *report.Table) error {
			fmt.Fprintf(a.Stdout, "%s, %d answers\n", title, reports[0].Answers)
			return t.Body(a.Stdout)
		})
	}
	for _, r := range reports {
		if err := group.PrintResult(a, r, about); err != nil {
			return err
		}
	}
	return nil
}

// tables calls a function with the tables of reports and their titles.
func tables(reports []outcome.Report, about result.Run, do func(title string, t *report.Table) error) error {
	if len(reports) == 0 {
		return nil
	}
	r, err := report.Of(reports, about)
	if err != nil {
		return err
	}
	for _, s := range r.Sections {
		t := s.Tables[0].Pick("mode", "RTT", "right", "cloud", "p50", "p90", "hidden", "hits", "asks", "timed out",
			"unverified", "equal")
		if err := do(s.Title, t); err != nil {
			return err
		}
	}
	return nil
}

// finish prints the explanation of the columns after all cells, and writes the page of --html, as `bench report` draws
// the lines of --json.
func (f *routingFlags) finish(a *cli.App, all []outcome.Report, about result.Run) error {
	if len(all) == 0 {
		return nil
	}
	if !f.json {
		explained := false
		err := tables(all, about, func(_ string, t *report.Table) (err error) {
			if !explained {
				err = t.Legend(a.Stdout)
			}
			explained = true
			return err
		})
		if err != nil {
			return err
		}
	}
	if f.page == "" {
		return nil
	}
	r, err := report.Of(all, about)
	if err == nil {
		err = group.WritePage(r, f.page)
	}
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}
