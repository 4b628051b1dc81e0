package bench

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pilotfish-ai/pilotfish/bench/report"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
)

// speedTable has a row for each test, and below it what all have in common. file is the size of the model in bytes.
func speedTable(all []speed.Report, file int64) *report.Table {
	r := &all[0]
	t := &report.Table{Title: fmt.Sprintf("%s, keys and values %s; machine %s", r.Device, r.KV, r.Quiet),
		Columns: []report.Column{{Name: "test"}, {Name: "tokens/s"}, {Name: "MAD"}, {Name: "range"}, {}},
		Note:    memoryNote(r, file)}
	row := func(r *speed.Report, kind string, n int, rate func(speed.Sample) float64, tps float64, remark string) {
		test, mad, spread := fmt.Sprintf("%s%d", kind, n), "", ""
		if r.Depth > 0 {
			test += fmt.Sprintf(" @ d%d", r.Depth) // as in llama-bench
		}
		if s := speed.SpreadOf(r.Samples, rate); s != nil {
			mad, spread = fmt.Sprintf("%.1f%%", 100*s.MAD), fmt.Sprintf("%.1f%%", 100*s.Range)
		}
		t.Rows = append(t.Rows, []string{test, fmt.Sprintf("%.1f", tps), mad, spread, remark})
	}
	for _, r := range all {
		if r.Rows > 0 {
			remark := ""
			if r.Rows > 1 {
				remark = fmt.Sprintf("%.2f times the time of one row", r.RowsCost(all))
			}
			row(&r, "rows", r.Rows, func(s speed.Sample) float64 { return s.RowsTPS }, r.RowsTPS, remark)
		}
		if r.PromptTokens > 0 {
			remark := ""
			if r.PromptBound > 0 {
				remark = fmt.Sprintf("%.0f%% of the %.0f that multiplying allows",
					min(100, 100*r.PromptTPS/r.PromptBound), r.PromptBound)
			}
			row(&r, "pp", r.PromptTokens, func(s speed.Sample) float64 { return s.PromptTPS }, r.PromptTPS, remark)
		}
		if r.DecodedTokens > 0 {
			row(&r, "tg", r.DecodedTokens, func(s speed.Sample) float64 { return s.GenerationTPS }, r.GenerationTPS,
				decodeRemark(&r))
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
	return fmt.Sprintf("%.0f%% of the %.1f that reading memory allows", 100**r.Share, r.Bound())
}

// memoryNote describes the use of memory, and the time to the first token.
func memoryNote(r *speed.Report, file int64) string {
	size := func(n int64) string { return humanize.Bytes(uint64(n)) }
	lines := []string{
		fmt.Sprintf("memory   %.1f GB/s can be read; a token reads %s of weights, %s of keys and values", r.Bandwidth,
			size(r.TokenBytes), size(r.DepthBytes)),
		fmt.Sprintf("weights  %s of %s in huge pages", size(r.HugeBytes), size(file)),
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
