package bench

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
)

// speedTable has a row for each test, and below it what all have in common.
func speedTable(all []speed.Report) *report.Table {
	r := &all[0]
	t := &report.Table{Title: fmt.Sprintf("%s, keys and values %s; machine %s", r.Device, r.KV, r.Quiet),
		Columns: []report.Column{{Name: "test"}, {Name: "tokens/s"}, {Name: "MAD"}, {Name: "range"}, {}},
		Note:    memoryNote(r)}
	row := func(kind string, n, depth int, tps float64, s *speed.Spread, remark string) {
		test, mad, spread := fmt.Sprintf("%s%d", kind, n), "", ""
		if depth > 0 {
			test += fmt.Sprintf(" @ d%d", depth) // as in llama-bench
		}
		if s != nil {
			mad, spread = fmt.Sprintf("%.1f%%", 100*s.MAD), fmt.Sprintf("%.1f%%", 100*s.Range)
		}
		t.Rows = append(t.Rows, []string{test, fmt.Sprintf("%.1f", tps), mad, spread, remark})
	}
	for _, r := range all {
		if r.Rows > 0 {
			remark := ""
			if r.Rows > 1 {
				remark = fmt.Sprintf("%.2f times the time of one row", r.RowsCost)
			}
			row("rows", r.Rows, r.Depth, r.RowsTPS, r.Noise.Rows, remark)
		}
		if r.PromptTokens > 0 {
			remark := ""
			if r.PromptBound > 0 {
				remark = fmt.Sprintf("%.0f%% of the %.0f that multiplying allows",
					min(100, 100*r.PromptTPS/r.PromptBound), r.PromptBound)
			}
			row("pp", r.PromptTokens, r.Depth, r.PromptTPS, r.Noise.Prompt, remark)
		}
		if r.DecodedTokens > 0 {
			row("tg", r.DecodedTokens, r.Depth, r.GenerationTPS, r.Noise.Decode, decodeRemark(&r))
		}
	}
	return t
}

// decodeRemark compares a generation with its bound.
func decodeRemark(r *speed.Report) string {
	switch {
	case r.FitsCache:
		return "the model fits in the CPU's cache, so memory bandwidth does not bound it"
	case r.Share == nil:
		return ""
	}
	return fmt.Sprintf("%.0f%% of the %.1f that reading memory allows", 100**r.Share, r.Bound)
}

// memoryNote describes the use of memory, and the time to the first token.
func memoryNote(r *speed.Report) string {
	size := func(n int64) string { return humanize.Bytes(uint64(n)) }
	lines := []string{
		fmt.Sprintf("memory   %.1f GB/s can be read; a token reads %s of weights, %s of keys and values", r.Bandwidth,
			size(r.TokenBytes), size(r.DepthBytes)),
		fmt.Sprintf("weights  %s of %s in huge pages", size(r.HugeBytes), size(r.FileBytes)),
		fmt.Sprintf("load     %.1f ms, first token after %.1f ms", r.LoadMS, r.FirstTokenMS),
	}
	if r.WeightsStay != "" {
		lines[1] += ": " + r.WeightsStay
	}
	if r.PeakRSS > 0 {
		lines = append(lines, fmt.Sprintf("peak     %s (keys and values of a full context: %s)", size(r.PeakRSS),
			size(r.KVBytes)))
	}
	return strings.Join(lines, "\n") + "\n"
}
