package routing

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/pilotfish/internal/cli"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// TestRoutingFigures: each column shows its own figure.
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
	require.NoError(t, printRouting(&out, reports))
	gap := regexp.MustCompile(" {2,}")
	tables := strings.Split(out.String(), "\n\n")
	require.Len(t, tables, 5)
	for i, want := range [][2][]string{
		{{"mode", "right", "interval", "cloud", "ms p50", "ms p90", "hidden", "hits", "same"},
			{"pipelined-2", "90.0%", "77–96%", "4.2%", "102", "190", "51.0%", "62.0%", "yes"}},
		{{"mode", "asks", "timed out", "bytes up", "bytes down", "known", "turned", "unverified"},
			{"pipelined-2", "2.4", "3", "61.2", "12.0", "0.5", "0.2", "6"}},
		{{"mode", "prefilled", "decoded", "ahead", "used"},
			{"pipelined-2", "40.2", "3.5", "9.8", "4.1"}},
	} {
		head, row, _ := strings.Cut(tables[i], "\n")
		assert.Equal(t, want[0], gap.Split(strings.TrimSpace(head), -1))
		assert.Equal(t, want[1], gap.Split(strings.TrimSpace(row), -1))
	}
	legend := regexp.MustCompile(`(?m)^\S.*`).FindAllString(tables[3], -1)
	assert.Len(t, legend, 8+7+4, "a line for every column except the first")
	for _, line := range strings.Split(out.String(), "\n") {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), tableWidth)
	}

	f := routingFlags{json: true}
	out.Reset()
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

// TestTallyText: the line after an answer that is shown live.
func TestTallyText(t *testing.T) {
	assert.Equal(t, "20 tokens, 4 of them from the large model",
		tallyText(engine.Routing{Tokens: 20, Cloud: 4, Wait: time.Second}))
	assert.Equal(t, "20 tokens, 4 of them from the large model, 3 from the small one since no answer came in time; "+
		"of 1.235s from asks to answers, 568ms were spent on drafting that held",
		tallyText(engine.Routing{Tokens: 20, Cloud: 4, Timeouts: 3, Answered: 1, Wait: 1234567 * time.Microsecond,
			Hidden: 567890 * time.Microsecond}))
}

// TestCellText: the table of a cell begins with its settings, and each figure is in its column.
func TestCellText(t *testing.T) {
	full := outcome.Report{
		Mode: "serial", Variant: 2, Answers: 20, Cell: &outcome.Cell{RTT: 7, Loss: 0.25, Trace: "a.up", EdgeTPS: 40,
			CloudMS: 15}, Accuracy: new(0.5), EscalatedShare: new(0.25), Asks: new(10.5), Timeouts: new(3),
		Time: result.Times{P50: 1234, P90: 2345}, EqualToSerial: new(false), Differing: new(6),
		Samples: []outcome.Sample{{Repetition: 2}, {Repetition: 1}},
		Work: outcome.Work{FirstToken: &result.Times{P50: 234}, Exposed: new(99.0), Wasted: new(12.5), Up: new(900.0),
			Down: new(99.0)},
	}
	other := outcome.Report{Mode: "paper", Answers: 4, Cell: &outcome.Cell{CloudMS: 2.5}, Samples: full.Samples[1:1],
		Timeouts: new(0), EqualToCloud: new(true), EqualToSerial: new(false), Work: outcome.Work{Up: new(1.0)}}
	var out strings.Builder
	require.NoError(t, printCells(&out, []outcome.Report{full, other}))
	assert.Equal(t, "round trip 7 ms, loss 25%, trace a.up, edge 40 passes/s, cloud 15 ms a token, 20 answers in 3 "+
		"repetitions\n"+`      mode   p50   p90  first  cloud  asks  late  wait  waste  bytes  right    as
serial (2)  1234  2345    234  25.0%  10.5     3    99   12.5    999    50%  ≠s 6

round trip 0 ms, loss 0%, edge at full speed, cloud 2.5 ms a token, 4 answers
 mode  p50  p90  first  cloud  asks  wait  waste  bytes  right  as
paper    0    0                                                  c

`, out.String())
}

// TestStudySettings: the line above the tables of the demo has all settings of the cell.
func TestStudySettings(t *testing.T) {
	f, c := new(routingFlags), new(cobra.Command)
	assert.Equal(t, "0 answers, RTT 0 ms, device at full speed, cloud 0 ms/token", f.settings(outcome.Report{}))
	f.register(c, 60)
	require.NoError(t, c.ParseFlags([]string{"--deadline", "2s"}))
	assert.Equal(t, "3 answers, RTT 1,500 ms, trace a.up, loss 2.5%, device 20.5 tokens/s, cloud 2.5 ms/token, "+
		"deadline 2s",
		f.settings(outcome.Report{Answers: 3, Cell: &outcome.Cell{RTT: 1500, Trace: "a.up", Loss: 0.025, EdgeTPS: 20.5,
			CloudMS: 2.5}}))
}
