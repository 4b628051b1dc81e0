package routing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
)

// TestRoutingFlagsRefused: a value out of range, or a contradiction, is refused with what to do.
func TestRoutingFlagsRefused(t *testing.T) {
	dir := t.TempDir()
	up := filepath.Join(dir, "a.up")
	require.NoError(t, os.WriteFile(up, []byte("1\n2\n"), 0o644))
	questions := filepath.Join(dir, "q.jsonl")
	require.NoError(t, os.WriteFile(questions, []byte(`{"question":"a"}`+"\n"), 0o644))
	for _, c := range []struct {
		args  string
		parts string // of the message, separated by |
	}{
		{"demo --rtt 1000h", "--rtt|give 0 to 10s"},
		{"demo --rtt -1s", "--rtt|give"},
		{"demo --loss NaN", "--loss NaN|give a share"},
		{"demo --loss 1", "--loss 1|give a share"},
		{"demo --loss -Inf", "--loss|give"},
		{"demo --cloud-ms NaN", "--cloud-ms NaN|give"},
		{"demo --cloud-ms +Inf", "--cloud-ms +Inf|give"},
		{"demo --cloud-ms 1e300", "--cloud-ms|give"},
		{"demo --edge-tps NaN", "--edge-tps NaN|give"},
		{"demo --edge-tps Inf", "--edge-tps|give"},
		{"demo --edge-tps 1e-300", "--edge-tps|give"},
		{"demo --threshold NaN", "threshold|NaN"},
		{"demo --budget NaN", "budget|NaN"},
		{"demo --parallel 0", "--parallel 0|give 1 or more"},
		{"demo --parallel 65", "--parallel 65|give 1 to 64"},
		{"demo --questions 0", "--questions 0|give 1"},
		{"demo --questions 500", "--questions 500|the demo has 400"},
		{"demo --ahead 0", "--ahead \"0\"|give auto"},
		{"demo --ahead 65", "--ahead 65|give 1 to 64"},
		{"demo --verify-every 0", "--verify-every \"0\"|give auto"},
		{"demo --verify-every 1025", "--verify-every 1025|give 1 to 1024"},
		{"demo --modes verified:x", `--modes|"x" is not a margin: give nats`},
		{"demo --modes speculative-0", "--modes|speculative-1 to speculative-64"},
		{"demo --rtt 1,2ms", "--rtt|takes one value here"},
		{"demo --loss 0,0.1", "--loss|takes one value here"},
		{"demo --edge-tps 1,2", "--edge-tps|takes one value here"},
		{"bench routing --rtt 1,2", `--rtt|"2" is not a time`},
		{"bench routing --rtt 1,,2ms", `--rtt|"" is not a time`},
		{"bench routing --rtt 1ms,1000us", "--rtt|1ms is given twice"},
		{"bench routing --rtt 1ms,11s", "--rtt 11s|give 0 to 10s"},
		{"bench routing --loss 0,x", `--loss|"x" is not a number`},
		{"bench routing --loss 0,1", "--loss 1|give a share"},
		{"bench routing --edge-tps 60,NaN", "--edge-tps NaN|give"},
		{"bench routing --repeat 0", "--repeat 0|give 1 to 1000"},
		{"bench routing --with warm-up=1001", "--with warm-up=1001|give 0 to 1000"},
		{"bench routing --max-tokens -1", "--max-tokens -1|give 0 or more"},
		{"bench routing --traces a.up,", "--traces|the name between two commas is missing"},
		{"bench routing --trace " + up + " --traces " + up, "--trace and --traces exclude each other"},
		{"demo --modes fast", "--modes|is not a mode: choose"},
		{"demo --trace " + up + " --trace " + up, "--trace|give only one"},
		{"bench routing -m M", "--model|--workload FILE"},
		{"bench routing --large M", "--large|--workload FILE"},
		{"bench routing --workload " + questions + " -m M", "--large"},
		{"bench routing --workload " + questions + " -m M --large M --questions 2", "--questions 2|has 1"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := clitest.Call(t, strings.Fields(c.args)...)
			assert.Equal(t, cli.ExitUsage, code, stderr)
			assert.Empty(t, stdout)
			for part := range strings.SplitSeq(c.parts, "|") {
				assert.Contains(t, stderr, part)
			}
		})
	}
	for _, name := range []string{"none", "none.up", "none.rtt.csv"} {
		code, _, stderr := clitest.Call(t, "demo", "--trace", filepath.Join(dir, name))
		assert.Equal(t, cli.ExitFailed, code)
		assert.Contains(t, stderr, "--trace "+filepath.Join(dir, name))
		assert.Contains(t, stderr, "no such")
	}
}

