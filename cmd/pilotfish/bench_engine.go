package main

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// benchEngineFlags are the flags of `pilotfish bench engine`.
type benchEngineFlags struct {
	o       bench.EngineOptions
	profile profileFlag
	kv      string
	backend string
	huge    string
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
  load        from before the file is opened until model and tokenizer are ready. The file is mapped: weights are read when
              they are first used. The time to the first token begins at the same moment, with a prompt of 8 tokens.

Speeds are medians of -r samples; the rest is measured once.`,
		Example: `  pilotfish bench engine -m model.gguf -p 512 -n 64 -t 2 -r 5
  pilotfish bench engine -m model.gguf -p 0 -n 32 -d 4000
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
	p.StringVarP(&f.o.Model, "model", "m", "", "the model, a GGUF `file` (required)")
	p.IntVarP(&f.o.Prompt, "prompt", "p", 512, "tokens of the prompt, less if the model holds less; 0 leaves prompts out")
	p.IntVarP(&f.o.Decode, "generate", "n", 64,
		"tokens to generate, less if the model holds less; 0 leaves generation out")
	p.IntVarP(&f.o.Depth, "depth", "d", 0, "tokens of context before those that are generated: 8 or more; 0 means 8")
	p.BoolVar(&f.o.Scaling, "scaling", false, "measure with 1, 2, … threads, up to -t, too")
	p.IntVarP(&f.o.Engine.Threads, "threads", "t", 0, "CPU threads; 0 means one for each fast core this process may use")
	p.IntVarP(&f.o.Repeat, "repeat", "r", 3, "samples")
	registerKV(p, &f.kv)
	registerHugePages(p, &f.huge)
	registerBackend(p, &f.backend)
	p.BoolVar(&f.json, "json", false, "print one JSON object")
	f.profile.register(c)
	cobra.CheckErr(c.MarkFlagRequired("model"))
}

func (f *benchEngineFlags) run(ctx context.Context, a *app) error {
	if err := f.check(); err != nil {
		return err
	}
	limit, err := bench.ContextLimit(f.o.Model)
	if err != nil {
		return err
	}
	if err := f.fit(limit); err != nil {
		return err
	}
	stop, err := f.profile.start(a)
	if err != nil {
		return err
	}
	defer stop()
	about := a.measured()
	if about.Model, err = result.OfFile(f.o.Model); err != nil {
		return err
	}
	m := newMeter(a.stderr, "samples", inPieces)
	f.o.OnSample = func(done int) { m.show(int64(done), int64(f.o.Repeat)) }
	r, err := bench.Engine(ctx, f.o)
	m.close()
	if err != nil {
		return err
	}
	if f.json {
		about.Machine.Bandwidth = r.Bandwidth
		return a.printResult(r, about)
	}
	printEngineReport(a, r)
	return nil
}

// check refuses flags that make no sense for any model.
func (f *benchEngineFlags) check() (err error) {
	o := &f.o
	for _, v := range []struct {
		flag       string
		value, low int
	}{{"-p", o.Prompt, 0}, {"-n", o.Decode, 0}, {"-d", o.Depth, 0}, {"-t", o.Engine.Threads, 0}, {"-r", o.Repeat, 1}} {
		if v.value < v.low {
			return usagef("%s %d is too small: give %d or more", v.flag, v.value, v.low)
		}
	}
	if o.Engine.KV, err = parseKV(f.kv); err != nil {
		return err
	}
	if o.Engine.Backend, err = parseBackend(f.backend); err != nil {
		return err
	}
	if o.Engine.HugePages, err = parseHugePages(f.huge, o.Engine.Backend); err != nil {
		return err
	}
	switch {
	case o.Engine.Threads > mostThreads:
		return usagef("-t %d is too large: give at most %d", o.Engine.Threads, mostThreads)
	case o.Prompt == 0 && o.Decode == 0:
		return usagef("-p 0 and -n 0 leave nothing to measure: give one of them a number of tokens")
	case o.Depth > 0 && o.Decode == 0:
		return usagef("-d %d has no effect with -n 0: it is the context of the tokens that -n generates", o.Depth)
	case o.Depth > 0 && o.Depth < 8:
		return usagef("-d %d is too short: give 8 or more", o.Depth)
	case o.Scaling && o.Engine.Backend != engine.CPU:
		return usagef("--scaling is about the threads of the CPU: leave out --backend %s", f.backend)
	case o.Scaling && o.Engine.Threads == 1:
		return usagef("--scaling compares numbers of threads: give more than -t 1")
	}
	return nil
}

