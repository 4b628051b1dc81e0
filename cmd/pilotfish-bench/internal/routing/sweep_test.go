package routing

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/group"
)

// TestBenchRoutingSweep: a table for each cell within 100 columns, a legend; and JSON lines for cells.
func TestBenchRoutingSweep(t *testing.T) {
	sweep := func(args ...string) string {
		code, stdout, stderr := clitest.Call(t,
			append([]string{"routing", "--questions", "4", "--rtt", "0,9ms",
				"--cloud-ms",
				"0", "--deadline", "off", "--parallel", "1", "--max-tokens", "5", "--edge-tps", "300", "--modes",
				"local,serial,serial,verified"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return stdout
	}
	text := sweep()
	assert.Equal(t, 2, strings.Count(text, "pilotfish-demo-small asks pilotfish-demo-large, device 300 tokens/s, "+
		"cloud 0 ms a token, 4 answers\n"))
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 101, line)
	}
	assert.Len(t, regexp.MustCompile(`(?m)^serial #2 +[09]  `).FindAllString(text, -1), 2)
	assert.Equal(t, 1, strings.Count(text, "\np90 "), "the legend")
	if testing.Short() {
		t.Skip("the JSON lines of the sweep: not with -short")
	}
	out := strings.Split(strings.TrimSpace(sweep("--json")), "\n")
	require.Len(t, out, 8)
	reports := clitest.Lines[outcome.Report](t, strings.Join(out, "\n"))
	for i, r := range reports {
		assert.Equal(t, []float64{0, 9}[i/4], r.Cell.RTT)
		assert.Equal(t, []string{"local", "serial", "serial", "verified"}[i%4], r.Mode)
		assert.Len(t, r.Samples, 4)
		assert.Positive(t, r.Rates()["cpu_seconds"], "one answer at a time")
		if r.Mode == "verified" {
			assert.Positive(t, *r.Bound)
		}
	}
}

// TestCells: every combination, with round trips in the innermost loop.
func TestCells(t *testing.T) {
	f := routingFlags{traces: []string{"x", "y"}}
	f.rtt, f.loss = group.Durations("5ns"), group.Floats("0")
	assert.Equal(t, []cellFlags{{5, 0, []string{"x", "y"}}}, f.cellCombinations(), "both use one link")
	f.traces = []string{"a.up, b.up"}
	require.NoError(t, f.loss.Set("0,0.1"))
	require.NoError(t, f.rtt.Set("1,2ms"))
	cells := f.cellCombinations()
	require.Len(t, cells, 8)
	assert.Equal(t, cellFlags{1e6, 0, []string{"a.up"}}, cells[0])
	assert.Equal(t, cellFlags{2e6, 0, []string{"a.up"}}, cells[1])
	assert.Equal(t, cellFlags{1e6, 0.1, []string{"a.up"}}, cells[2])
	assert.Equal(t, cellFlags{2e6, 0.1, []string{"b.up"}}, cells[7])
	assert.Equal(t, "1,2ms", f.rtt.String())
}
