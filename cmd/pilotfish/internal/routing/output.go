package routing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/routing"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// measure runs the modes in every cell and prints the reports, also if it could finish only some of them. On a terminal
// it first shows one answer.
func (f *routingFlags) measure(ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions) (err error) {
	if err := f.timeline.Start(); err != nil {
		return err
	}
	if s.Upstream, err = f.openUpstream(ctx); err != nil {
		return err
	}
	if s.Upstream != nil {
		defer s.Upstream.Close()
		if err := group.CheckPair(a, o.Edge, s.Upstream, "--tokenizer "+f.upstream.Tokenizer, f.raw); err != nil {
			return err
		}
	}
	about, err := group.Describe(group.Measured(a), o.Edge.File(), o.Large.File())
	if err != nil {
		return err
	}
	if err := cli.CheckPlace("--html", string(f.page)); err != nil {
		return err
	}
	if f.json || f.page != "" {
		about.Machine.Bandwidth = a.Bandwidth()
	}
	defer func() { err = errors.Join(err, f.timeline.Write(about)) }()
	o.Timeline = f.timeline.Drawn(o.Questions, len(f.cells()) > 1)
	f.tellEnergy(a)
	var all []outcome.Report
	links := f.links()
	if len(f.edgeTPS.values) > 1 {
		o.Paces = f.edgeTPS.values
	}
	links[0].set(&o, &s)
	end, err := f.recording.start(&o, about, len(f.cells()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i, c := range links {
		c.set(&o, &s)
		reports, err := f.cell(ctx, a, o, s, i)
		err = errors.Join(f.print(a, reports, about), err)
		all = append(all, reports...)
		if err != nil {
			err = errors.Join(f.printLegend(a, all[:len(all)-len(reports)]), stoppedIn(err, i, links))
			return errors.Join(f.page.write(all, about), err)
		}
	}
	return errors.Join(f.printLegend(a, all), f.page.write(all, about))
}

// cell runs the modes in one cell.
func (f *routingFlags) cell(
	ctx context.Context, a *cli.App, o routing.Options, s remote.StageOptions, number int,
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
	if !f.json && number == 0 && cli.IsTerminal(a.Stdout) {
		if err := f.live(ctx, a, o, stage); err != nil {
			return nil, err
		}
	}
	m := cli.NewMeter(a.Stderr, "answers", cli.InPieces)
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

// print prints the reports, if there are any.
func (f *routingFlags) print(a *cli.App, reports []outcome.Report, about result.Run) error {
	if len(reports) == 0 {
		return nil
	}
	switch {
	case f.json:
	case f.sweeps:
		return printCells(a.Stdout, reports)
	default:
		return f.printDemo(a.Stdout, reports)
	}
	for _, r := range reports {
		if err := group.PrintResult(a, r, about); err != nil {
			return err
		}
	}
	return nil
}

// live shows one answer during generation, with coloured tokens from the cloud. It uses the last mode that asks for
// tokens over our protocol. If there is none, it shows nothing.
func (f *routingFlags) live(ctx context.Context, a *cli.App, o routing.Options, stage *remote.Stage) error {
	mode := len(o.Modes) - 1
	for ; mode >= 0 && !o.Modes[mode].OverLink(); mode-- {
	}
	if mode < 0 {
		return nil
	}
	q := o.Questions[0]
	prompt, err := o.Prompt(q.Text)
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
	r, err := o.Modes[mode].Router(o.Router)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s\n", q.Text)
	print := cli.NewTokenPrinter(a, a.Stdout)
	var tally engine.Routing
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
	_, err = fmt.Fprintf(a.Stdout, "\n(%s: %s)\n\n", o.Modes[mode].Name, tallyText(tally))
	return err
}

// liveRoute returns the route of the answer that live shows. It is that of the measured answers.
func liveRoute(o routing.Options, m outcome.Mode) engine.Route {
	request := terms.Settings{MaxTokens: 64}
	return engine.Route{Settings: request, Draft: m.Draft(o.Draft), Pace: o.EdgeTPS, RowCost: o.RowCost}
}

// tallyText summarises the origins of tokens.
func tallyText(t engine.Routing) string {
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
