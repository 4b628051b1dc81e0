package bench

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

// benchLinkFlags has the flags of `pilotfish-bench link`.
type benchLinkFlags struct {
	o      wire.LinkOptions
	tokens group.List[int]
	model  float64 // milliseconds
	json   bool
}

func newBenchLinkCommand(a *cli.App) *cobra.Command {
	var f benchLinkFlags
	c := &cobra.Command{
		Use:   "link [flags]",
		Short: "Measure the network path alone: protocol, QUIC and an emulated link, without models",
		Long: `Measure the network path of questions and answers alone: protocol, QUIC and an emulated link, without
models. Device, link and gateway run in this one process. Measurements are printed next to what arithmetic predicts.

  asks      300 questions, or --questions, with each of --tokens new tokens, timed from when each was due until its
            answer arrived. They are due at times that do not depend on answers, so waiting during a stall counts.
            Prediction: the round trip and the model. Bytes on the wire include IP, UDP and QUIC, acknowledgements
            and retransmissions.
  connect   10 new connections, and as many resumed ones, which ask with 0-RTT. Prediction: two round trips
            until the gateway's welcome and three until the first answer, and one with 0-RTT.
  outage    three times, nothing gets through for a second while questions continue; how long
            after its end the first answer arrives.
            Prediction: no later than that of the next question that becomes due.`,
		Example: `  pilotfish-bench link --rtt 100ms --model-ms 15
  pilotfish-bench link --rtt 50ms --loss 0.05 --tokens 8
  pilotfish-bench link --trace cellular.rtt.csv --json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runLink(c.Context(), a) },
	}
	f.registerFlags(c.Flags())
	return c
}

func (f *benchLinkFlags) registerFlags(p *pflag.FlagSet) {
	f.tokens = group.Numbers("8,64,512")
	f.o.AskRate, f.o.Outage = 50, time.Second
	measure.Add(p, "questions", &f.o.Asks, 300)
	measure.Add(p, "rtt", &f.o.RTT, 100*time.Millisecond)
	measure.Add(p, "loss", &f.o.Loss, 0)
	measure.Add(p, "trace", &f.o.Traces, nil)
	measure.Add(p, "model-ms", &f.model, 0)
	measure.AddValue(p, "link.tokens", &f.tokens)
	cli.Add(p, "json", &f.json, false)
}

// completeOptions completes the options, and returns an error for unreadable traces. With fewer questions than usual,
// the other parts are shorter, too.
func (f *benchLinkFlags) completeOptions() error {
	f.o.Asks = cmp.Or(f.o.Asks, 300)
	part := min(1, float64(f.o.Asks)/300)
	f.o.Connects, f.o.Outages = max(2, int(10*part)), max(1, int(3*part))
	f.o.Tokens = slices.DeleteFunc(slices.Clone(f.tokens.Values), func(n int) bool { return n == 0 })
	f.o.Model = time.Duration(f.model * float64(time.Millisecond))
	return measure.CheckTraces(f.o.Traces)
}

func (f *benchLinkFlags) runLink(ctx context.Context, a *cli.App) (err error) {
	if err := f.completeOptions(); err != nil {
		return err
	}
	about := group.Measured(a, "bench link")
	if f.json {
		about.Machine.Bandwidth = a.Bandwidth()
	}
	m := cli.NewMeter(a.Stderr, "questions and connections", false)
	f.o.Progress = func(done, of int) { m.Show(int64(done), int64(of)) }
	var all []wire.LinkReport
	err = wire.Link(ctx, f.o, func(r wire.LinkReport) error {
		if f.json {
			return group.PrintResult(a, r, about)
		}
		all = append(all, r)
		return nil
	})
	m.Close()
	if err != nil || f.json {
		return err
	}
	return printTables(a, all, about)
}
