package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/group"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// benchGatewayFlags has the flags of `pilotfish bench gateway`.
type benchGatewayFlags struct {
	o       wire.GatewayOptions
	model   float64 // milliseconds
	seconds float64
	gateway group.GatewayFlags
	file    string // model with the vocabulary of the gateway's model
	json    bool
}

// newBenchGatewayCommand returns the command that measures a gateway under load.
func newBenchGatewayCommand(a *cli.App) *cobra.Command {
	var f benchGatewayFlags
	c := &cobra.Command{
		Use:   "gateway [flags]",
		Short: "Measure the speed, fairness and memory use of a gateway that serves many devices",
		Long: `Measure how fast a gateway answers many devices, how fairly, and how much memory this takes.

By default the gateway runs in this process, as do the devices, over UDP on loopback; its model takes --model-ms per
question and computes nothing. With --cloud, a gateway elsewhere is measured. Each device has its own connection.
Questions are due at times that do not depend on how long others take, and are timed from then to the answer, so
waiting during a stall counts. A device's text starts with 128 tokens, and each of its questions adds 8.

Fairness is how equally the devices were served: Jain's index of the shares of their questions that were answered, and
of the 99th percentiles of their times. It is 1 if all are equal, and 1/n if one of n devices gets everything. Devices
only have to wait if the model takes fewer questions at a time than there are (--parallel).`,
		Example: `  pilotfish bench gateway --devices 1000 --rate 1 --model-ms 5 --seconds 30
  pilotfish bench gateway --devices 50 --rate 2 --model-ms 15 --parallel 4`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), a) },
	}
	f.register(c.Flags())
	return c
}

func (f *benchGatewayFlags) register(p *pflag.FlagSet) {
	cli.Add(p, "devices", &f.o.Devices, 1000)
	cli.Add(p, "rate", &f.o.Rate, 1)
	cli.Add(p, "model-ms", &f.model, 5)
	cli.Add(p, "seconds", &f.seconds, 30)
	cli.Add(p, "parallel", &f.o.Abreast, 4096)
	cli.Add(p, "cloud", &f.gateway.Address, "")
	cli.Add(p, "pin", &f.gateway.Pin, "")
	cli.Add(p, "token-file", &f.gateway.Token, "")
	cli.Add(p, "model", &f.file, "")
	cli.Add(p, "json", &f.json, false)
	f.gateway.Set = p
}

// check returns an error for wrong flags, and completes the options.
func (f *benchGatewayFlags) check(a *cli.App) error {
	f.o.Model = time.Duration(f.model * float64(time.Millisecond))
	f.o.Duration = time.Duration(f.seconds * float64(time.Second))
	return f.remote(a)
}

func (f *benchGatewayFlags) run(ctx context.Context, a *cli.App) error {
	if err := f.check(a); err != nil {
		return err
	}
	about := group.Measured(a)
	if f.json {
		about.Machine.Bandwidth = a.Bandwidth()
	}
	m := cli.NewMeter(a.Stderr, "questions", false)
	f.o.Progress = func(done, of int) { m.Show(int64(done), int64(of)) }
	r, err := wire.Gateway(ctx, f.o)
	m.Close()
	if _, ok := errors.AsType[*engine.ConnectError](err); ok && f.o.Remote != nil {
		return f.gateway.Explain(err)
	}
	if err != nil {
		return err
	}
	if f.o.Remote != nil {
		about.Remote = f.o.Remote.Address
	}
	if f.json {
		return group.PrintResult(a, r, about)
	}
	sayRefused(a, r)
	return printTables(a, []*wire.GatewayReport{r}, about)
}

// remote sets the gateway to measure, if it is not in this process.
func (f *benchGatewayFlags) remote(a *cli.App) error {
	if !f.gateway.Set.Changed("cloud") {
		return nil
	}
	if f.file == "" {
		return cli.Usagef("--cloud needs the vocabulary of the gateway's model: give a model of its family with -m")
	}
	parsed, err := f.gateway.Parse(a)
	if err != nil {
		return err
	}
	dial, err := f.gateway.Engine(parsed)
	if err != nil {
		return err
	}
	e, err := engine.Open(f.file, engine.Options{HugePages: engine.HugeOff})
	if err != nil {
		return err
	}
	defer e.Close()
	identity, err := e.Identity()
	if err != nil {
		return err
	}
	f.o.Remote = &wire.RemoteGateway{Address: f.gateway.Address, Identity: identity, Pin: dial.Pin,
		Secret: dial.Secret}
	f.o.Model = 0
	return nil
}

// sayRefused prints why questions were refused, which the table does not have.
func sayRefused(a *cli.App, r *wire.GatewayReport) {
	for _, why := range slices.Sorted(maps.Keys(r.Refusals)) {
		fmt.Fprintf(a.Stderr, "%d questions refused: %s\n", r.Refusals[why], why)
	}
}
