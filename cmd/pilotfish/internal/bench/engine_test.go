package bench

import (
	"encoding/csv"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchEngineColumns: --output, or -o, gives one line for each test in every format, with the same figures in all
// columns, and the samples in JSON.
func TestBenchEngineColumns(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	code, out, stderr := clitest.Call(t, "bench", "engine", "-m", m, "-d", "9", "-t", "1", "--kv", "f32", "--output",
		"jsonl",
		"-p", "3,5", "-n", "4", "-r", "2")
	require.Equal(t, cli.ExitDone, code, stderr)
	objects := clitest.Lines[map[string]any](t, out)
	require.Len(t, objects, 3)
	for i, want := range []map[string]any{{"n_prompt": 3., "n_gen": 0.}, {"n_prompt": 5., "n_gen": 0.},
		{"n_prompt": 0., "n_gen": 4.}} {
		for name, v := range map[string]any{"n_depth": 9., "n_threads": 1., "type_k": "f32", "backends": "CPU",
			"model_filename": m, "n_batch": 512., "model_size": 1401856., "model_type": "qwen2 1.31M Q8_0",
			"n_prompt": want["n_prompt"], "n_gen": want["n_gen"]} {
			assert.Equal(t, v, objects[i][name], name)
		}
		assert.Len(t, objects[i]["samples_ns"], 2)
	}
	records, err := result.Read(strings.NewReader(out), "out")
	require.NoError(t, err, "each line names its test")
	assert.Equal(t, "bench engine", records[0].Run.Measurement)
	assert.Equal(t, "3,5", records[0].Run.Flags["prompt"])
	assert.Positive(t, records[0].Run.Machine.Bandwidth)
	assert.Equal(t, records[0].Run.Date.Format(time.RFC3339), objects[0]["test_time"])

	r := engineReport()
	r.KV, r.Samples = "f16",
		[]speed.Sample{{PromptNS: 4e9, GenerationNS: 2e9}, {PromptNS: 6e9, GenerationNS: 2e9}}
	print := func(form string) string {
		var out strings.Builder
		f := benchEngineFlags{output: form, m: speed.Matrix{Model: m}}
		about := result.Run{Measurement: "bench engine",
			Model: &result.Model{Types: map[string]int64{"F32": 5, "Q8_0": 9}}}
		require.NoError(t, f.printColumns(&cli.App{Stdout: &out}, []speed.Report{r}, about))
		return out.String()
	}
	rows, err := csv.NewReader(strings.NewReader(print("csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(print("json")), &list))
	assert.Equal(t, []any{4e9, 6e9}, list[0]["samples_ns"])
	assert.Equal(t, []any{2e9, 2e9}, list[1]["samples_ns"])
	for i, name := range rows[0] {
		if name == "avg_ns" {
			assert.Equal(t, []string{"5000000000", "2000000000"}, []string{rows[1][i], rows[2][i]})
		}
	}
	assert.Regexp(t, `pp512 \| +106\.67 ± 30\.17 \|\n.* tg64 \| +32\.00 ± 0\.00 \|`, print("md"))
	r.Dispatches, r.PromptTokens = 5, 0
	assert.Contains(t, print("jsonl"), `"gpu_info": "a device", "backends": "Metal"`)
}

// TestBenchEngineLists: --json writes a line with its settings for each combination; the text has a line for each test.
func TestBenchEngineLists(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	args := []string{"bench", "engine", "-m", m, "-p", "3", "-n", "4", "--rows", "2", "-r", "2", "-t", "1"}
	code, stdout, stderr := clitest.Call(t, append(args, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	all := clitest.Lines[speed.Report](t, stdout)
	require.Len(t, all, 3)
	for i, r := range all {
		want := []speed.Cell{{Rows: 1}, {Rows: 2}, {Prompt: 3, Decode: 4}}[i]
		want.Backend, want.KV, want.Threads = "cpu", "f16", 1
		assert.Equal(t, &want, r.Cell)
		want.Threads, r.Device = 2, "cpu (avx, threads 2)"
		r.Cell = &want
		all = append(all, r)
	}
	last := all[2]
	assert.Equal(t, []int{3, 4}, []int{last.PromptTokens, last.DecodedTokens},
		"the last line has the documented fields")
	var out strings.Builder
	printEngineReports(&cli.App{Stdout: &out}, all)
	stdout = out.String()
	for _, want := range []string{"(?m)^cpu .* threads 1\\).*machine ", "(?m)^cpu .* threads 2\\)", "(?m)^rows1 ",
		"(?m)^rows2 .* times the time of one row$", "(?m)^pp3 .*% of what multiplying allows$",
		"(?m)^tg4 .*fits in the CPU's cache"} {
		assert.Regexp(t, want, stdout)
	}
	assert.Equal(t, 2, strings.Count(stdout, "MAD"))
	assert.NotRegexp(t, `[1-9]\d\d% of`, strings.ReplaceAll(stdout, "100%", ""), "no share above 100%")
}

// trimmed returns a text without spaces at the ends of lines.
func trimmed(text string) string { return regexp.MustCompile(` +\n`).ReplaceAllString(text, "\n") }

// TestEngineLines: reports of one load are below one head, and each figure is in its place.
func TestEngineLines(t *testing.T) {
	report := func(change func(*speed.Report)) speed.Report {
		r := engineReport()
		r.KV, r.Quiet = "f16", result.Quiet{Quiet: new(true), Others: new(0.0), Steal: new(0.0)}
		r.Cell = &speed.Cell{Backend: "cpu", KV: "f16", Threads: 2}
		change(&r)
		return r
	}
	var out strings.Builder
	printEngineReports(&cli.App{Stdout: &out}, []speed.Report{
		report(func(r *speed.Report) {
			r.Cell.Rows, r.RowsTPS, r.Noise.Rows = 1, 31.5, &speed.Spread{MAD: 0.0625, Range: 0.125}
		}),
		report(func(r *speed.Report) { r.Cell.Rows, r.RowsTPS, r.RowsCost, r.Cell.Depth = 4, 90, 1.5, 9 }),
		report(func(r *speed.Report) {
			r.Cell.Prompt, r.Cell.Decode, r.Noise.Decode = 512, 64, &speed.Spread{MAD: 0.25, Range: 0.5}
			r.Noise.Prompt, r.Predicted = &speed.Spread{MAD: 0.015, Range: 0.02}, &speed.Prediction{Why: "no GPU"}
		}),
		report(func(r *speed.Report) { r.Cell.Threads, r.Cell.Prompt, r.PromptBound = 1, 512, 0 }),
		report(func(r *speed.Report) { r.Cell.KV, r.Cell.Threads, r.Cell.Prompt, r.PromptBound = "f32", 1, 512, 60 }),
		report(func(r *speed.Report) {
			r.Cell.Backend, r.Cell.KV, r.Cell.Threads, r.Cell.Prompt, r.PromptBound = "soft", "f32", 1, 512, 0
		}),
	})
	const head = "test                   tokens/s       MAD     range   remarks\n"
	assert.Equal(t, `a device, keys and values f16; machine quiet
`+head+`rows1                      31.5      6.2%     12.5%
rows4 @ d9                 90.0                       1.50 times the time of one row
pp512                     120.0      1.5%      2.0%   25% of what multiplying allows
tg64                       30.0     25.0%     50.0%   60% of the 49.8 that reading memory allows
  predicted  nothing: no GPU

a device, keys and values f16; machine quiet
`+head+`pp512                     120.0

a device, keys and values f16; machine quiet
`+head+`pp512                     120.0                       100% of what multiplying allows

a device, keys and values f16; machine quiet
`+head+`pp512                     120.0
`, trimmed(out.String()))
}

// TestEngineNoise: the report states the measured noise.
func TestEngineNoise(t *testing.T) {
	var out strings.Builder
	quiet, others := false, 0.25
	r := engineReport()
	r.Noise = speed.Noise{Prompt: &speed.Spread{MAD: 0.011, Range: 0.052},
		Decode: &speed.Spread{MAD: 0.022, Range: 0.1}}
	r.TokenMS = &result.Times{P50: 1.5, P90: 2.5, P99: 3.5}
	r.Quiet = result.Quiet{Seconds: 3, Others: &others, Steal: new(0.0), Quiet: &quiet}
	printNoise(&cli.App{Stdout: &out}, r)
	assert.Equal(t, `spread       prompt 1.1% (MAD), 5.2% from shortest to longest; `+
		`generation 2.2% (MAD), 10.0% from shortest to longest
each token       1.50 ms median, 2.50 at 90%, 3.50 at 99%
machine      not quiet: other processes took 25% of the CPUs' time
`, out.String())
}
