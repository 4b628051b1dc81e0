package bench

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish-bench/internal/measure"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// benchEngineFlags has the flags of `pilotfish-bench engine`.
type benchEngineFlags struct {
	m       speed.Matrix
	lists   struct{ prompt, generate, depth, rows group.List[int] }
	kv      string
	backend string
	huge    string
	json    bool
	flags   *pflag.FlagSet // to see which flags were given
}

func newBenchEngineCommand(a *cli.App) *cobra.Command {
	var f benchEngineFlags
	c := &cobra.Command{
		Use:   "engine -m FILE [flags]",
		Short: "Measure the speed and memory use of a model on this machine",
		Long: `Measure the speed and memory use of a model on this machine.

  prompt      -p tokens are processed at once. This is limited by how fast the CPU multiplies: every token uses every
              weight. The limit is measured too, and the share of it that was reached is printed.
  generation  -n tokens, one after another. This is limited by memory bandwidth: every token reads all weights, and
              the keys and values of the context before it (-d). Bandwidth is measured after each sample, with as many
              threads. It is no limit for a model that fits into the CPU's cache.
  rows        --rows tokens in one forward pass that all follow the same context, as when drafting guesses at one token.
  load        from opening the file until model and tokenizer are ready. The file is mapped: weights are read when
              they are first used. The time to the first token starts at the same moment, with a prompt of 8 tokens.

Speeds are medians of -r samples; everything else is measured once. The spread of the samples is given as the median of
their distances from the median (MAD) and as the longest minus the shortest, both relative to the median. The machine
counts as quiet if other processes used no more than 2% of its CPU time while samples were taken, and other virtual
machines 1%.

-p, -n, -d and --rows take lists, such as -p 16,512: all combinations are measured. They take turns sample by sample, so
that a machine that slows down affects all of them. Without -d, a generation follows 8 tokens. --json writes one line
for each combination.`,
		Example: `  pilotfish-bench engine -m model.gguf -p 512 -n 64 -t 2 -r 5
  pilotfish-bench engine -m model.gguf -p 0 -n 32 -d 0,4000,32000
  pilotfish-bench engine -m model.gguf -p 16,512 -n 64 -t 2 -r 5 --json
  pilotfish-bench engine -m model.gguf --rows 1,2,4,8`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.runEngine(c.Context(), a) },
	}
	f.registerFlags(c)
	return c
}

func (f *benchEngineFlags) registerFlags(c *cobra.Command) {
	p := c.Flags()
	f.flags = p
	l := &f.lists
	l.prompt, l.generate, l.depth, l.rows = group.Numbers("512"), group.Numbers("64"), group.Numbers("0"),
		group.Numbers("")
	cli.Add(p, "model", &f.m.Model, "")
	measure.AddValue(p, "prompt", &l.prompt)
	measure.AddValue(p, "generate", &l.generate)
	measure.AddValue(p, "depth", &l.depth)
	measure.AddValue(p, "rows", &l.rows)
	cli.Add(p, "threads", &f.m.Engine.Threads, 0)
	measure.Add(p, "repeat", &f.m.Repeat, 3)
	cli.Add(p, "kv", &f.kv, "auto")
	cli.Add(p, "huge-pages", &f.huge, "auto")
	cli.Add(p, "backend", &f.backend, string(engine.CPU))
	cli.Add(p, "json", &f.json, false)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

func (f *benchEngineFlags) runEngine(ctx context.Context, a *cli.App) error {
	if err := f.checkEngineFlags(); err != nil {
		return err
	}
	limit, err := speed.ContextLimit(f.m.Model)
	if err != nil {
		return err
	}
	if err := f.fitContext(limit); err != nil {
		return err
	}
	about := group.Measured(a, "bench engine")
	if about.Model, err = record.OfFile(f.m.Model); err != nil {
		return err
	}
	all, err := f.measureEngine(ctx, a)
	if err != nil {
		return err
	}
	if f.json {
		return printJSONLines(a, all, about)
	}
	return speedTable(all, about.Model.Bytes).Text(a.Stdout)
}

func (f *benchEngineFlags) measureEngine(ctx context.Context, a *cli.App) ([]speed.Report, error) {
	m := cli.NewMeter(a.Stderr, "samples", false)
	defer m.Close()
	f.m.OnSample = func(_ speed.Cell, done, of int) { m.Show(int64(done), int64(of)) }
	return f.m.Run(ctx)
}

// printJSONLines prints a line for each combination. The line of a single combination is a contract with other
// programs, and so is the last line.
func printJSONLines(a *cli.App, all []speed.Report, about record.Run) error {
	for _, r := range all {
		about.Machine.Bandwidth = r.Bandwidth
		if err := group.PrintResult(a, r, about); err != nil {
			return err
		}
	}
	return nil
}
