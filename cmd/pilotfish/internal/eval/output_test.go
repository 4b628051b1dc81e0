package eval

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
)

// TestEvalTables: the tables of the comparisons have each number in its column, and nothing in place of one that is
// missing.
func TestEvalTables(t *testing.T) {
	yes, no, none := true, false, stats.Interval{Value: 0.5, Low: math.NaN(), High: math.NaN()}
	r := &eval.Report{Graded: true, Runs: []eval.RunReport{
		{Policy: "never"}, // compared with nothing
		{Policy: "margin", Gap: &stats.Interval{Value: 0.875, Low: 0.75, High: 0.9375},
			Always: &eval.Versus{Ratio: &stats.Interval{Value: 0.97, Low: 0.96, High: 0.98}, McNemar: 0.25,
				NonInferior: &yes},
			Never: &eval.Versus{Ratio: &stats.Interval{Value: 1.5, Low: 1.25, High: 1.75}, McNemar: 0.125}},
		{Policy: "random", Always: &eval.Versus{Ratio: &none, McNemar: 1, NonInferior: &no}},
		{Policy: "entropy", Never: &eval.Versus{McNemar: 0.0625}},
	}, Policies: []eval.Area{{Policy: "margin", From: 0.05, To: 0.5,
		Area: stats.Interval{Value: 0.75, Low: 0.7, High: 0.8},
		Minus: map[string]stats.Interval{"random": {Value: 0.125, Low: -0.25, High: 0.5},
			"entropy": {Value: math.NaN()}},
		At: []eval.At{{Share: 0.1, Quality: none}}}},
		Dials: []eval.AsksCurve{{Policy: "margin", Best: true, Ahead: 4, From: 1, To: 9.5, Area: none},
			{Policy: "random", Verify: new(0.5), Ahead: 1, Router: stats.Interval{Value: 0.25},
				Minus: stats.Interval{Value: 0.125, Low: -0.25, High: 0.5}}, {Policy: "entropy"}}}
	for _, c := range []struct {
		print func(*strings.Builder, *eval.Report)
		want  string
	}{
		{printVersus, `
run      of always  interval        >= 0.95  McNemar  of never  interval        McNemar  gap   interval
margin   0.970      0.960 to 0.980  yes      0.25     1.500     1.250 to 1.750  0.12     0.88  0.75 to 0.94
random   0.500                      no       1
entropy                                                                         0.062

`}, {printAreas, `
policy  share  height  interval        over random                over margin  over entropy
margin  all    0.750   0.700 to 0.800  +0.125 (-0.250 to +0.500)
margin  10%    0.500

`}, {printDials, `
policy   verified  ahead  from  to    height  interval        alone  difference
margin   best      4      1.00  9.50  0.500                   0.000  +0.000 (+0.000 to +0.000)
random   0.5       1      0.00  0.00  0.000   0.000 to 0.000  0.250  +0.125 (-0.250 to +0.500)
entropy  off       0      0.00  0.00  0.000   0.000 to 0.000  0.000  +0.000 (+0.000 to +0.000)

`},
	} {
		var b strings.Builder
		c.print(&b, new(eval.Report))
		assert.Empty(t, b.String())
		c.print(&b, r)
		assert.Contains(t, regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n"), "\n"+c.want)
	}
}

// TestEvalColumns: columns of verification are there if a run or a curve has it, those of grades if answers are graded.
func TestEvalColumns(t *testing.T) {
	names := func(task string, r *eval.Report) (all []string) {
		for _, c := range evalColumns(task, r) {
			all = append(all, c.name)
		}
		return all
	}
	plain := []string{"run", "cloud", "asks", "tokens", "ms", "missed", "needless", "agree"}
	assert.Equal(t, plain, names("csqa", &eval.Report{Runs: make([]eval.RunReport, 2)}))
	verified := slices.Insert(slices.Clone(plain), 3, "known", "turned", "ahead")
	assert.Equal(t, verified, names("csqa", &eval.Report{Dials: make([]eval.AsksCurve, 1)}))
	assert.Equal(t, verified, names("csqa", &eval.Report{Runs: []eval.RunReport{{}, {Known: new(0.5)}}}))
	graded := slices.Insert(slices.Clone(plain), 1, "right", "interval", "silent")
	assert.Equal(t, graded, names("csqa", &eval.Report{Graded: true}))
	graded[1] = "pass@1"
	assert.Equal(t, graded, names("humaneval", &eval.Report{Graded: true}))
}

// TestEvalFigures: each figure of a run is in its column.
func TestEvalFigures(t *testing.T) {
	run := eval.RunReport{Policy: "margin", Threshold: new(0.5), Accuracy: new(0.5), AccuracyLow: new(0.375),
		AccuracyHigh: new(0.625), Silent: new(3), Distinct: &eval.Part{Answers: 9, Accuracy: 0.25},
		EscalatedShare: 0.125, Asks: 1.5, Known: new(2.5), Turned: new(3.5), CloudAhead: new(4.5), Tokens: 5.5,
		Milliseconds: 1234, Missed: new(0.01), Needless: new(0.02), Agreement: &stats.Interval{Value: 0.97}}
	cells := func(run eval.RunReport) string {
		var all []string
		for _, c := range evalColumns("csqa", &eval.Report{Graded: true, Runs: []eval.RunReport{run}}) {
			all = append(all, c.name+" "+c.cell(run))
		}
		return strings.Join(all, "; ")
	}
	assert.Equal(t, "run margin 0.5; right 50.0%; interval 37.5–62.5; silent 3; of 9 25.0%; cloud 12.5%; asks 1.5; "+
		"known 2.5; turned 3.5; ahead 4.5; tokens 5.5; ms 1234; missed 1.0%; needless 2.0%; agree 97.0%", cells(run))
	run.Policy, run.Agreement = eval.Oracle, nil
	assert.Regexp(t, "; ms ; .*; agree $", cells(run), "it was not run")
}
