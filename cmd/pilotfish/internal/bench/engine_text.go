package bench

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// printEngineReport prints one measurement of an engine, with one line for each quantity.
func printEngineReport(a *cli.App, r speed.Report) {
	fmt.Fprintf(a.Stdout, "%s\n", r.Device)
	printSpeeds(a, r)
	printMemory(a, r)
	printNoise(a, r)
}

// printSpeeds prints the speeds of prompts and answers.
func printSpeeds(a *cli.App, r speed.Report) {
	if r.PromptTokens > 0 {
		fmt.Fprintf(a.Stdout, "prompt       %8.1f tokens/s, %d at once", r.PromptTPS, r.PromptTokens)
		if r.PromptBound > 0 {
			fmt.Fprintf(a.Stdout, ": %.0f%% of the %.0f that multiplying allows",
				min(100, 100*r.PromptTPS/r.PromptBound), r.PromptBound)
			fmt.Fprintf(a.Stdout,
				"\n             %8.1f billion multiplications with weights per second; "+
					"this CPU can do %.0f of bytes or %.0f of float32",
				r.PromptMACs, r.PeakBytes, r.PeakFloats)
		}
		fmt.Fprintln(a.Stdout)
	}
	if r.DecodedTokens > 0 {
		fmt.Fprintf(a.Stdout, "generation   %8.1f tokens/s, %d one by one: %s\n",
			r.GenerationTPS, r.DecodedTokens, bandwidthText(r))
	}
	if r.Dispatches > 0 {
		fmt.Fprintf(a.Stdout,
			"encoded      %8d dispatches a token, in %d levels: those of one level need not wait for each other\n",
			r.Dispatches, r.Levels)
	}
	if r.Predicted != nil {
		fmt.Fprintf(a.Stdout, "predicted    %s\n", predictedText(*r.Predicted))
	}
}

// printMemory prints the bandwidth and use of memory, and the time to the first token.
func printMemory(a *cli.App, r speed.Report) {
	fmt.Fprintf(a.Stdout, "memory       %8.1f GB/s can be read; a token reads %s of weights",
		r.Bandwidth, humanize.Bytes(uint64(r.TokenBytes)))
	if r.DepthBytes > 0 {
		fmt.Fprintf(a.Stdout, " and %s of keys and values", humanize.Bytes(uint64(r.DepthBytes)))
	}
	fmt.Fprintln(a.Stdout)
	if len(r.ByThreads) > 1 {
		fmt.Fprintf(a.Stdout, "by threads  ")
		for _, v := range r.ByThreads {
			fmt.Fprintf(a.Stdout, " %8.1f", v)
		}
		fmt.Fprintf(a.Stdout, " GB/s, with 1 to %d\n", len(r.ByThreads))
	}
	fmt.Fprintf(a.Stdout, "weights      %8s of %s in huge pages", humanize.Bytes(uint64(r.HugeBytes)),
		humanize.Bytes(uint64(r.FileBytes)))
	if r.WeightsStay != "" {
		fmt.Fprintf(a.Stdout, ": %s", r.WeightsStay)
	} else {
		fmt.Fprintf(a.Stdout, ", %.0f ms after the first token", r.MoveMS)
	}
	fmt.Fprintln(a.Stdout)
	fmt.Fprintf(a.Stdout, "load         %8.1f ms, first token after %.1f ms\n", r.LoadMS, r.FirstTokenMS)
	if r.PeakRSS > 0 {
		fmt.Fprintf(a.Stdout, "peak memory  %8s (file %s, keys and values of a full context %s)\n",
			humanize.Bytes(uint64(r.PeakRSS)), humanize.Bytes(uint64(r.FileBytes)), humanize.Bytes(uint64(r.KVBytes)))
	}
}

// printNoise prints the spread of the samples, and the load of the machine by other processes.
func printNoise(a *cli.App, r speed.Report) {
	var all []string
	for _, n := range []struct {
		what string
		s    *speed.Spread
	}{{"prompt", r.Noise.Prompt}, {"generation", r.Noise.Decode}, {"rows", r.Noise.Rows}} {
		if n.s != nil {
			all = append(all,
				fmt.Sprintf("%s %.1f%% (MAD), %.1f%% from shortest to longest", n.what, 100*n.s.MAD, 100*n.s.Range))
		}
	}
	if len(all) > 0 {
		fmt.Fprintf(a.Stdout, "spread       %s\n", strings.Join(all, "; "))
	}
	if t := r.TokenMS; t != nil {
		fmt.Fprintf(a.Stdout, "each token   %8.2f ms median, %.2f at 90%%, %.2f at 99%%\n", t.P50, t.P90, t.P99)
	}
	if r.Quiet.Seconds > 0 {
		fmt.Fprintf(a.Stdout, "machine      %s\n", r.Quiet)
	}
}

