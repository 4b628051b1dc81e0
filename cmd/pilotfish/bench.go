package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/synth"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// newBenchCommand groups the measurements.
func newBenchCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		Short:   "Measure speed and memory",
		Example: `  pilotfish bench engine -m model.gguf -p 512 -n 64 -r 5`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return usagef("which measurement?")
		},
	}
	c.AddCommand(newBenchEngineCommand(a), newBenchRoutingCommand(a), newBenchSynthCommand(a))
	return c
}

// newBenchEngineCommand measures a model on this machine.
func newBenchEngineCommand(a *app) *cobra.Command {
	var (
		o       bench.EngineOptions
		prof    profileFlag
		kv      string
		where   string
		asJSON  bool
		measure = &cobra.Command{
			Use:   "engine -m FILE [flags]",
			Short: "Measure prompts, generation, loading and memory against the bandwidth of this machine",
			Long: `Measure prompts (-p tokens at once), generation (-n tokens, one after the other), loading and memory.

Generating a token reads every weight once, and the keys and values before it (-d), so the bandwidth at which memory can be read
bounds it: that is measured after every sample, with as many threads, and the share of the bound is printed. A prompt uses
each weight once for each of its tokens; its bound is the rate of the instructions that multiply, which is measured too. Figures
are medians of -r samples.`,
			Example: `  pilotfish bench engine -m model.gguf -p 512 -n 64 -t 2 -r 5
  pilotfish bench engine -m model.gguf -p 0 -n 32 -d 4096
  pilotfish bench engine -m model.gguf --scaling`,
			Args: cobra.NoArgs,
		}
	)
	measure.RunE = func(c *cobra.Command, _ []string) error {
		if o.Prompt < 0 || o.Decode < 0 || o.Depth < 0 || o.Repeat < 1 || o.Engine.Threads < 0 {
			return usagef("-p, -n, -d and -t must not be negative, -r is at least 1")
		}
		var err error
		if o.Engine.KV, err = parseKV(kv); err != nil {
			return err
		}
		if o.Engine.Backend, err = parseBackend(where); err != nil {
			return err
		}
		if o.Scaling && o.Engine.Backend != engine.CPU {
			return usagef("--scaling is about the threads of the CPU: leave out --backend %s", where)
		}
		stop, err := prof.start(a)
		if err != nil {
			return err
		}
		defer stop()
		m := newMeter(a.stderr, "samples", inPieces)
		o.OnSample = func(done int) { m.show(int64(done), int64(o.Repeat)) }
		r, err := bench.Engine(c.Context(), o)
		m.close()
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(r)
		}
		printEngineReport(a, r)
		return nil
	}
	f := measure.Flags()
	f.StringVarP(&o.Model, "model", "m", "", "the model, a GGUF `file` (required)")
	f.IntVarP(&o.Prompt, "prompt", "p", 512, "tokens of the prompt; 0 leaves prompts out")
	f.IntVarP(&o.Decode, "generate", "n", 64, "tokens to generate; 0 leaves generation out")
	f.IntVarP(&o.Depth, "depth", "d", 0, "tokens of context before those that are generated; at least 8")
	f.BoolVar(&o.Scaling, "scaling", false, "measure with 1, 2, … threads, up to -t, too")
	f.IntVarP(&o.Engine.Threads, "threads", "t", 0, "CPU threads; 0 means one for each fast core this process may use")
	f.IntVarP(&o.Repeat, "repeat", "r", 3, "samples")
	registerKV(f, &kv)
	registerBackend(f, &where)
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the random prompts")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	prof.register(measure)
	cobra.CheckErr(measure.MarkFlagRequired("model"))
	return measure
}

