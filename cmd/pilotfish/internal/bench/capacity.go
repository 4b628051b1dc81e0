package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/capacity"
	"github.com/pilotfish-ai/pilotfish/bench/remote"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// benchCapacityFlags has the flags of `pilotfish bench capacity`.
type benchCapacityFlags struct {
	o       capacity.Options
	model   string // the large model
	costs   string // file with its costs, instead of model
	threads int
	devices group.NumberList
	answers int // for a measurement with real devices
	json    bool
	flags   *pflag.FlagSet
}

// capacityTerms explains the figures of the table. It is printed below the table.
const capacityTerms = `
  devices   the largest number at which 95% of the answers take no longer than the bound (bound=5s). per core: over
            the threads of all large models.
  p50, …    time of a whole answer: from sending the prompt until the last token is on the device, with the passes of
            the device's small model (one for the prompt, one for each token, at --edge-tps) and all round trips.
  busy      share of the time in which the large models compute.
  cloud     the large model generates the whole answer and streams it. All current answers share its passes.
  routed    the small model generates, and asks for a --budget of the tokens. It waits for each of them.
  verified  routed, and with each ask, the last of which is at the end, the large model checks the tokens since the ask
            before. It replaces a share (turned) of the small model's, and the small model generates from there again.
`

// newBenchCapacityCommand returns the command that finds how many devices a large model can serve.
func newBenchCapacityCommand(a *cli.App) *cobra.Command {
	var f benchCapacityFlags
	c := &cobra.Command{
		Use:   "capacity (-m FILE | --costs FILE) [flags]",
		Short: "Find out how many devices one core of a server carries, measured and simulated",
		Long: `Find out how many devices one core of a server carries: the largest number at which 95% of the answers
take no longer than a bound, over the cores that compute the large model. There is one row for each way to use it:
` + capacityTerms + `
With -m FILE, three things happen. First the costs of the large model are measured: a pass of 1 to 128 rows, and an ask
without a pass. Then the capacity is found by simulation from these costs, in virtual time, on at least 10000 answers
for each number of devices. Last, real devices in this process use the model through a gateway over an emulated link,
beside a simulation with the same pauses and asks: at the capacity first, and then at up to three more numbers of
devices. Each takes the time of --answers answers and a quarter of that before; with fewer than 100, the 95th percentile
is hardly more than the longest of them. The ratios say how far the simulation is to be trusted.

--costs FILE takes the costs from the first line that -m FILE --json printed, and simulates only: on any machine, for
other numbers of gateways, other workloads, another bound. All answers have the same length, prompts have nothing in
common, devices do not send their prompt ahead (run --no-warm), and the gateways have memory for all current answers.
The same flags and costs give the same figures.`,
		Example: `  pilotfish bench capacity -m large.gguf --with bound=5s --json > large.jsonl
  pilotfish bench capacity --costs large.jsonl --with gateways=8 --devices 1000,10000,100000`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), a) },
	}
	f.register(c)
	return c
}

func (f *benchCapacityFlags) register(c *cobra.Command) {
	p, w := c.Flags(), &f.o.Workload
	f.flags = p
	with := cli.AddOptions(p, "with").FlagSet
	cli.Add(p, "model", &f.model, "")
	cli.Add(p, "costs", &f.costs, "")
	cli.Add(p, "threads", &f.threads, 0)
	cli.Add(p, "answers", &f.answers, 100)
	cli.Add(p, "prompt", &w.Prompt, 128)
	cli.Add(p, "capacity.tokens", &w.Tokens, 32)
	cli.Add(with, "with.think", &w.Think, time.Minute)
	cli.Add(p, "rtt", &w.RTT, 100*time.Millisecond)
	cli.Add(p, "edge-tps", &w.EdgeTPS, 60)
	cli.Add(p, "budget", &w.Budget, 0.07)
	cli.Add(with, "with.turned", &w.Turned, 0.1)
	cli.Add(with, "with.bound", &f.o.Bound, 5*time.Second)
	cli.Add(with, "with.gateways", &f.o.Gateways, 1)
	cli.AddValue(p, "devices", &f.devices)
	cli.Add(p, "seed", &w.Seed, 0)
	cli.Add(p, "json", &f.json, false)
}

