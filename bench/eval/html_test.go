package eval

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// hostile is text that breaks a page without escaping.
const hostile = `</script><script>alert("x")</script><img src=x onerror='alert(1)'>&amp;"'` + "`\u2028<!--"

// written returns the page of a report.
func written(t *testing.T, set *task.Set, runs []Run, l *Log) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, set, runs, l, Summarize(set, runs, l)))
	return b.String()
}

// dataOf returns the answers that a page holds for its script.
func dataOf(t *testing.T, page string) (d pageAnswers) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	require.NotNil(t, m)
	require.NoError(t, json.Unmarshal([]byte(m[1]), &d))
	return d
}

// TestPageHostile: text from models and questions stays text.
func TestPageHostile(t *testing.T) {
	set, runs, l := comparedRuns()
	set.Questions[0].ID, set.Questions[0].Text, set.Questions[0].Key = hostile, hostile, hostile
	for _, run := range Names(runs) {
		a := made(hostile, run, "wrong", "eC")
		a.Pieces = []string{hostile, "\x00\x1b\xff"}
		l.answers[key{hostile, run}] = a
	}
	l.About = About{Version: hostile, Command: hostile, Small: hostile, Large: hostile, Machine: hostile, Date: hostile}
	l.Settings.Task, l.Settings.Large, l.Settings.Prompts = hostile, hostile, hostile
	page := written(t, set, runs, l)
	assert.Equal(t, 2, strings.Count(page, "<script"), "only the page's own")
	assert.Equal(t, 2, strings.Count(page, "</script"))
	assert.NotContains(t, page, "<img")
	assert.NotContains(t, page, "<!--")
	d := dataOf(t, page)
	q := d.Questions[0]
	assert.Equal(t, []string{hostile, hostile, hostile}, []string{q.ID, q.Text, q.Key})
	assert.Equal(t, [2]string{"e", hostile}, q.Answers[0].Spans[0])
	assert.NotContains(t, reportPage, "innerHTML")
	assert.NotRegexp(t, `https?://|src=|@import|url\((?:[^#])`, reportPage, "the page loads nothing")
}

// TestPage: the page has each run, each curve and each answer, with the origin of its tokens.
func TestPage(t *testing.T) {
	set, runs, l := comparedRuns()
	l.Settings.Task, l.About.Command = "demo", "pilotfish eval demo --html=x"
	page := written(t, set, runs, l)
	for _, want := range []string{
		`<h1>demo: accuracy against`, `4 of 4 questions in 3 runs`, `<td>75.0%</td><td>30.1% to 95.4%</td><td>0</td>`,
		`<polyline class="curve p3"`, `<path class="dot" d="M`, `<title>margin 0.5</title>`,
		`</span></span>oracle</li>`,
		`<td>yes</td>`, `<td>no</td>`, `pilotfish eval demo --html=x`, `shares up to 10%`, `<th>of 3</th>`,
		`Guessing among the options would be right for 25.0%`, `<td>1.500 (`,
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "NaN")
	assert.NotContains(t, page, "left out")
	d := dataOf(t, page)
	assert.Equal(t, Names(runs), d.Runs)
	require.Len(t, d.Questions, 4)
	b := d.Questions[1]
	assert.Equal(t, []int{0, 1, 2}, b.Of)
	assert.Equal(t, pageAnswer{Verdict: "wrong", Stop: "end", Tokens: 4,
		Spans: [][2]string{{"e", "x"}, {"E", "xx"}, {"e", "x"}}}, b.Answers[0])
	assert.Equal(t, pageAnswer{Verdict: "right", Stop: "end", Tokens: 4, Cloud: 2,
		Spans: [][2]string{{"e", "x"}, {"c", "x"}, {"E", "x"}, {"C", "x"}}}, b.Answers[2])
	assert.Equal(t, []int{0, 1, 0}, d.Questions[0].Of, "equal answers are stored once")

	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	require.Len(t, drawings, 2)
	for _, svg := range drawings {
		x := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := x.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
		}
	}
}

