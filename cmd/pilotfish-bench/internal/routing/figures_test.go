package routing

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/record"
)

// TestRoutingFigures: the table of a cell and its legend; and as JSON, each figure under its name.
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
	reports[0].Cell = &outcome.Cell{RTT: 7}
	about := record.Run{Measurement: "demo"}
	f := routingFlags{}
	require.NoError(t, errors.Join(f.printReports(&cli.App{Stdout: &out}, reports, about),
		f.finishReport(&cli.App{Stdout: &out}, reports, about)))
	gap := regexp.MustCompile(" {2,}")
	parts := strings.Split(out.String(), "\n\n")
	require.Len(t, parts, 2)
	table := strings.Split(parts[0], "\n")
	assert.Equal(t, "device at full speed, cloud 0 ms a token, 40 answers", table[0])
	assert.Equal(t, []string{"mode", "RTT", "right", "cloud", "p50", "p90", "hidden", "hits", "asks",
		"timed out", "unverified",
		"equal"}, gap.Split(table[1], -1))
	assert.Equal(t, []string{"pipelined-2", "7", "90.0%", "4.2%", "102", "190", "51.0%", "62.0%", "2.4", "3", "6",
		"but 4, to cloud"}, gap.Split(table[2], -1))
	for line := range strings.SplitSeq(parts[1], "\n") {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 80)
	}

	alone := outcome.Report{Mode: "local", Time: result.Times{P50: 90}}
	assert.Empty(t, gainText(reports), "nothing to compare with")
	assert.Equal(t, "pipelined-2: 90.0% right in 102 ms, with 4.2% of the tokens from the large model.\n"+
		"Alone: small model 90 ms, large model 80 ms.\n",
		gainText([]outcome.Report{alone, {Mode: "cloud", Time: result.Times{P50: 80}}, {Mode: "serial",
			Time: result.Times{P50: 200}}, reports[0], {Mode: "paper"}}))
	reports[0].Cell = nil
	f = routingFlags{json: true}
	out.Reset()
	require.NoError(t, f.printReports(&cli.App{Stdout: &out}, append(reports, outcome.Report{Mode: "local"}),
		record.Run{Measurement: "demo"}))
	run := regexp.MustCompile(`(?m),"run":{"measurement":"demo".*}}$`)
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
		run.ReplaceAllString(out.String(), "}"))
	out.Reset()
	require.NoError(t, f.printReports(&cli.App{Stdout: &out}, nil, record.Run{}))
	assert.Empty(t, out.String())
}
