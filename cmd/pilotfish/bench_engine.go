package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// benchEngineFlags are the flags of `pilotfish bench engine`.
type benchEngineFlags struct {
	m       bench.EngineMatrix
	lists   struct{ prompt, generate, depth, rows, threads numberList }
	kv      string
	backend string
	huge    string
	scaling bool
	output  string
	json    bool
	flags   *pflag.FlagSet // to know which of them were given
}

// newBenchEngineCommand measures a model on this machine.
func newBenchEngineCommand(a *app) *cobra.Command {
	var f benchEngineFlags
	c := &cobra.Command{
		Use:   "engine -m FILE [flags]",
		Short: "Measure how fast a model runs on this machine, and how much memory it takes",
		Long: `Measure how fast a model runs on this machine, and how much memory it takes.

  prompt      -p tokens are read at once. The limit is how fast the CPU multiplies: every token uses every weight. That is
              measured too, and the share of it that was reached is printed.
  generation  -n tokens, one after the other. The limit is how fast memory can be read: every token reads all weights, and
              the keys and values of the context before it (-d). That is measured after each sample, with as many threads.
              It is no limit for a model that fits in the CPU's cache.
  rows        --rows tokens in one forward call that all follow the same context, as drafting guesses at one token.
  load        from before the file is opened until model and tokenizer are ready. The file is mapped: weights are read when
              they are first used. The time to the first token begins at the same moment, with a prompt of 8 tokens.

Speeds are medians of -r samples; the rest is measured once. How far samples lie apart is said as the median of their
distances from the median (MAD) and as the longest less the shortest, both as shares of the median. The machine was quiet
if other processes took no more than 2% of the time of its CPUs while samples were taken, and other virtual machines 1%.

-p, -n, -d, -t, --rows, --kv and --backend take lists, such as -p 16,512: all combinations are measured. Those that one
load of the model serves take turns sample by sample, so that a machine which becomes slower hurts all of them; another
number of threads, type of keys and values or backend is another load. -o writes the columns of llama-bench, as json,
jsonl, csv or md (a table), so that its results and these stand in one table: pp512 is a prompt of 512 tokens, tg64 a
generation of 64, "@ d4096" a context before it. A generation without -d follows 8 tokens here, and none there. --json
writes one line for each combination.`,
		Example: `  pilotfish bench engine -m model.gguf -p 512 -n 64 -t 2 -r 5
  pilotfish bench engine -m model.gguf -p 0 -n 32 -d 0,4000,32000
  pilotfish bench engine -m model.gguf -p 16,512 -n 64 -t 1,2 -r 5 -o md
  pilotfish bench engine -m model.gguf --rows 1,2,4,8
  pilotfish bench engine -m model.gguf --scaling`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), a) },
	}
	f.register(c)
	return c
}

func (f *benchEngineFlags) register(c *cobra.Command) {
	p := c.Flags()
	f.flags = p
	l := &f.lists
	l.prompt, l.generate, l.depth, l.threads = numberList{512}, numberList{64}, numberList{0}, numberList{0}
	p.StringVarP(&f.m.Model, "model", "m", "", "the model, a GGUF `file` (required)")
	p.VarP(&l.prompt, "prompt", "p", "tokens of the prompt, less if the model holds less; 0 leaves prompts out")
	p.VarP(&l.generate, "generate", "n", "tokens to generate, less if the model holds less; 0 leaves generation out")
	p.VarP(&l.depth, "depth", "d", "tokens of context before what is measured: 0, or 8 or more. A generation always "+
		"follows 8 or more")
	p.Var(&l.rows, "rows", "tokens in one forward call, 1 to 8: how many a second, and what the call costs over one of "+
		"one token")
	p.BoolVar(&f.scaling, "scaling", false, "measure with 1, 2, … threads, up to -t, too")
	p.VarP(&l.threads, "threads", "t", "CPU threads; 0 means one for each fast core this process may use")
	p.IntVarP(&f.m.Repeat, "repeat", "r", 3, "samples")
	registerKV(p, &f.kv)
	registerHugePages(p, &f.huge)
	registerBackend(p, &f.backend)
	for _, name := range []string{"kv", "backend"} {
		p.Lookup(name).Usage += "; or several, separated by commas"
	}
	p.StringVarP(&f.output, "output", "o", "text",
		"`form`: text, or in the columns of llama-bench: json, jsonl, csv or md")
	p.BoolVar(&f.json, "json", false, "print one JSON object for each combination")
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

func (f *benchEngineFlags) run(ctx context.Context, a *app) error {
	if err := f.check(); err != nil {
		return err
	}
	limit, err := bench.ContextLimit(f.m.Model)
	if err != nil {
		return err
	}
	if err := f.fit(limit); err != nil {
		return err
	}
	about := a.measured()
	if about.Model, err = result.OfFile(f.m.Model); err != nil {
		return err
	}
	all, err := f.measure(ctx, a)
	if err != nil {
		return err
	}
	switch {
	case f.json:
		return f.printJSON(a, all, about)
	case f.output != "text":
		return f.printColumns(a, all, about)
	case len(all) == 1:
		printEngineReport(a, all[0])
	default:
		printEngineReports(a, all)
	}
	return nil
}

// measure returns the reports of all combinations.
func (f *benchEngineFlags) measure(ctx context.Context, a *app) (all []bench.EngineReport, err error) {
	m := newMeter(a.stderr, "samples", inPieces)
	defer m.close()
	f.m.OnSample = func(done, of int) { m.show(int64(done), int64(of)) }
	if !f.scaling {
		err := f.m.Run(ctx, func(r bench.EngineReport) error {
			all = append(all, r)
			return nil
		})
		return all, err
	}
	o := bench.EngineOptions{Model: f.m.Model, Engine: f.m.Engine, Scaling: true, Repeat: f.m.Repeat,
		OnSample: func(done int) { m.show(int64(done), int64(f.m.Repeat)) }}
	o.Engine.Backend, o.Engine.KV, o.Engine.Threads = f.m.Backends[0], f.m.KV[0], f.m.Threads[0]
	o.Prompt, o.Decode, o.Depth = total(f.m.Prompts), total(f.m.Decodes), f.m.Depths[0]
	r, err := bench.Engine(ctx, o)
	return []bench.EngineReport{r}, err
}

// printJSON prints a line for each combination. A single one is the contract with other programs, and so is the last.
func (f *benchEngineFlags) printJSON(a *app, all []bench.EngineReport, about result.Run) error {
	for _, r := range all {
		about.Machine.Bandwidth = r.Bandwidth
		if err := a.printResult(r, about); err != nil {
			return err
		}
	}
	return nil
}
