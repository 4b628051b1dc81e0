package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
)

// benchGatewayFlags has the flags of `pilotfish-bench gateway`.
type benchGatewayFlags struct {
	o       wire.GatewayOptions
	model   float64 // milliseconds
	seconds float64
	json    bool
}

func newBenchGatewayCommand(a *cli.App) *cobra.Command {
	var f benchGatewayFlags
	c := &cobra.Command{
		Use:   "gateway [flags]",
		Short: "Measure the speed, fairness and memory use of a gateway that serves many devices",
		Long: `Measure how fast a gateway answers many devices, how fairly, and how much memory this takes.

The gateway runs in this process, as do the devices, over UDP on loopback; its model takes --model-ms per question and
computes nothing. Each device has its own connection.
Questions are due at times that do not depend on how long others take, and are timed from then to the answer, so
waiting during a stall counts. A device's text starts with 128 tokens, and each of its questions adds 8.

Fairness is how equally the devices were served: Jain's index of the shares of their questions that were answered, and
of the 99th percentiles of their times. It is 1 if all are equal, and 1/n if one of n devices gets everything. Devices
only have to wait if the model takes fewer questions at a time than there are (--parallel).`,
		Example: `  pilotfish-bench gateway --devices 1000 --rate 1 --model-ms 5 --seconds 30
  pilotfish-bench gateway --devices 50 --rate 2 --model-ms 15 --parallel 4`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runGateway(c.Context(), a) },
	}
	f.registerFlags(c.Flags())
	return c
}

func (f *benchGatewayFlags) registerFlags(p *pflag.FlagSet) {
	measure.Add(p, "devices", &f.o.Devices, 1000)
	measure.Add(p, "rate", &f.o.Rate, 1)
	measure.Add(p, "model-ms", &f.model, 5)
	measure.Add(p, "seconds", &f.seconds, 30)
	cli.Add(p, "parallel", &f.o.Abreast, 4096)
	cli.Add(p, "json", &f.json, false)
}

func (f *benchGatewayFlags) gatewayOptions() wire.GatewayOptions {
	f.o.Model = time.Duration(f.model * float64(time.Millisecond))
	f.o.Duration = time.Duration(f.seconds * float64(time.Second))
	return f.o
}

func (f *benchGatewayFlags) runGateway(ctx context.Context, a *cli.App) error {
	o := f.gatewayOptions()
	about := group.Measured(a, "bench gateway")
	if f.json {
		about.Machine.Bandwidth = a.Bandwidth()
	}
	m := cli.NewMeter(a.Stderr, "questions", false)
	o.Progress = func(done, of int) { m.Show(int64(done), int64(of)) }
	r, err := wire.Gateway(ctx, o)
	m.Close()
	if err != nil {
		return err
	}
	if f.json {
		return group.PrintResult(a, r, about)
	}
	printRefusals(a, r)
	return printTables(a, []*wire.GatewayReport{r}, about)
}

// printRefusals prints why questions were refused, which the table does not have.
func printRefusals(a *cli.App, r *wire.GatewayReport) {
	for _, why := range slices.Sorted(maps.Keys(r.Refusals)) {
		fmt.Fprintf(a.Stderr, "%d questions refused: %s\n", r.Refusals[why], why)
	}
}
