package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchEngineLists: --json writes a line with its settings for each combination; the text has a line for each test.
func TestBenchEngineLists(t *testing.T) {
	racing.Spare(t)
	m := clitest.TinyModel(t, "q8_0")
	args := []string{"engine", "-m", m, "-p", "3", "-n", "4", "--rows", "2", "-r", "2", "-t", "1"}
	code, stdout, stderr := clitest.Call(t, append(args, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	all := clitest.Lines[speed.Report](t, stdout)
	require.Len(t, all, 3)
	for i, r := range all {
		want := []speed.Cell{{Rows: 1}, {Rows: 2}, {Prompt: 3, Decode: 4}}[i]
		assert.Equal(t, want, speed.Cell{Prompt: r.PromptTokens, Decode: r.DecodedTokens, Rows: r.Rows})
	}
	last := all[2]
	records, err := result.Read(strings.NewReader(stdout), "out")
	require.NoError(t, err)
	assert.Equal(t, "bench engine", records[0].Run.Measurement)
	assert.Equal(t, "3", records[0].Run.Flags["prompt"])
	assert.Equal(t, all[0].Bandwidth, records[0].Run.Machine.Bandwidth)
	assert.Equal(t, 3, last.PromptTokens, "the last line has the documented fields")
	assert.Equal(t, 4, last.DecodedTokens)
	var out strings.Builder
	require.NoError(t, speedTable(all, 500e6).Text(&out))
	stdout = out.String()
	for _, want := range []string{"(?m)^cpu .* threads 1\\).*machine ", "(?m)^rows1 ",
		"(?m)^rows2 .* times the time of one row$", "(?m)^pp3 .*% of the [0-9]+ that multiplying allows$",
		"(?m)^tg4 .*fits in the CPU's cache"} {
		assert.Regexp(t, want, stdout)
	}
	assert.NotRegexp(t, `[1-9]\d\d% of`, strings.ReplaceAll(stdout, "100%", ""), "no share above 100%")
}

// TestEngineLines: each figure is in its place.
func TestEngineLines(t *testing.T) {
	var all []speed.Report
	for _, c := range []speed.Cell{{Rows: 1}, {Rows: 4}, {Prompt: 512, Decode: 64}, {Decode: 64}} {
		r := engineReport()
		r.RowsTPS = 31.5
		for _, tps := range []float64{100, 200, 400} {
			r.Samples = append(r.Samples, speed.Sample{RowsTPS: tps})
		}
		r.PromptTokens, r.DecodedTokens, r.Rows, r.Depth = c.Prompt, c.Decode, c.Rows, c.Depth
		all = append(all, r)
	}
	var out strings.Builder
	require.NoError(t, speedTable(all, 500e6).Text(&out))
	const prompt = "pp512 +120.0 +25% of the 480 that multiplying allows\n"
	const decode = "tg64 +30.0 +60% of the 49.8 that reading memory allows\n"
	const head = "a device.*\n\ntest .*\n"
	const note = "\nmemory .*\nweights .*\nload .*\npeak .*\n\n"
	assert.Regexp(t, "^"+head+"rows1 +31.5 +50.0% +150.0% *\n"+
		"rows4 +31.5 +50.0% +150.0% +4.00 times the time of one row\n"+prompt+decode+decode+note+"$", out.String())
}
