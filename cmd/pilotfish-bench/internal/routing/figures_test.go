package routing

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/cmd/internal/cli"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestRoutingFigures: the table of a cell and its legend; and as JSON, each figure under its name.
func TestRoutingFigures(t *testing.T) {
	var out strings.Builder
	reports := []outcome.Report{{
		Mode: "pipelined-2", Answers: 40, Accuracy: &stats.Accuracy{Value: 0.9, Low: 0.77, High: 0.961},
		Time: result.Times{Mean: 111, P50: 101.6, P90: 190.4}, Differing: new(4),
		Sums: draft.Summary{Tokens: 1000, Cloud: 42, Asks: 96, Answered: 50, Hits: 31, Wait: 100e6, Hidden: 51e6,
			Timeouts: 3, Unverified: 6},
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
		"but 4, to serial"}, gap.Split(table[2], -1))
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
	lines := run.ReplaceAllString(out.String(), "}")
	assert.Regexp(t, `(?m)^{"mode":"pipelined-2","answers":40,"accuracy":0.9,"accuracy_low":0.77,`+
		`"accuracy_high":0.961,"time_per_answer_ms":{"mean":111,"p50":101.6,"p90":190.4,"p99":0,"p999":0,"max":0},`+
		`"tokens_per_answer":0,"sums":{.*"asks":96,.*},"differing":4}$`, lines)
	assert.Contains(t, lines, `{"mode":"local","answers":0,`+
		`"time_per_answer_ms":{"mean":0,"p50":0,"p90":0,"p99":0,"p999":0,"max":0},`)
	out.Reset()
	require.NoError(t, f.printReports(&cli.App{Stdout: &out}, nil, record.Run{}))
	assert.Empty(t, out.String())
}
