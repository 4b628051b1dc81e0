package bench

import (
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

// TestBenchEngineColumns: --output jsonl gives one line for each test.
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
	types := map[string]int64{"F32": 5, "Q8_0": 9}
	print := func() string {
		var out strings.Builder
		f := benchEngineFlags{m: speed.Matrix{Model: m}}
		about := result.Run{Measurement: "bench engine", Model: &result.Model{Types: types}}
		require.NoError(t, f.printColumns(&cli.App{Stdout: &out}, []speed.Report{r}, about))
		return out.String()
	}
	list := clitest.Lines[map[string]any](t, print())
	assert.Equal(t, []any{4e9, 6e9}, list[0]["samples_ns"])
	assert.Equal(t, []any{2e9, 2e9}, list[1]["samples_ns"])
	for range 20 { // in any order of the map
		types = map[string]int64{"Q8_0": 9, "F16": 9, "F32": 9, "Q4_0": 8}
		assert.Contains(t, print(), `"qwen2 1.31M F16"`, "the type with most bytes, or the first of them")
	}
	r.Dispatches, r.PromptTokens = 5, 0
	assert.Contains(t, print(), `"gpu_info":"a device","backends":"Metal"`)
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
		r.Threads, r.Device = 2, "cpu (avx, threads 2)"
		all = append(all, r)
	}
	last := all[2]
	assert.Equal(t, []int{3, 4}, []int{last.PromptTokens, last.DecodedTokens},
		"the last line has the documented fields")
	var out strings.Builder
	require.NoError(t, printEngineReports(&out, all))
	stdout = out.String()
	for _, want := range []string{"(?m)^cpu .* threads 1\\).*machine ", "(?m)^cpu .* threads 2\\)", "(?m)^rows1 ",
		"(?m)^rows2 .* times the time of one row$", "(?m)^pp3 .*% of the [0-9]+ that multiplying allows$",
		"(?m)^tg4 .*fits in the CPU's cache"} {
		assert.Regexp(t, want, stdout)
	}
	assert.Equal(t, 2, strings.Count(stdout, "MAD"))
	assert.NotRegexp(t, `[1-9]\d\d% of`, strings.ReplaceAll(stdout, "100%", ""), "no share above 100%")
}

// TestEngineLines: reports of one load are below one head, and each figure is in its place.
func TestEngineLines(t *testing.T) {
	var all []speed.Report
	for _, c := range []speed.Cell{{Rows: 1}, {Rows: 4, Depth: 9}, {Prompt: 512, Decode: 64}, {Prompt: 512, Threads: 1},
		{Prompt: 512, Threads: 1, KV: "f32"}, {Decode: 64, Threads: 1, KV: "f32", Backend: "soft"}} {
		r := engineReport()
		r.RowsTPS, r.RowsCost, r.Noise.Rows = 31.5, 1.5, &speed.Spread{MAD: 0.0625, Range: 0.125}
		r.PromptTokens, r.DecodedTokens, r.Rows, r.Depth = c.Prompt, c.Decode, c.Rows, c.Depth
		r.Threads, r.KV, r.Device = c.Threads, c.KV, "a device "+c.Backend
		all = append(all, r)
	}
	var out strings.Builder
	require.NoError(t, printEngineReports(&out, all))
	const prompt = "pp512 +120.0 +25% of the 480 that multiplying allows\n"
	const decode = "tg64 +30.0 +60% of the 49.8 that reading memory allows\n"
	const head = "a device.*\n\ntest .*\n"
	const note = "\nmemory .*\nweights .*\nload .*\npeak .*\n\n"
	assert.Regexp(t, "^"+head+"rows1 +31.5 +6.2% +12.5% *\n"+
		"rows4 @ d9 +31.5 +6.2% +12.5% +1.50 times the time of one row\n"+prompt+decode+note+
		head+prompt+note+head+prompt+note+head+decode+note+"$", out.String())
}
