package report

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// hostile is text that breaks a page without escaping.
const hostile = `</script><script>window.hostile=1</script><img src=x onerror="window.hostile=1">"'&` + "\u2028{{.}}"

// aRun returns the run of a measurement.
func aRun(measurement string) record.Run {
	return record.Run{
		Measurement: measurement, Version: "v1.2.3", Go: "go1.26", Command: "pilotfish " + measurement + " " + hostile,
		Flags: map[string]string{"rtt": "100ms", "loss": "0.05", "edge-tps": "60", "cloud-ms": "15", "policy": hostile},
		Date:  time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC),
		Machine: record.Machine{CPU: "A CPU " + hostile, Cores: 2, System: "linux/amd64",
			Kernels: "avx2", Memory: 8 << 30, Bandwidth: 21.3, Load: 0.2, VirtualCPU: true},
		Model: &record.Model{Name: "small " + hostile, Hash: "0123456789abcdef",
			Types: map[string]int64{"Q8_0": 9, "F32": 1}, Bytes: 10},
		Large: &record.Model{Hash: "fedcba9876543210", Types: map[string]int64{"Q8_0": 90}, Bytes: 100},
	}
}

// aMode returns a line of bench routing: a mode at a round trip, with 20 questions.
func aMode(name string, rtt float64) map[string]any {
	r := rand.New(rand.NewPCG(uint64(len(name)), uint64(rtt)))
	var samples []map[string]any
	for q := range 20 {
		wait := rtt * r.Float64()
		samples = append(samples, map[string]any{"question": q, "repetition": 0, "ms": 600 + wait,
			"bytes_up": 70, "bytes_down": 14})
	}
	return map[string]any{
		"mode": name, "answers": 20, "accuracy": 0.9, "accuracy_low": 0.7, "accuracy_high": 0.97,
		"sums":               map[string]any{"cloud_tokens": 31, "tokens": 1000, "timeouts": 0},
		"time_per_answer_ms": result.Times{Mean: 600 + rtt/2, P50: 601, P90: 650, P99: 700},
		"cell":               map[string]any{"rtt_ms": rtt, "loss": 0, "edge_tps": 60, "model_ms": 15, "devices": 8},
		"samples":            samples,
		"waterfall": []result.Span{
			{End: 40, Kind: result.SpanPrompt, Rows: 30},
			{Start: 40, End: 57, Kind: result.SpanStep, Pos: 30, Rows: 1, Leaves: 1},
			{Start: 57, End: 57 + rtt, Kind: result.SpanAsk, Pos: 31, Outcome: "hit"},
			{Start: 57, End: 74, Kind: result.SpanStep, Pos: 31, Rows: 4, Leaves: 4},
			{Start: 74, End: 57 + rtt, Kind: result.SpanWait, Pos: 31},
			{Start: 57 + rtt, End: 57 + rtt, Kind: result.SpanRollback, Pos: 31, Rows: 3},
			{Start: 57 + rtt, End: 57 + rtt, Kind: result.SpanShown, Pos: 31, Outcome: "cloud"},
			{Start: 58 + rtt, End: 58 + rtt, Kind: result.SpanTurn, Pos: 32, Rows: 1},
			{Start: 59 + rtt, End: 59 + rtt, Kind: result.SpanShown, Pos: 32, Outcome: "edge"},
		},
	}
}

// allLines returns lines of every kind of measurement.
func allLines(t *testing.T) (all [][]byte) {
	add := func(v any, run record.Run) {
		line, err := record.Line(v, run)
		require.NoError(t, err)
		all = append(all, line)
	}
	for _, rtt := range []float64{0, 50, 300} {
		for _, mode := range []string{"local", "serial", "pipelined-4", hostile} {
			add(aMode(mode, rtt), aRun("bench routing"))
		}
	}
	latency := map[string]any{"p50": 5.9, "p90": 7, "p99": 15, "p999": 40, "max": 81}
	add(map[string]any{
		"devices": 1000, "rate": 1, "model_ms": 5, "seconds": 30, "asks": 30000, "answers": 29999,
		"answers_per_second": 29999.0 / 30, "errors": 1, "cpu_ms": 9360,
		"ms": latency, "in_gateway_ms": latency, "memory_bytes": 150000000,
	}, aRun("bench gateway"))
	for threads := 1; threads <= 2; threads++ {
		n := float64(threads)
		add(map[string]any{
			"prompt_tps": 80 * n, "generation_tps": 30 * n, "prompt_tokens": 512, "generated_tokens": 64,
			"threads": threads, "bytes_per_token": 3e8, "bandwidth_share": 0.75,
			"bandwidth_gbs": 12 * n, "load_ms": 12, "first_token_ms": 80, "peak_rss_bytes": 900 << 20,
			"samples": []map[string]any{{"prompt_tps": 79 * n, "generation_tps": 29 * n},
				{"prompt_tps": 82 * n, "generation_tps": 31 * n}},
		}, aRun("bench engine"))
	}
	for i, policy := range []string{"never", "margin", "margin", hostile, "always"} {
		x := float64(i) / 4
		add(map[string]any{
			"policy": policy, "threshold": x, "answers": 100, "tokens": 1600, "cloud_tokens": 1600 * x * x,
			"asks":     100 * x,
			"accuracy": 0.4 + x/2, "accuracy_low": 0.3 + x/2, "accuracy_high": 0.5 + x/2,
		}, aRun("eval demo"))
	}
	add(map[string]any{"summary": map[string]any{"text": hostile, "prompt_tps": 100.5,
		"tokens": []int{1, 2, 3}, "error": nil}}, aRun("run"))
	add(map[string]any{"asks_per_second": 812.5, "mode": 7}, aRun("bench link"))
	add(map[string]any{"timed": "ask with 8 new tokens, until its answer", "rtt_ms": 100, "loss": 0.05, "answers": 299,
		"errors": 1, "ms": latency, "bound_ms": 115, "wire": map[string]any{"bytes_up": 42450, "bytes_down": 50070}},
		aRun("bench link"))
	add(map[string]any{"timed": "end of an outage of 1,000 ms, until an answer", "rtt_ms": 100, "answers": 3,
		"outage_ms": 1000, "ms": latency, "bound_ms": 120}, aRun("bench link"))
	return all
}

// records reads lines.
func records(t *testing.T, all ...[]byte) []result.Record {
	var text strings.Builder
	for _, line := range all {
		text.Write(line)
	}
	r, err := result.Read(strings.NewReader(text.String()), "lines")
	require.NoError(t, err)
	return r
}

// sample returns a report with every kind of measurement.
func sample(t *testing.T) *Report {
	r, err := New(records(t, allLines(t)...))
	require.NoError(t, err)
	return r
}