// TestRoutingTableWork: the second table shows the available counts, and if an answer differs from the large model's
// own, the reason.
func TestRoutingTableWork(t *testing.T) {
	print := func(r outcome.Report) []string {
		var out strings.Builder
		require.NoError(t, printRouting(&out, []outcome.Report{r}))
		for line := range strings.SplitSeq(out.String(), "\n") {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), tableWidth, line)
		}
		return strings.Split(out.String(), "\n")
	}
	yes, no := true, false
	assert.Regexp(t, `^verified +0 +0 +yes$`, print(outcome.Report{Mode: "verified", EqualToCloud: &yes})[1])
	assert.Regexp(t, `NO$`, print(outcome.Report{Mode: "verified", EqualToCloud: &no, Unverified: new(0)})[1])
	assert.Regexp(t, ` no$`, print(outcome.Report{Mode: "verified", EqualToCloud: &no, Unverified: new(3)})[1])
	rows := print(outcome.Report{Mode: "local"})
	assert.Regexp(t, `^ *local +0 +0$`, rows[1])
	assert.Empty(t, rows[2], "a table without figures is left out")
	full := outcome.Report{
		Mode: "pipelined-64", Accuracy: new(1.0), AccuracyLow: new(0.99), AccuracyHigh: new(1.0),
		EscalatedShare: new(1.0),
		Timeouts:       new(12345), Asks: new(100.5), Time: result.Times{P50: 12345, P90: 12345}, HiddenShare: new(1.0),
		HitRate: new(1.0), BytesUp: new(12345.6), BytesDown: new(1234.5), Known: new(100.5), Turned: new(100.5),
		Unverified: new(12345), EqualToSerial: &no, EqualToCloud: &no,
		CloudTokens: &outcome.CloudTokens{Prefilled: 12345.6, Decoded: 12345.6, Ahead: 12345.6, AheadUsed: 12345.6},
	}
	print(full)
}

// TestRoutingTable: counts of timeouts are shown if tokens differ from serial, and nothing without answers.
func TestRoutingTable(t *testing.T) {
	yes, no := true, false
	count := func(n int) *int { return &n }
	share := func(x float64) *float64 { return &x }
	row := func(serialTimeouts int, r outcome.Report) string {
		var out strings.Builder
		serial := outcome.Report{Mode: "serial", Timeouts: count(serialTimeouts), EqualToSerial: &yes}
		require.NoError(t, printRouting(&out, []outcome.Report{serial, r}))
		return strings.Split(out.String(), "\n")[2]
	}
	assert.Regexp(t, `pipelined-2 .* no$`,
		row(2, outcome.Report{Mode: "pipelined-2", Timeouts: count(5), EqualToSerial: &no}))
	assert.Regexp(t, `pipelined-2 .* no$`,
		row(2, outcome.Report{Mode: "pipelined-2", Timeouts: count(0), EqualToSerial: &no}))
	assert.Regexp(t, `pipelined-2 .* NO$`,
		row(0, outcome.Report{Mode: "pipelined-2", Timeouts: count(0), EqualToSerial: &no}))
	assert.Regexp(t, `pipelined-2 .* yes$`,
		row(0, outcome.Report{Mode: "pipelined-2", Timeouts: count(0), EqualToSerial: &yes}))
	assert.Regexp(t, `^ *local +0 +0$`, row(0, outcome.Report{Mode: "local"}))
	assert.Regexp(t, `^ *paper +3.1% +0 +0$`, row(0, outcome.Report{
		Mode: "paper", EscalatedShare: share(0.031), Timeouts: count(0), Asks: share(1.2), BytesUp: share(40),
		BytesDown: share(10),
	}))
}

// TestDemoCounts: with the policy always, all tokens are from the large model, and after a deadline none.
func TestDemoCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the demo: not with -short")
	}
	demo := func(args ...string) []outcome.Report {
		code, stdout, stderr := clitest.Call(t, append([]string{"demo", "--json", "--questions", "3", "--edge-tps", "0",
			"--modes", "paper,serial,pipelined-4"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		return clitest.Lines[outcome.Report](t, stdout)
	}
	for _, r := range demo("--rtt", "1ms", "--cloud-ms", "0", "--policy", "always", "--deadline", "off") {
		assert.Equal(t, 1.0, *r.EscalatedShare, r.Mode)
		assert.Zero(t, *r.Timeouts)
	}
	for _, r := range demo("--rtt", "300ms", "--deadline", "5ms") {
		assert.Zero(t, *r.EscalatedShare, r.Mode)
		assert.Positive(t, *r.Timeouts)
		for _, of := range []*float64{r.HiddenShare, r.HitRate, r.BytesUp, r.BytesDown} {
			assert.Nil(t, of, r.Mode)
		}
	}
}
