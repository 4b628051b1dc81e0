package routing

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
)

// TestRoutingFigures: each field of the JSON has its own figure.
func TestRoutingFigures(t *testing.T) {
	var out strings.Builder
	reports := []outcome.Report{{
		Mode: "pipelined-2", Answers: 40, Accuracy: new(0.9), AccuracyLow: new(0.77), AccuracyHigh: new(0.961),
		EscalatedShare: new(0.042), TokensPerAnswer: 22, Escalations: new(1.9), Asks: new(2.4), Timeouts: new(3),
		Time: result.Times{Mean: 111, P50: 101.6, P90: 190.4}, HiddenShare: new(0.51), HitRate: new(0.62),
		BytesUp: new(61.25), BytesDown: new(12.0), EqualToSerial: new(true), Differing: new(0),
		EqualToCloud: new(false), DifferingFromCloud: new(4), Known: new(0.5), Turned: new(0.25), Unverified: new(6),
		CloudTokens: &outcome.CloudTokens{Prefilled: 40.25, Decoded: 3.5, Ahead: 9.75, AheadUsed: 4.125},
	}}
	f := routingFlags{json: true}
	require.NoError(t, f.print(&cli.App{Stdout: &out}, append(reports, outcome.Report{Mode: "local"}),
		result.Run{Measurement: "demo"}))
	about := regexp.MustCompile(`(?m),"run":{"measurement":"demo".*}}$`)
	assert.Equal(t, `{"mode":"pipelined-2","answers":40,"accuracy":0.9,"accuracy_low":0.77,"accuracy_high":0.961,`+
		`"escalated_share":0.042,`+
		`"tokens_per_answer":22,"escalations_per_answer":1.9,"asks_per_answer":2.4,"timeouts":3,`+
		`"time_per_answer_ms":{"mean":111,"p50":101.6,"p90":190.4,"p99":0},`+
		`"hidden_share":0.51,"hit_rate":0.62,"bytes_up_per_escalation":61.25,`+
		`"bytes_down_per_escalation":12,`+
		`"equal_to_serial":true,"answers_differing_from_serial":0,"equal_to_cloud":false,`+
		`"answers_differing_from_cloud":4,`+
		`"known_per_answer":0.5,"turned_per_answer":0.25,"unverified":6,`+
		`"cloud_tokens_per_answer":{"prefilled":40.25,"decoded":3.5,"ahead":9.75,"ahead_used":4.125}}`+"\n"+
		`{"mode":"local","answers":0,"tokens_per_answer":0,`+
		`"time_per_answer_ms":{"mean":0,"p50":0,"p90":0,"p99":0}}`+"\n",
		about.ReplaceAllString(out.String(), "}"))
	out.Reset()
	require.NoError(t, f.print(&cli.App{Stdout: &out}, nil, result.Run{}))
	assert.Empty(t, out.String())
}

// TestCellText: the table of a cell begins with its settings, and each figure is in its column.
func TestCellText(t *testing.T) {
	full := outcome.Report{
		Mode: "serial", Variant: 2, Answers: 20, Cell: &outcome.Cell{RTT: 7, Loss: 0.25, Trace: "a.up", EdgeTPS: 40,
			CloudMS: 15}, Accuracy: new(0.5), EscalatedShare: new(0.25), Asks: new(10.5), Timeouts: new(3), Unverified: new(2),
		Time: result.Times{P50: 1234, P90: 2345}, EqualToSerial: new(false), Differing: new(6),
		Samples: []outcome.Sample{{Repetition: 2}, {Repetition: 1}},
		Work: outcome.Work{FirstToken: &result.Times{P50: 234}, Exposed: new(99.0), Wasted: new(12.5), Up: new(900.0),
			Down: new(99.0)},
	}
	other := outcome.Report{Mode: "paper", Answers: 4, Cell: &outcome.Cell{CloudMS: 2.5}, Samples: full.Samples[1:1],
		Timeouts: new(0), EqualToCloud: new(true), EqualToSerial: new(false), Work: outcome.Work{Up: new(1.0)}}
	var out strings.Builder
	require.NoError(t, printCells(&out, []outcome.Report{full, other}))
	assert.Equal(t, `round trip 7 ms, loss 25%, trace a.up, edge 40 passes/s, cloud 15 ms a token, 20 answers in 3 repetitions

mode        right  cloud  p50   p90   first  wait  asks  late  unverified  waste  bytes  as
serial (2)  50.0%  25.0%  1234  2345  234    99    10.5  3     2           12.5   999    ≠s 6

round trip 0 ms, loss 0%, edge at full speed, cloud 2.5 ms a token, 4 answers

mode   as
paper  c

`, out.String())
}
