package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/compare"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// resultFile writes lines of modes at paces, with times that depend on the pace, and returns its name.
func resultFile(t *testing.T, path string, flags map[string]string, paces []float64, modes ...string) string {
	t.Helper()
	var all []byte
	for _, tps := range paces {
		again := map[string]int{}
		for _, mode := range modes {
			again[mode]++
			r := outcome.Report{Mode: mode, Variant: again[mode], Cell: &outcome.Cell{RTT: 100, EdgeTPS: tps}}
			for q := range 12 {
				ms := float64(500+31*q+(q*q+again[mode]*q)%5)/tps*60 + float64(len(mode))
				r.Samples = append(r.Samples, outcome.Sample{Question: q, Took: time.Duration(ms * 1e6), Text: mode,
					Summary: draft.Summary{Tokens: 9, Asks: q % 2}})
			}
			line, err := record.Line(r, record.Run{Measurement: "bench routing", Version: "1", Flags: flags})
			require.NoError(t, err)
			all = append(all, line...)
		}
	}
	require.NoError(t, os.WriteFile(path, all, 0o600))
	return path
}

// TestBenchCompare: comparisons in one file by variants, paces and modes, and of two files; each flag has its effect.
func TestBenchCompare(t *testing.T) {
	dir := t.TempDir()
	compared := func(args ...string) string {
		code, stdout, stderr := clitest.Call(t, append([]string{"compare"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		for line := range strings.Lines(stdout) {
			if !strings.Contains(line, dir) && !strings.HasPrefix(line, "  ") {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), 140, line)
			}
		}
		return stdout
	}
	a := resultFile(t, filepath.Join(dir, "a.jsonl"), map[string]string{"edge-tps": "60,58.2", "no-warm": "false"},
		[]float64{60, 58.2}, "local", "serial", "serial")
	b := resultFile(t, filepath.Join(dir, "b.jsonl"), map[string]string{"edge-tps": "60", "no-warm": "true"},
		[]float64{60}, "local", "serial")

	text := compared(a)
	assert.Contains(t, text, "serial, edge_tps 60, variant 1 → 2 ("+a+":2 and "+a+":3)")
	slower := resultFile(t, filepath.Join(dir, "slower.jsonl"), nil, []float64{58.2}, "local", "serial", "serial")
	text = compared(b, slower)
	assert.Contains(t, text, "Compared:\n  edge_tps: 60 → 58.2\n")
	assert.Regexp(t, `(?m)^ms +[\d.]+ +[\d.]+ +\+3\.1% +\+3\.\d to \+3\.\d% +0\.00\d+ +\* *$`, text)
	assert.Contains(t, text, "Equal in all samples: ")
	text = compared(a, b)
	assert.Contains(t, text, "The runs differ in:\n  --edge-tps: 60,58.2 → 60\n  --no-warm: false → true\n")
	assert.Contains(t, text, "Without a partner: "+a+":3, "+a+":4, "+a+":5, "+a+":6",
		"the second variant, and another pace")
	figures := clitest.Lines[comparisonLine](t, compared(b, slower, "--json"))
	assert.Equal(t, "ms", figures[0].Name)
	assert.Equal(t, "local", figures[0].Of["mode"])
	assert.True(t, figures[0].Differs)
	assert.Equal(t, slower+":1", figures[0].SourceB)
	assert.Equal(t, "edge_tps", figures[0].Between[0].Name)

	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"B", cli.ExitFailed, "b.jsonl: there is nothing to compare: no mode was measured twice"},
		{"/nowhere/x", cli.ExitFailed, "/nowhere/x"},
		{"A B A", cli.ExitUsage, "compares one or two files: leave out "},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(strings.NewReplacer("A", a, "B", b).Replace(c.args))
			code, stdout, stderr := clitest.Call(t, append([]string{"compare"}, args...)...)
			assert.Equal(t, c.code, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, c.stderr)
		})
	}
}

// TestComparedSingle: a figure without samples has no change, no interval and no test.
func TestComparedSingle(t *testing.T) {
	var out strings.Builder
	require.NoError(t, printComparisonTables(&out, &compare.Report{Pairs: []compare.Pair{{
		Metrics: []compare.Metric{{Name: "tokens", A: 4, B: 5, Adjusted: 0.5, Test: compare.Single}}}}}))
	assert.Regexp(t, `(?m)^tokens +4 +5 *$`, out.String())
	assert.NotContains(t, out.String(), "Without a partner")
}