// printEngineReports prints a line for each measurement. Those of one load of the model follow its device.
func printEngineReports(a *cli.App, all []speed.Report) {
	for i, r := range all {
		c := r.Cell
		if last := all[max(i-1, 0)]; i == 0 || *lastLoad(last) != *lastLoad(r) {
			if i > 0 {
				fmt.Fprintln(a.Stdout)
			}
			fmt.Fprintf(a.Stdout, "%s, keys and values %s; machine %s\n", r.Device, r.KV, r.Quiet)
			fmt.Fprintf(a.Stdout, "test                   tokens/s       MAD     range   remarks\n")
		}
		if c.Rows > 0 {
			remark := ""
			if c.Rows > 1 {
				remark = fmt.Sprintf("%.2f times the time of one row", r.RowsCost)
			}
			line(a, at("rows", c.Rows, c.Depth), r.RowsTPS, r.Noise.Rows, remark)
		}
		if c.Prompt > 0 {
			remark := ""
			if r.PromptBound > 0 {
				remark = fmt.Sprintf("%.0f%% of what multiplying allows", min(100, 100*r.PromptTPS/r.PromptBound))
			}
			line(a, at("pp", c.Prompt, c.Depth), r.PromptTPS, r.Noise.Prompt, remark)
		}
		if c.Decode > 0 {
			line(a, at("tg", c.Decode, c.Depth), r.GenerationTPS, r.Noise.Decode, bandwidthText(r))
			if r.Predicted != nil {
				fmt.Fprintf(a.Stdout, "  predicted  %s\n", predictedText(*r.Predicted))
			}
		}
	}
}

// lastLoad returns the cell with what the combinations of one load have in common.
func lastLoad(r speed.Report) *speed.Cell {
	return &speed.Cell{Backend: r.Cell.Backend, KV: r.Cell.KV, Threads: r.Cell.Threads}
}

// at returns the name of a test as in llama-bench.
func at(kind string, n, depth int) string {
	if depth == 0 {
		return fmt.Sprintf("%s%d", kind, n)
	}
	return fmt.Sprintf("%s%d @ d%d", kind, n, depth)
}

// line prints one test.
func line(a *cli.App, test string, tps float64, s *speed.Spread, remark string) {
	noise := fmt.Sprintf("%9s %9s", "", "")
	if s != nil {
		noise = fmt.Sprintf("%8.1f%% %8.1f%%", 100*s.MAD, 100*s.Range)
	}
	fmt.Fprintf(a.Stdout, "%-20s %10.1f %s   %s\n", test, tps, noise, remark)
}

// predictedText compares the predicted speed of the generation with the measured one, and lists the figures of the
// prediction.
func predictedText(p speed.Prediction) string {
	if p.Why != "" {
		return "nothing: " + p.Why
	}
	g, c := p.GPU, p.Assumed
	return fmt.Sprintf("%8.1f tokens/s, %.0f µs a token with %d tokens of context; measured %.0f µs: %.2f times that"+
		"\n             of an %s with %d cores at %.2f GHz and %.0f GB/s, %.0f%% of it reached; %.1f µs until a read "+
		"has its data, %.1f µs a dispatch",
		p.GenerationTPS, p.TokenUS, p.Context, p.MeasuredUS, p.MeasuredUS/p.TokenUS,
		g.Chip, g.Cores, g.GHz, g.Bandwidth, 100*c.Streaming, c.Latency, c.Step)
}

// bandwidthText explains what the bandwidth of memory means for the generation.
func bandwidthText(r speed.Report) string {
	if r.FitsCache {
		return "the model fits in the CPU's cache, so memory bandwidth does not bound it"
	}
	return fmt.Sprintf("%s of the %.1f that reading memory allows", wholePercent(r.Share), r.Bound)
}

func wholePercent(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%%", 100**share)
}
