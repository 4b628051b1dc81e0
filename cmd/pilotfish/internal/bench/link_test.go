package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/clitest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// TestBenchLink: --json gives a line for each part, and the text has the same parts.
func TestBenchLink(t *testing.T) {
	racing.Spare(t)
	args := strings.Fields("bench link --rtt 2ms --questions 5 --tokens 8,9")
	code, stdout, stderr := clitest.Call(t, append(args, "--json")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	all := clitest.Lines[wire.LinkReport](t, stdout)
	require.Len(t, all, 4)
	assert.Equal(t, []int{8, 9}, []int{all[0].Asks.Tokens, all[1].Asks.Tokens})
	assert.Equal(t, 2., all[2].RTTMS)
	assert.Equal(t, 4, strings.Count(stdout, `"run":{"measurement":"bench link"`))
	assert.Equal(t, 4, strings.Count(stdout, `"bandwidth_gbs":`))
	code, stdout, stderr = clitest.Call(t, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	assert.Contains(t, stdout, "asks of 9 tokens: 5 answers, 50 a second\n")
	assert.Contains(t, stdout, "outage: 1 times 1000 ms without a packet; 0 questions without an answer\n")
}

// TestLinkReport: each figure is printed in its place.
func TestLinkReport(t *testing.T) {
	said := func(r wire.LinkReport) string {
		var out strings.Builder
		printLinkReport(&cli.App{Stdout: &out}, r)
		return out.String()
	}
	l := result.Latency{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5}
	quiet := result.Quiet{Quiet: new(true), Others: new(0.0), Steal: new(0.0)}
	assert.Equal(t, `asks of 8 tokens: 90 answers, 10 without an answer, 50 a second
  from due                    1.00 ms median, 2.00 at 90%, 3.00 at 99%, 4.00 at 99.9%, 5.00 the longest; `+
		`arithmetic: 7.00
  asked late by               0.00 ms median, 0.00 at 90%, 0.00 at 99%, 0.00 at 99.9%, 6.00 the longest
  bytes each             up 11.0 of payload, 12.0 on the wire in 13.00 packets; `+
		`down 14.0 of payload, 15.0 on the wire in 16.00 packets
  machine                quiet
`, said(wire.LinkReport{Quiet: quiet, Asks: &wire.LinkAsks{Tokens: 8, PerSecond: 50, Answers: 90, Errors: 10,
		Latency: l, Late: result.Latency{Max: 6}, Expected: new(7.0), PayloadUp: 11, WireUp: 12, PacketsUp: 13,
		PayloadDown: 14, WireDown: 15, PacketsDown: 16}}))
	assert.Equal(t, `connect: 10 new connections, 10 resumed, 9 of them with 0-RTT
  welcome                     1.00 ms median, 2.00 at 90%, 3.00 at 99%, 4.00 at 99.9%, 5.00 the longest; `+
		`arithmetic: 6.00
  first answer                0.00 ms median, 0.00 at 90%, 0.00 at 99%, 0.00 at 99.9%, 9.00 the longest; `+
		`arithmetic: 7.00
  first answer, resumed       0.00 ms median, 0.00 at 90%, 0.00 at 99%, 0.00 at 99.9%, 10.00 the longest; `+
		`arithmetic: 8.00
  machine                quiet
`, said(wire.LinkReport{Quiet: quiet, Connect: &wire.LinkConnect{Connections: 10, Early: 9, Connected: l,
		First: result.Latency{Max: 9}, Resumed: result.Latency{Max: 10}, ExpectedHello: 6,
		ExpectedFirst: 7, ExpectedEarly: 8}}))
	assert.Equal(t, `outage: 3 times 1000 ms without a packet; 2 questions without an answer
  first answer after it       1.00 ms median, 2.00 at 90%, 3.00 at 99%, 4.00 at 99.9%, 5.00 the longest; `+
		`arithmetic: at most 70.00
  machine                quiet
`, said(wire.LinkReport{Quiet: quiet,
		Outage: &wire.LinkOutage{Outages: 3, OutageMS: 1000, Lost: 2, Recovery: l, Expected: 70}}))
}
