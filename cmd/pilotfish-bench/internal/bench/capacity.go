package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// benchCapacityFlags has the flags of `pilotfish-bench capacity`.
type benchCapacityFlags struct {
	w       capacity.Workload
	model   string // the large model
	threads int
	devices group.List[int]
	answers int
	json    bool
}

// capacityTerms explains the figures of the table. It is printed below the table.
const capacityTerms = `
  p50, …    time of a whole answer: from sending the prompt until the last token is on the device, with the passes of
            the device's small model (one for the prompt, one for each token, 60 a second) and all round trips.
  cloud     the large model generates the whole answer and streams it. All current answers share its passes.
  routed    the small model generates, and asks for a --budget of the tokens. It waits for each of them.
  verified  routed, and with each ask, the last of which is at the end, the large model checks the tokens since the ask
            before. It replaces a tenth of the small model's, and the small model generates from there again.
`

func newBenchCapacityCommand(a *cli.App) *cobra.Command {
	var f benchCapacityFlags
	c := &cobra.Command{
		Use:   "capacity -m FILE [flags]",
		Short: "Measure how long answers take when several devices share one server",
		Long: `Measure how long answers take when several devices share one server. First the costs of the large
model are measured: a pass of 1 to 128 rows, and an ask without a pass. Then devices in this process
use the model through a gateway over an emulated link, each without pauses between its answers:
there is one row for each way to use it and each number of --devices. With fewer than 100 --answers,
the 99th percentile is the longest of them.` + capacityTerms + `
All answers have the same length, prompts have nothing in common, and devices do not send their prompt ahead.`,
		Example: `  pilotfish-bench capacity -m large.gguf --devices 1,8,32
  pilotfish-bench capacity -m large.gguf --answers 0 --json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runCapacity(c.Context(), a) },
	}
	f.registerFlags(c)
	return c
}

func (f *benchCapacityFlags) registerFlags(c *cobra.Command) {
	p := c.Flags()
	cli.Add(p, "model", &f.model, "")
	cli.Add(p, "threads", &f.threads, 0)
	f.devices = group.Numbers("1,4,16")
	measure.AddValue(p, "devices", &f.devices)
	measure.Add(p, "answers", &f.answers, 100)
	measure.Add(p, "prompt", &f.w.Prompt, 128)
	measure.Add(p, "generate", &f.w.Tokens, 32)
	measure.Add(p, "rtt", &f.w.RTT, 100*time.Millisecond)
	f.w.EdgeTPS = 60
	cli.Add(p, "budget", &f.w.Budget, 0.07)
	cli.Add(p, "json", &f.json, false)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

func (f *benchCapacityFlags) runCapacity(ctx context.Context, a *cli.App) (err error) {
	limit, err := speed.ContextLimit(f.model)
	if err != nil {
		return err
	}
	if need := f.w.Prompt + f.w.Tokens; need > limit || f.w.Prompt == 0 || f.w.Tokens == 0 {
		return cli.Usagef("-p %d and -n %d: give 1 or more, together at most the context of the model, %d tokens",
			f.w.Prompt, f.w.Tokens, limit)
	}
	large, err := engine.Open(f.model, f.engineOptions(limit))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, large.Close()) }()
	about, err := group.Describe(group.Measured(a, "bench capacity"), nil, large.File())
	if err != nil {
		return err
	}
	if _, err := large.Weights(ctx); err != nil {
		return err
	}
	r, err := f.measureCapacity(ctx, a, large)
	if err != nil {
		return err
	}
	if f.json {
		return group.PrintResult(a, r, about)
	}
	return printCapacity(a.Stdout, r)
}

// engineOptions returns the options of the large model, which has a context of at most limit tokens. They leave room
// for many concurrent answers: the gateway keeps 32 contexts.
func (f *benchCapacityFlags) engineOptions(limit int) engine.Options {
	return engine.Options{Threads: f.threads, Context: min(limit, max(4*(f.w.Prompt+f.w.Tokens), 512))}
}

func (f *benchCapacityFlags) measureCapacity(
	ctx context.Context, a *cli.App, large *engine.Engine,
) (r *capacity.Report, err error) {
	r = &capacity.Report{Workload: f.w, Points: []capacity.Point{}}
	m := cli.NewMeter(a.Stderr, "costs of passes", false)
	progress := func(done, of int) { m.Show(int64(done), int64(of)) }
	r.Costs, err = capacity.Measure(ctx, large, f.w.Prompt, progress)
	if m.Close(); err != nil {
		return nil, err
	}
	stage, err := remote.NewStage(large, large, remote.StageOptions{RTT: f.w.RTT})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if r.Costs.AskMS, err = f.measureAsk(ctx, stage); err != nil || f.answers == 0 {
		return r, err
	}
	for _, mode := range capacity.Modes() {
		live := &capacity.Live{Large: large, Dial: stage.Dial, Workload: f.w, Mode: mode}
		for _, n := range f.devices.Values {
			fmt.Fprintf(a.Stderr, "%s: %d devices, %d answers\n", mode, n, f.answers)
			p, err := live.Run(ctx, n, f.answers)
			if err != nil {
				return nil, err
			}
			r.Points = append(r.Points, p)
		}
	}
	return r, nil
}

func (f *benchCapacityFlags) measureAsk(ctx context.Context, stage *remote.Stage) (float64, error) {
	cloud, leave, err := stage.Dial(ctx, 0)
	if err != nil {
		return 0, err
	}
	defer leave()
	return capacity.MeasureAsk(ctx, cloud, f.w.RTT)
}

func printCapacity(to io.Writer, r *capacity.Report) error {
	c, w := &r.Costs, &r.Workload
	t := report.Table{Columns: []report.Column{{Name: "mode"}, {Name: "devices"}, {Name: "p50 ms"}, {Name: "p90 ms"},
		{Name: "p99 ms"}, {Name: "answers/s"}, {Name: "tokens/s"}, {Name: "bytes/answer up"}, {Name: "down"}},
		Note: strings.TrimSpace(capacityTerms)}
	fmt.Fprintf(to, "large model  %d threads; an ask %.2f ms; passes that predict for each row", c.Threads, c.AskMS)
	for _, p := range c.Passes {
		fmt.Fprintf(to, ", %d rows %.1f ms", p.Rows, p.HeadsMS)
	}
	_, err := fmt.Fprintf(to, "\ndevices      prompts of %d tokens, answers of %d, round trip %v, %v passes/s\n\n",
		w.Prompt, w.Tokens, w.RTT, w.EdgeTPS)
	if err != nil || len(r.Points) == 0 {
		return err
	}
	for _, p := range r.Points {
		n := float64(p.Answers)
		row := fmt.Sprintf("%s %d %.0f %.0f %.0f %.2f %.1f %.0f %.0f", p.Mode, p.Devices, p.Time.P50, p.Time.P90,
			p.Time.P99, p.PerSecond, p.PerSecond*float64(w.Tokens), float64(p.BytesUp)/n, float64(p.BytesDown)/n)
		t.Rows = append(t.Rows, strings.Fields(row))
	}
	return t.Text(to)
}