func printEngineReport(a *app, r bench.EngineReport) {
	fmt.Fprintf(a.stdout, "%s\n", r.Device)
	if r.PromptBound > 0 {
		fmt.Fprintf(a.stdout, "prompt       %8.1f tokens/s, %.0f%% of the bound of %.0f\n", r.PromptTPS, 100*r.PromptTPS/r.PromptBound, r.PromptBound)
		fmt.Fprintf(a.stdout, "             %8.1f billion multiply-adds/s; instructions alone: bytes %.0f, float32 %.0f\n", r.PromptMACs, r.PeakBytes, r.PeakFloats)
	} else if r.PromptTPS > 0 {
		fmt.Fprintf(a.stdout, "prompt       %8.1f tokens/s\n", r.PromptTPS)
	}
	if r.GenerationTPS > 0 {
		fmt.Fprintf(a.stdout, "generation   %8.1f tokens/s, %.0f%% of the bound of %.1f\n", r.GenerationTPS, 100*r.Share, r.Bound)
	}
	if r.Dispatches > 0 {
		fmt.Fprintf(a.stdout, "encoded      %8d dispatches a token, in %d levels\n", r.Dispatches, r.Levels)
	}
	fmt.Fprintf(a.stdout, "bound        %8.1f GB/s read, %s a token", r.Bandwidth, humanize.Bytes(uint64(r.TokenBytes)))
	if r.DepthBytes > 0 {
		fmt.Fprintf(a.stdout, " and %s of keys and values", humanize.Bytes(uint64(r.DepthBytes)))
	}
	fmt.Fprintln(a.stdout)
	if len(r.ByThreads) > 1 {
		fmt.Fprintf(a.stdout, "by threads  ")
		for _, v := range r.ByThreads {
			fmt.Fprintf(a.stdout, " %8.1f", v)
		}
		fmt.Fprintln(a.stdout, " GB/s")
	}
	fmt.Fprintf(a.stdout, "load         %8.1f ms, first token after %.1f ms\n", r.LoadMS, r.FirstTokenMS)
	if r.PeakRSS > 0 {
		fmt.Fprintf(a.stdout, "peak memory  %8s (file %s, KV up to %s)\n", humanize.Bytes(uint64(r.PeakRSS)), humanize.Bytes(uint64(r.FileBytes)), humanize.Bytes(uint64(r.KVBytes)))
	}
	if len(r.Scaling) > 0 {
		fmt.Fprintf(a.stdout, "\nthreads   prompt, tokens/s   generation, tokens/s   GB/s read   share\n")
	}
	for _, s := range r.Scaling {
		fmt.Fprintf(a.stdout, "%7d %18.1f %22.1f %11.1f %6.0f%%\n", s.Threads, s.PromptTPS, s.GenerationTPS, s.Bandwidth, 100*s.Share)
	}
}

// newBenchSynthCommand writes a model of random weights.
func newBenchSynthCommand(a *app) *cobra.Command {
	var (
		shape, kind string
		seed        uint64
	)
	shapes := map[string]func(synth.Recipe, uint64) synth.Spec{"tiny": synth.Tiny, "0.5b": synth.Half}
	c := &cobra.Command{
		Use:   "synth FILE [flags]",
		Short: "Write a model of random weights, to measure with where no real one is at hand",
		Long: `Write a complete model of random weights, to measure with where no real one is at hand. The shape 0.5b is that of
Qwen2.5-0.5B; a tiny one has all parts and runs in no time. The same flags write the same bytes.

Types: ` + strings.Join(synth.RecipeNames(), " ") + ".",
		Example: `  pilotfish bench synth --shape 0.5b --type q8_0 random.gguf`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			recipe, err := synth.ParseRecipe(kind)
			if err != nil {
				return usagef("--type: %w", err)
			}
			spec, ok := shapes[shape]
			if !ok {
				return usagef("--shape %s: tiny or 0.5b", shape)
			}
			return a.writeModel(spec(recipe, seed), args[0])
		},
	}
	c.Flags().StringVar(&shape, "shape", "0.5b", "tiny or 0.5b")
	c.Flags().StringVar(&kind, "type", "q8_0", "`type` of the weights")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the weights")
	return c
}

// writeModel writes a model to a new file at path. What is not whole is removed.
func (a *app) writeModel(s synth.Spec, path string) (err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	m := newMeter(a.stderr, "weights", inPieces)
	err = errors.Join(s.Write(out, m.show), out.Close())
	m.close()
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	_, err = fmt.Fprintln(a.stdout, path)
	return err
}