// check returns an error for values out of range, and for flags without an effect.
func (f *benchCapacityFlags) check() error {
	w, most := &f.o.Workload, fmt.Sprintf("1 to %d", capacity.MaxDevices)
	tokens := fmt.Sprintf("1 to %d tokens", capacity.MaxTokens)
	for _, err := range []error{
		group.CheckRange("prompt", w.Prompt, 1, capacity.MaxTokens, tokens),
		group.CheckRange("tokens", w.Tokens, 1, capacity.MaxTokens, tokens),
		group.CheckRange("rtt", w.RTT, 0, group.LongestRTT, "0 to 10s"),
		group.CheckRange("edge-tps", w.EdgeTPS, 0.01, group.MaxEdgeTPS, "0.01 to 1e6 passes per second"),
		group.CheckRange("budget", w.Budget, 0, 1, "a share from 0 to 1"),
	} {
		if err != nil {
			return err
		}
	}
	for _, n := range f.devices {
		if err := group.CheckRange("devices", n, 1, capacity.MaxDevices, most); err != nil {
			return err
		}
	}
	f.o.Devices = f.devices
	switch {
	case f.model == "" && f.costs == "":
		return cli.Usagef("give the large model with -m, or its costs with --costs")
	case f.model != "" && f.costs != "":
		return cli.Usagef("--costs and -m exclude each other: give one")
	}
	for _, name := range []string{"threads", "answers"} {
		if f.costs != "" && f.flags.Changed(name) {
			return cli.Usagef("--%s has no effect with --costs: nothing is measured", name)
		}
	}
	return nil
}

func (f *benchCapacityFlags) run(ctx context.Context, a *cli.App) error {
	if err := f.check(); err != nil {
		return err
	}
	about := group.Measured(a)
	if f.costs == "" {
		return f.measure(ctx, a, about)
	}
	costs, recorded, err := capacity.ReadCosts(f.costs)
	if err != nil {
		return fmt.Errorf("--costs: %w", err)
	}
	about.Date, about.Machine, about.Large = recorded.Date, recorded.Machine, recorded.Large
	f.o.Costs = costs
	return f.report(ctx, a, about, nil)
}

// measure measures costs, and then real devices.
func (f *benchCapacityFlags) measure(ctx context.Context, a *cli.App, about result.Run) (err error) {
	w := &f.o.Workload
	limit, err := speed.ContextLimit(f.model)
	if err != nil {
		return err
	}
	if need := w.Prompt + w.Tokens; need > limit {
		return cli.Usagef("--prompt %d and --tokens %d together are longer than the context of the model, %d tokens",
			w.Prompt, w.Tokens, limit)
	}
	large, err := engine.Open(f.model, f.engine(limit))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, large.Close()) }()
	if about, err = group.Describe(about, nil, large.File()); err != nil {
		return err
	}
	if _, err := large.Weights(ctx); err != nil {
		return err
	}
	m := cli.NewMeter(a.Stderr, "costs of passes", cli.InPieces)
	progress := func(done, of int) { m.Show(int64(done), int64(of)) }
	f.o.Costs, err = capacity.Measure(ctx, large, w.Prompt, progress)
	if m.Close(); err != nil {
		return err
	}
	stage, err := remote.NewStage(large, large, remote.StageOptions{RTT: w.RTT})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if err := f.measureAsk(ctx, stage); err != nil {
		return err
	}
	return f.report(ctx, a, about, func(mode capacity.Mode) *capacity.Live {
		return &capacity.Live{Large: large, Dial: stage.Dial, Workload: *w, Mode: mode}
	})
}

// engine returns the options of the large model, which has a context of at most limit tokens. They leave room for many
// concurrent answers: the gateway keeps 32 contexts.
func (f *benchCapacityFlags) engine(limit int) engine.Options {
	return engine.Options{
		Threads: f.threads, Context: min(limit, max(4*(f.o.Workload.Prompt+f.o.Workload.Tokens), 512)),
	}
}

func (f *benchCapacityFlags) measureAsk(ctx context.Context, stage *remote.Stage) (err error) {
	cloud, leave, err := stage.Dial(ctx, 0)
	if err != nil {
		return err
	}
	defer leave()
	f.o.Costs.AskMS, err = capacity.MeasureAsk(ctx, cloud, f.o.Workload.RTT)
	return err
}

// report finds the capacity in each mode. With live, which creates the real devices of a mode, it also measures.
func (f *benchCapacityFlags) report(
	ctx context.Context, a *cli.App, about result.Run, live func(capacity.Mode) *capacity.Live,
) error {
	var all []*capacity.Report
	for _, mode := range capacity.Modes() {
		f.o.Mode = mode
		r, err := capacity.Search(ctx, f.o)
		if err != nil {
			return err
		}
		if live != nil && f.answers > 0 {
			fmt.Fprintf(a.Stderr, "%s: %d devices by simulation; now real ones, %d answers for each number\n",
				mode, r.Devices, f.answers)
			if err := f.o.Try(ctx, r, f.answers, live(mode).Run); err != nil {
				return err
			}
		}
		all = append(all, r)
		if f.json {
			if err := group.PrintResult(a, r, about); err != nil {
				return err
			}
		}
	}
	if f.json {
		return nil
	}
	return printCapacity(a.Stdout, all)
}

// printCapacity prints the reports of one workload.
func printCapacity(to io.Writer, all []*capacity.Report) error {
	var b textBuffer
	b.costs(all[0])
	b.WriteString(capacityHead)
	for _, r := range all {
		b.capacity(r)
	}
	b.WriteString(capacityTerms)
	b.points(all)
	b.trials(all)
	_, err := io.WriteString(to, b.String())
	return err
}
