package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench"
	"github.com/pilotfish-ai/pilotfish/bench/result"
)

// TestBenchEngineColumns: --output, or -o, gives one line for each test in every form, with the same figures in all
// columns that are of what was asked for, and the samples in JSON.
func TestBenchEngineColumns(t *testing.T) {
	m := tinyModel(t, "q8_0")
	measure := func(form, args string) string {
		code, stdout, stderr := call(t, append([]string{"bench", "engine", "-m", m, "-d", "9", "-t", "1", "--kv", "f32", "--output", form},
			strings.Fields(args)...)...)
		require.Equal(t, exitDone, code, stderr)
		return stdout
	}
	rows, err := csv.NewReader(strings.NewReader(measure("csv", "-p 3,5 -n 0 -r 1"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	var objects []map[string]any
	out := measure("jsonl", "-p 3,5 -n 4 -r 2")
	for line := range strings.Lines(out) {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		objects = append(objects, one)
	}
	require.Len(t, objects, 3)
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(measure("json", "-p 3,5 -n 0 -r 1")), &list))
	require.Len(t, list, 2)
	for i, want := range []map[string]any{{"n_prompt": 3., "n_gen": 0.}, {"n_prompt": 5., "n_gen": 0.}, {"n_prompt": 0., "n_gen": 4.}} {
		for name, n := range want {
			assert.Equal(t, n, objects[i][name])
			if i < 2 {
				assert.Equal(t, n, list[i][name])
			}
		}
		for name, v := range map[string]any{"n_depth": 9., "n_threads": 1., "type_k": "f32", "backends": "CPU", "model_filename": m,
			"n_batch": 512., "model_size": 1401856.} {
			assert.Equal(t, v, objects[i][name], name)
		}
		assert.Len(t, objects[i]["samples_ns"], 2)
		assert.Contains(t, objects[i]["model_type"], "qwen2 1.31M Q8_0")
		if i < 2 {
			assert.Len(t, rows[i+1], len(rows[0]))
		}
	}
	records, err := result.Read(strings.NewReader(out), "out")
	require.NoError(t, err, "each line says what it is of")
	assert.Equal(t, "bench engine", records[0].Run.Measurement)
	assert.Equal(t, "3,5", records[0].Run.Flags["prompt"])
	assert.Positive(t, records[0].Run.Machine.Bandwidth)
	assert.Contains(t, measure("md", "-p 5 -n 0 -r 1"), "pp5 @ d9 |")
}

// TestBenchEngineLists: --json writes a line for each combination, which says which; text has a line for each test.
func TestBenchEngineLists(t *testing.T) {
	m := tinyModel(t, "q8_0")
	args := []string{"bench", "engine", "-m", m, "-p", "3", "-n", "4", "--rows", "2", "-r", "2", "-t", "1,2"}
	code, stdout, stderr := call(t, append(args, "--json")...)
	require.Equal(t, exitDone, code, stderr)
	all := lines[bench.EngineReport](t, stdout)
	require.Len(t, all, 6)
	for i, r := range all {
		want := []bench.EngineCell{{Rows: 1}, {Rows: 2}, {Prompt: 3, Decode: 4}}[i%3]
		want.Backend, want.KV, want.Threads = "cpu", "f16", 1+i/3
		assert.Equal(t, &want, r.Cell)
	}
	last := all[5]
	assert.Equal(t, []int{3, 4}, []int{last.PromptTokens, last.DecodedTokens}, "the last one is that of the contract")
	var out strings.Builder
	printEngineReports(&app{stdout: &out}, all)
	stdout = out.String()
	for _, want := range []string{"(?m)^cpu .* threads 1\\).*machine ", "(?m)^cpu .* threads 2\\)", "(?m)^rows1 ",
		"(?m)^rows2 .* times the time of one row$", "(?m)^pp3 .*% of what multiplying allows$", "(?m)^tg4 .*fits in the CPU's cache"} {
		assert.Regexp(t, want, stdout)
	}
	assert.Equal(t, 2, strings.Count(stdout, "MAD"))
	assert.NotRegexp(t, `[1-9]\d\d% of`, strings.ReplaceAll(stdout, "100%", ""), "no share above 100%")
}

// TestEngineNoise: what is said of the noise is what was measured.
func TestEngineNoise(t *testing.T) {
	var out strings.Builder
	quiet, others := false, 0.25
	r := engineReport()
	r.Noise = bench.EngineNoise{Prompt: &bench.Spread{MAD: 0.011, Range: 0.052}, Decode: &bench.Spread{MAD: 0.022, Range: 0.1}}
	r.TokenMS = &result.Times{P50: 1.5, P90: 2.5, P99: 3.5}
	r.Quiet = bench.Quiet{Seconds: 3, Others: &others, Steal: new(0.0), Quiet: &quiet}
	printNoise(&app{stdout: &out}, r)
	assert.Equal(t, `spread       prompt 1.1% (MAD), 5.2% from shortest to longest; generation 2.2% (MAD), 10.0% from shortest to longest
each token       1.50 ms median, 2.50 at 90%, 3.50 at 99%
machine      not quiet: other processes took 25% of the CPUs' time
`, out.String())
}
