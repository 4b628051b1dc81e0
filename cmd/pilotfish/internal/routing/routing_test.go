package routing

import (
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