// TestDraw: points are drawn at their shares and qualities.
func TestDraw(t *testing.T) {
	set, runs, l := comparedRuns()
	r := Summarize(set, runs, l)
	whole, small := draw(r)[0], draw(r)[1]
	require.Len(t, whole.Dots, 4)
	assert.Len(t, small.Dots, 1, "only the small model alone has such a small share")
	never, margin := whole.Dots[0], whole.Dots[2]
	assert.InDelta(t, plotLeft, never.X, 1e-9)
	assert.InDelta(t, plotLeft+plotWidth*3/16, margin.X, 1e-9)
	low, high := 0.1, 1.0 // the ends of the intervals, in tenths
	y := func(q float64) float64 { return plotTop + plotHeight*(high-q)/(high-low) }
	assert.InDelta(t, y(0.5), never.Y, 1e-9)
	assert.InDelta(t, y(*r.Runs[2].AccuracyLow), margin.Low, 1e-9)
	assert.InDelta(t, y(*r.Runs[2].AccuracyHigh), margin.High, 1e-9)
	assert.Equal(t, tick{y(low), "10%"}, whole.Y[0])
	assert.Equal(t, "100%", whole.Y[9].Text)
	assert.Len(t, whole.Y, 10)
	assert.Equal(t, tick{plotLeft + plotWidth, "10%"}, small.X[5])
	assert.Equal(t, whole.Y, small.Y)
	assert.Equal(t, never, small.Dots[0])
	require.Len(t, whole.Lines, 1)
	assert.Equal(t, fmt.Sprintf("%.1f,%.1f %.1f,%.1f %.1f,%.1f", never.X, never.Y, margin.X, margin.Y, whole.Dots[1].X,
		whole.Dots[1].Y), whole.Lines[0].Points)
	assert.True(t, whole.Dots[3].Oracle)
	assert.NotPanics(t, func() { draw(new(Report)) })
}

// TestPageOpen: a page shows answers without a verdict, too.
func TestPageOpen(t *testing.T) {
	set, _, _ := comparedRuns()
	runs, l := []Run{at(router.Margin, 0.5)}, NewLog(Settings{}, About{})
	for i := range set.Questions {
		set.Questions[i].Grade = nil
		l.answers[key{set.Questions[i].ID, "margin 0.5"}] = made(set.Questions[i].ID, "margin 0.5", "", "eEcc")
	}
	page := written(t, set, runs, l)
	assert.Contains(t, page, "agreement with the large model against")
	assert.NotContains(t, page, "McNemar")
	assert.NotContains(t, page, "Height of the curves")
	assert.Contains(t, page, "75.0%")
}

// TestPageParts: a run is compared if it has either of the models alone to compare with, and the remarks name the
// context of the answers.
func TestPageParts(t *testing.T) {
	log := NewLog(Settings{Context: 77}, About{})
	p := newPage(log, &Report{NoRoom: 1, Runs: []RunReport{{Policy: "margin", Threshold: new(0.1), Never: new(Versus)},
		{Policy: "margin", Threshold: new(0.2), Always: new(Versus)}, {Policy: "margin"}}})
	require.Len(t, p.Versus, 2)
	assert.Equal(t, []string{"margin 0.1", "margin 0.2"}, []string{p.Versus[0].Name(), p.Versus[1].Name()})
	require.Len(t, p.Remarks, 1)
	assert.Contains(t, p.Remarks[0], "context of 77 tokens")
	assert.Equal(t, 77, p.Settings.Context)
}

// TestPageKeys: the legend has each policy once.
func TestPageKeys(t *testing.T) {
	r := &Report{Runs: []RunReport{{Policy: "margin"}, {Policy: "never"}, {Policy: "margin"}}}
	p := newPage(NewLog(Settings{}, About{}), r)
	assert.Len(t, p.Rows, 3)
	require.Len(t, p.Keys, 2)
	assert.Equal(t, []string{"margin", "never"}, []string{p.Keys[0].Policy, p.Keys[1].Policy})
}

// TestPageFull: a page holds a max number of answers, and reports how many it left out.
func TestPageFull(t *testing.T) {
	set, runs, l := comparedRuns()
	set.Questions[1].Text = strings.Repeat("long ", maxPage/5)
	page := written(t, set, runs, l)
	assert.Less(t, len(page), maxPage)
	assert.Contains(t, page, "3 questions are left out")
	assert.Len(t, dataOf(t, page).Questions, 1)
}