// fit shortens what was not asked for to the context of the model, of limit tokens, and refuses what was asked for and
// is too long.
func (f *benchEngineFlags) fit(limit int) error {
	o := &f.o
	most := limit - 1 // one token follows
	switch {
	case o.Prompt > most && f.flags.Changed("prompt"):
		return usagef("-p %d is too long: %s holds %d tokens, so give at most %d", o.Prompt, o.Model, limit, most)
	case o.Depth > most-1:
		return usagef("-d %d is too long: %s holds %d tokens, so give at most %d", o.Depth, o.Model, limit, most-1)
	}
	o.Prompt = min(o.Prompt, most)
	if most -= max(8, o.Depth); o.Decode > most && f.flags.Changed("generate") {
		return usagef("-n %d is too long: %s holds %d tokens, so give at most %d after a context of %d",
			o.Decode, o.Model, limit, max(0, most), max(8, o.Depth))
	}
	o.Decode = min(o.Decode, max(0, most))
	return nil
}

func printEngineReport(a *app, r bench.EngineReport) {
	fmt.Fprintf(a.stdout, "%s\n", r.Device)
	if r.PromptTokens > 0 {
		fmt.Fprintf(a.stdout, "prompt       %8.1f tokens/s, %d at once", r.PromptTPS, r.PromptTokens)
		if r.PromptBound > 0 {
			fmt.Fprintf(a.stdout, ": %.0f%% of the %.0f that multiplying allows",
				min(100, 100*r.PromptTPS/r.PromptBound), r.PromptBound)
			fmt.Fprintf(a.stdout,
				"\n             %8.1f billion multiplications with weights per second; "+
					"this CPU can do %.0f of bytes or %.0f of float32",
				r.PromptMACs, r.PeakBytes, r.PeakFloats)
		}
		fmt.Fprintln(a.stdout)
	}
	if r.DecodedTokens > 0 {
		fmt.Fprintf(a.stdout, "generation   %8.1f tokens/s, %d one by one: %s\n",
			r.GenerationTPS, r.DecodedTokens, bandwidthText(r))
	}
	if r.Dispatches > 0 {
		fmt.Fprintf(a.stdout,
			"encoded      %8d dispatches a token, in %d levels: those of one level need not wait for each other\n",
			r.Dispatches, r.Levels)
	}
	fmt.Fprintf(a.stdout, "memory       %8.1f GB/s can be read; a token reads %s of weights",
		r.Bandwidth, humanize.Bytes(uint64(r.TokenBytes)))
	if r.DepthBytes > 0 {
		fmt.Fprintf(a.stdout, " and %s of keys and values", humanize.Bytes(uint64(r.DepthBytes)))
	}
	fmt.Fprintln(a.stdout)
	if len(r.ByThreads) > 1 {
		fmt.Fprintf(a.stdout, "by threads  ")
		for _, v := range r.ByThreads {
			fmt.Fprintf(a.stdout, " %8.1f", v)
		}
		fmt.Fprintf(a.stdout, " GB/s, with 1 to %d\n", len(r.ByThreads))
	}
	fmt.Fprintf(a.stdout, "weights      %8s of %s in huge pages", humanize.Bytes(uint64(r.HugeBytes)),
		humanize.Bytes(uint64(r.FileBytes)))
	if r.WeightsStay != "" {
		fmt.Fprintf(a.stdout, ": %s", r.WeightsStay)
	} else {
		fmt.Fprintf(a.stdout, ", %.0f ms after the first token", r.MoveMS)
	}
	fmt.Fprintln(a.stdout)
	fmt.Fprintf(a.stdout, "load         %8.1f ms, first token after %.1f ms\n", r.LoadMS, r.FirstTokenMS)
	if r.PeakRSS > 0 {
		fmt.Fprintf(a.stdout, "peak memory  %8s (file %s, keys and values of a full context %s)\n",
			humanize.Bytes(uint64(r.PeakRSS)), humanize.Bytes(uint64(r.FileBytes)), humanize.Bytes(uint64(r.KVBytes)))
	}
	printScaling(a, r.Scaling)
}

// bandwidthText says what the bandwidth of memory means for the generation.
func bandwidthText(r bench.EngineReport) string {
	if r.FitsCache {
		return "the model fits in the CPU's cache, so memory bandwidth does not bound it"
	}
	return fmt.Sprintf("%s of the %.1f that reading memory allows", wholePercent(r.Share), r.Bound)
}

// printScaling prints a line for each number of threads.
func printScaling(a *app, all []bench.Scale) {
	if len(all) > 0 {
		fmt.Fprintf(a.stdout,
			"\nthreads   prompt, tokens/s   generation, tokens/s   GB/s read   share of what reading memory allows\n")
	}
	for _, s := range all {
		share := wholePercent(s.Share)
		if s.FitsCache {
			share = "fits in the cache"
		}
		fmt.Fprintf(a.stdout, "%7d %18.1f %22.1f %11.1f   %s\n", s.Threads, s.PromptTPS, s.GenerationTPS, s.Bandwidth, share)
	}
}

func wholePercent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", 100**share)
}
