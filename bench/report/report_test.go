package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval"
	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/outcome"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/bench/speed"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// written returns the page of a report.
func written(t *testing.T, r *Report) string {
	var b bytes.Buffer
	require.NoError(t, r.WriteHTML(&b))
	return b.String()
}

// reported returns the report of lines.
func reported(t *testing.T, all ...[]byte) *Report {
	r, err := New(records(t, all...))
	require.NoError(t, err)
	return r
}

// line returns the line of a measurement.
func line(t *testing.T, v any, run record.Run) []byte {
	b, err := record.Line(v, run)
	require.NoError(t, err)
	return b
}

// TestSorted: each line is in the section of its measurement; a line of unknown shape is shown with the names of its
// figures.
func TestSorted(t *testing.T) {
	r := sample(t)
	var got []string
	for _, s := range r.Sections {
		got = append(got, fmt.Sprintf("%s: %d rows, %d pictures", s.Title, len(s.Tables[0].Rows), len(s.Pictures)))
	}
	assert.Equal(t, []string{"small " + hostile +
		" asks model fedcba987654, device 60 tokens/s, cloud 15 ms a token: " +
		"12 rows, 14 pictures", "Gateway: 1 rows, 0 pictures", "Engine: 2 rows, 0 pictures",
		"Accuracy: pilotfish eval demo " + hostile + ": 5 rows, 2 pictures", "run: 3 rows, 0 pictures",
		"bench link: 2 rows, 0 pictures", "Link: 2 rows, 0 pictures"}, got)
	assert.Equal(t, 24, r.Lines)
	assert.Equal(t, [][]string{{"summary.prompt_tps", "100.5"}, {"summary.text", hostile},
		{"summary.tokens", "3 values"}}, r.Sections[4].Tables[0].Rows)
	assert.Len(t, r.Runs, 6, "one run for each call")
	_, err := New(nil)
	assert.Error(t, err)
}

// TestElsewhere: a line of another measurement is no line of one whose field it has, and figures keep their digits.
func TestElsewhere(t *testing.T) {
	other := map[string]any{"mode": "local", "policy": "never", "generation_tps": 1, "rate": 1, "part": "asks"}
	for _, m := range []string{"run", "router train"} {
		assert.Equal(t, m, reported(t, line(t, other, aRun(m))).Sections[0].Title)
	}
	for _, m := range []string{"bench routing", "demo", "bench engine", "bench gateway", "bench link", "eval csqa"} {
		assert.Equal(t, m, reported(t, line(t, map[string]any{"x": 1}, aRun(m))).Sections[0].Title)
	}
	many := map[string]any{"a": 12345678901, "b": nil, "c": map[string]any{"a": map[string]any{"b": true}},
		"d": []int{1},
		"e": strings.Repeat("ä", 201)}
	for i := range maxFields {
		many[fmt.Sprintf("f%03d", i)] = i
	}
	rows := reported(t, line(t, many, aRun("x"))).Sections[0].Tables[0].Rows
	assert.Len(t, rows, maxFields)
	assert.Equal(t, [][]string{{"a", "12345678901"}, {"c.a.b", "true"}, {"d", "1 value"},
		{"e", strings.Repeat("ä", 200) + "…"}, {"f000", "0"}}, rows[:5])
}

// TestStudies: lines that differ in more than the round trip are separate studies, and so is a repeated measurement.
func TestStudies(t *testing.T) {
	base := aRun("bench routing")
	count := func(change func(cell map[string]any, run *record.Run)) int {
		mode, run := aMode("serial", 50), base
		run.Flags = map[string]string{"policy": "margin"}
		other, otherRun := aMode("serial", 100), run
		otherRun.Flags = map[string]string{"policy": "margin"}
		change(other["cell"].(map[string]any), &otherRun)
		return len(reported(t, line(t, mode, run), line(t, other, otherRun)).Sections)
	}
	assert.Equal(t, 1, count(func(_ map[string]any, r *record.Run) {
		r.Date, r.Command = r.Date.AddDate(0, 0, 1), "x"
		r.Flags["rtt"], r.Flags["modes"], r.Flags["model"], r.Flags["json"] = "100ms", "serial", "elsewhere.gguf",
			"true"
	}))
	for name, change := range map[string]func(cell map[string]any, run *record.Run){
		"loss":    func(c map[string]any, _ *record.Run) { c["loss"] = 0.1 },
		"trace":   func(c map[string]any, _ *record.Run) { c["trace"] = "x" },
		"version": func(_ map[string]any, r *record.Run) { r.Version = "v2" },
		"CPU":     func(_ map[string]any, r *record.Run) { r.Machine.CPU = "other" },
		"policy":  func(_ map[string]any, r *record.Run) { r.Flags["policy"] = "learned" },
		"ahead":   func(_ map[string]any, r *record.Run) { r.Flags["ahead"] = "8" },
		"model":   func(_ map[string]any, r *record.Run) { r.Model = &record.Model{Hash: "other"} },
		"large":   func(_ map[string]any, r *record.Run) { r.Large = &record.Model{Hash: "other"} },
		"remote":  func(_ map[string]any, r *record.Run) { r.Large = &record.Model{Name: "other"} },
		"same":    func(c map[string]any, _ *record.Run) { c["rtt_ms"] = 50 },
		"command": func(_ map[string]any, r *record.Run) { r.Measurement = "demo" },
	} {
		assert.Equal(t, 2, count(change), name)
	}
	again := reported(t, line(t, aMode("serial", 50), base), line(t, aMode("serial", 50), base))
	assert.Len(t, again.Sections, 2)
	one, two := aMode("serial", 50), aMode("serial", 50)
	one["variant"], two["variant"] = 1, 2
	both := reported(t, line(t, one, base), line(t, two, base))
	require.Len(t, both.Sections, 1)
	assert.Equal(t, "serial #2", both.Sections[0].Tables[0].Rows[1][0])
	small, large := &record.Model{Name: "small"}, &record.Model{Hash: "0123456789abcdef"}
	for want, r := range map[string]record.Run{
		"small asks model 0123456789ab": {Model: small, Large: large},
		"small asks elsewhere":          {Model: small, Large: &record.Model{Name: "elsewhere"}},
		"small asks a large model":      {Model: small},
	} {
		assert.Equal(t, want+", trace a.up, loss 2.5%, device at full speed, cloud 0 ms a token",
			studyTitle(&r, &outcome.Cell{Trace: "a.up", Loss: 0.025}))
	}
}

// TestCalls: lines are of one call only if measurement, command, date, version and machine are the same.
func TestCalls(t *testing.T) {
	for name, change := range map[string]func(*record.Run){
		"measurement": func(r *record.Run) { r.Measurement = "eval csqa" },
		"command":     func(r *record.Run) { r.Command += " -n 9" },
		"date":        func(r *record.Run) { r.Date = r.Date.Add(time.Second) },
		"version":     func(r *record.Run) { r.Version = "v2" },
		"machine":     func(r *record.Run) { r.Machine.Cores++ },
		"":            func(r *record.Run) { r.Date = r.Date.In(time.FixedZone("elsewhere", 3600)) },
	} {
		one := aRun("eval demo")
		two := one
		change(&two)
		r := reported(t, line(t, map[string]any{"policy": "never"}, one),
			line(t, map[string]any{"policy": "always"}, two))
		calls := 2
		if name == "" {
			calls = 1
		}
		assert.Len(t, r.Sections, calls, name)
		assert.Len(t, r.Runs, calls, name)
	}
}

// TestMeanTime: the mean is that of the samples and lies in its interval. The interval resamples questions: repetitions
// of one question do not make it narrower.
func TestMeanTime(t *testing.T) {
	m := &outcome.Report{Time: result.Times{Mean: 7}}
	assert.Equal(t, 7.0, meanTime(m).Low, "without samples there is no interval")
	m.Samples = []outcome.Sample{{Took: time.Millisecond}, {Took: 3 * time.Millisecond}}
	assert.Equal(t, 7.0, meanTime(m).High, "nor with a single question")
	for q := range 20 {
		m.Samples = append(m.Samples, outcome.Sample{Question: q + 1, Took: time.Duration(10+q) * time.Millisecond})
	}
	i := meanTime(m)
	assert.InDelta(t, (4+390.0)/22, i.Value, 1e-9)
	assert.Less(t, i.Low, i.Value-1)
	assert.Greater(t, i.High, i.Value+1)
	m.Samples = m.Samples[2:]
	once := meanTime(m)
	for range 3 {
		m.Samples = append(m.Samples, m.Samples[:20]...)
	}
	i = meanTime(m)
	assert.InDelta(t, once.High-once.Low, i.High-i.Low, 1e-9, "the same number of questions")
}

// TestPageIsText: text in the lines does not become markup, the policy allows only the page's own script and styles,
// and the page refers to nothing outside.
func TestPageIsText(t *testing.T) {
	page := written(t, sample(t))
	assert.True(t, strings.HasPrefix(page, "<!doctype html>"))
	assert.False(t, strings.Contains(page, "<img src=x"))
	assert.Equal(t, 1, strings.Count(page, "<script>"))
	assert.Equal(t, 1, strings.Count(page, "</script>"))
	for _, part := range []struct{ name, tag string }{{"script-src", "script"}, {"style-src", "style"}} {
		policy := regexp.MustCompile(part.name + "[^;]*;").FindString(html.UnescapeString(page))
		for _, inside := range regexp.MustCompile(`(?s)<`+part.tag+`>(.*?)</`+part.tag+`>`).FindAllStringSubmatch(page,
			-1) {
			assert.Contains(t, policy, contentHash(inside[1]))
		}
	}
	assert.True(t, strings.Contains(page, "default-src 'none'"))
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z]`).FindAllString(
		strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1)
	assert.Empty(t, outside)
	assert.False(t, strings.Contains(page, " style="))
	for _, want := range []string{
		"<dt>command</dt><dd><code>pilotfish bench routing &lt;/script",
		"8.0 GiB of memory at 21.3 GB/s, load 0.2 in the minute before",
		"10 B, types F32 Q8_0, hash 0123456789ab", "2026-11-23 07:00:00 UTC",
		"<td>--rtt</td><td>100ms</td>", "<b>cloud</b>: share of the generated tokens that the large model chose. ",
	} {
		assert.True(t, strings.Contains(page, want), want)
	}
}

// rowsOf returns the first row of a table by column.
func rowsOf(t *Table) string {
	var all []string
	for i, c := range t.Columns {
		all = append(all, c.Name+" "+t.Rows[0][i])
	}
	return strings.Join(all, "; ")
}

// TestColumns: each figure is in the column of its name, and a column without figures is left out.
func TestColumns(t *testing.T) {
	x := func(n float64) *float64 { return &n }
	mode := outcome.Report{Mode: "verified", Answers: 2,
		Accuracy: &stats.Accuracy{Value: 0.03, Low: 0.04, High: 0.05},
		Time:     result.Times{Mean: 7, P50: 8, P90: 9, P99: 10}, Cell: &outcome.Cell{RTT: 11},
		Bound: x(14), Differing: new(3),
		Sums: draft.Summary{Tokens: 100, Cloud: 6, Wait: 100e6, Hidden: 18e6, Hits: 19, Answered: 100, Asks: 40,
			Timeouts: 22, BytesUp: 2500, BytesDown: 2600, Exposed: 34 * time.Millisecond, Passes: 54, Wasted: 42},
		Samples: []outcome.Sample{{CPU: 46 * time.Second}}}
	mode.FirstToken, mode.Between = &result.Times{P50: 15, P99: 900}, &result.Times{P50: 901, P99: 16}
	engine := speed.Report{PromptTokens: 30, PromptTPS: 31, DecodedTokens: 32, GenerationTPS: 33, Share: x(0.34),
		TokenBytes: 1e9, Bandwidth: 36, LoadMS: 37, FirstTokenMS: 38, PeakRSS: 39 << 20, Threads: 1}
	gateway := wire.GatewayReport{Devices: 40, Rate: 41, ModelMS: 42, Asks: 44, Answers: 43, PerSecond: 45, Errors: 46,
		Time: result.Times{P50: 47, P90: 48, P99: 49, P999: 50, Max: 51}, InGateway: result.Times{P99: 52},
		CPU: 44 * 53 * time.Microsecond, Memory: 40 * 54 << 10, BytesUp: 44 * 68, BytesDown: 44 * 69, ConnectMS: 70,
		AnswersJain: x(0.2), P99Jain: x(0.3)}
	link := wire.LinkReport{Timed: "end of an outage", RTTMS: 56, Loss: 0.57, ModelMS: 58, Answers: 59, Errors: 60,
		Time: result.Times{P50: 61, P90: 62, P99: 63, P999: 64, Max: 65}, Bound: x(66), OutageMS: 67,
		Wire: &wire.Traffic{BytesUp: 119 * 68, BytesDown: 119 * 69}}
	run := eval.RunReport{Policy: "p", Threshold: x(0.5), Answers: 72, Accuracy: &stats.Accuracy{Value: 0.73, Low: 0.74,
		High: 0.75}, Tokens: 7200, Cloud: 3600, Asks: 720, Known: 360, Turned: 216, Read: 72 * 80, Silent: new(3),
		Chance: x(0.2), Time: 72 * 1234, Audited: 500, Missed: 5, Needless: 72,
		Agreement: &stats.Interval{Value: 0.97}}
	small := aRun("bench engine")
	small.Model.Name = "small"
	r := reported(t, line(t, mode, aRun("demo")), line(t, engine, small), line(t, gateway, aRun("bench gateway")),
		line(t, link, aRun("bench link")), line(t, run, aRun("eval")))
	want := []string{
		"mode verified; RTT 11; answers 2; right 3.0%; interval 4.0% to 5.0%; cloud 6.0%; mean 7; p50 8; p90 " +
			"9; " +
			"p99 10; bound 14; first token 15; between tokens 16; exposed 17; hidden 18.0%; hits 19.0%; passes 27; " +
			"asks 20; " +
			"wasted 21; timed out 22; bytes up 25; down 26; CPU 23; equal but 3, to cloud",
		"model small; threads 1; prompt 30; prompt, tokens/s 31; generated 32; generation, tokens/s 33; of the bound " +
			"34.0%; " +
			"bound, tokens/s 36; memory, GB/s 36; load, ms 37; first token, ms 38; peak memory 39 MiB",
		"devices 40; asks/s of each 41; model, ms 42; answered 43 of 44; answers/s 45; failed 46; ms p50 47; p90 48; " +
			"p99 49; p99.9 50; in gateway p99 52; fairness 0.2; of p99 0.3; " +
			"CPU, µs an ask 53; " +
			"bytes up 68; down 69; connected, ms 70; memory a device 54 KiB",
		"timed end of an outage; round trip 56 ms; lost 57.0%; times 59; failed 60; " +
			"ms p50 61; p90 62; p99 63; p99.9 64; predicted at most 66; bytes up 68; down 69",
		"run p 0.5; right 73.0%; interval 74.0% to 75.0%; silent 3; chance 20.0%; cloud 50.0%; " +
			"asked 15.0%; replaced 49.0%; read 80; asks 10.0; known 5; " +
			"turned 3; tokens 100.0; ms 1,234; missed 1.0%; needless 2.0%; agree 97.0%",
	}
	require.Len(t, r.Sections, len(want))
	for i, s := range r.Sections {
		assert.Equal(t, want[i], rowsOf(s.Tables[0]))
	}
	assert.True(t, strings.Contains(written(t, r), "<tr><th>model</th><th>threads</th>"))
}

// TestTable: a table as text has its legend and note; in Markdown, columns are chosen and renamed.
func TestTable(t *testing.T) {
	table := &Table{Title: "T", Columns: []Column{{"a", ""}, {"b", "what it is"}}, Rows: [][]string{{"1", "22"},
		{"333", ""}},
		Note: "N"}
	var b strings.Builder
	require.NoError(t, table.Text(&b))
	assert.Equal(t, "T\n\na    b\n1    22\n333  \n\nb         what it is\nN\n", b.String())
	assert.Equal(t, "| B | a |\n|---|---|\n| 22 | 1 |\n|  | 333 |\n", table.Pick("b:B", "x", "a").Markdown())
	assert.Equal(t, "| a | b |\n|---|---|\n| 1 | 22 |\n| 333 |  |\n", table.Markdown())
	assert.Nil(t, equalityText(new(outcome.Report)))
	assert.Equal(t, "", formatNonzero(0))
	assert.Equal(t, "2", formatNonzero(2))
	for want, r := range map[string]outcome.Report{"to cloud": {Mode: "verified", Differing: new(0)},
		"but 2, to serial": {Mode: "serial", Differing: new(2)}} {
		assert.Equal(t, want, equalityText(&r))
	}
}

// TestPictures: each picture is complete, and has another name than the others of its section.
func TestPictures(t *testing.T) {
	var names []string
	for _, p := range sample(t).Sections[0].Pictures {
		assert.NotContains(t, names, p.Name)
		names = append(names, p.Name)
		d := xml.NewDecoder(bytes.NewReader(p.SVG))
		err := error(nil)
		for ; err == nil; _, err = d.Token() {
		}
		assert.ErrorIs(t, err, io.EOF, p.Name)
		assert.NotContains(t, string(p.SVG), "NaN")
		assert.Equal(t, strings.Contains(p.Name, "waterfall"), p.Folded)
	}
	assert.Subset(t, names, []string{"time-over-rtt", "right-over-time", "cell1-waterfall-local",
		"cell3-waterfall-serial"})
}

// TestOverRTT: each mode is a line through its cells, with the intervals of its samples, or its right answers. Cells of
// traces are left out.
func TestOverRTT(t *testing.T) {
	var all []*mode
	for _, c := range []outcome.Cell{{}, {RTT: 9, Trace: "x"}, {RTT: 50}, {RTT: 300}} {
		for i, name := range []string{"cloud", "a"} {
			x := []float64{c.RTT, 7}[i]
			samples := []outcome.Sample{{Took: time.Duration((x - 1) * 1e6)},
				{Question: 1, Took: time.Duration((x + 1) * 1e6)}}
			all = append(all, &mode{label: name, Report: outcome.Report{Cell: &c,
				Accuracy: &stats.Accuracy{Value: float64(i) / 2}, Samples: samples}})
		}
	}
	all = withoutTraces(all)
	assert.Equal(t, string(chart.Chart{
		Title: "Time per answer over round trips",
		X:     chart.Axis{Label: "round trip, ms", Linear: true, End: 300},
		Y:     chart.Axis{Label: "mean time per answer, ms", Linear: true, End: 301},
		Lines: []chart.Line{
			{Name: "cloud", Dots: true, Dashed: true, X: []float64{0, 50, 300}, Y: []float64{0, 50, 300},
				Low: []float64{-1, 49, 299}, High: []float64{1, 51, 301}},
			{Name: "a", Dots: true, X: []float64{0, 50, 300}, Y: []float64{7, 7, 7},
				Low: []float64{6, 6, 6}, High: []float64{8, 8, 8}},
		},
	}.SVG()), string(plotTimeOverRTT(all)))
	assert.Equal(t, string(chart.Chart{
		Title: "Right answers over time",
		X:     chart.Axis{Label: "mean time per answer, ms", Linear: true, End: 300},
		Y:     chart.Axis{Label: "right answers"},
		Lines: []chart.Line{
			{Name: "cloud", Dots: true, Dashed: true, X: []float64{0, 50, 300}, Y: []float64{0, 0, 0}},
			{Name: "a", Dots: true, X: []float64{7, 7, 7}, Y: []float64{0.5, 0.5, 0.5}},
		},
	}.SVG()), string(plotRightOverTime(all)))
	assert.Nil(t, plotTimeOverRTT(all[:2]), "one round trip gives no line")
	assert.Nil(t, plotRightOverTime(all[:2]))
	all[3].Accuracy = nil
	assert.Nil(t, plotRightOverTime(all), "without right answers there is nothing to draw")
}

// TestWaterfall: spans are in the rows and colours of their kinds, each ask in its own row, in order of their start.
func TestWaterfall(t *testing.T) {
	var m mode
	require.NoError(t, records(t, line(t, aMode("serial", 300), aRun("demo")))[0].Into(&m.Report))
	type kinds struct {
		name  string
		kinds []int
	}
	var got []kinds
	rows := waterfallRows(m.Waterfall)
	for _, r := range rows {
		one := kinds{name: r.Name}
		for _, s := range r.Spans {
			one.kinds = append(one.kinds, s.Kind)
		}
		got = append(got, one)
	}
	assert.Equal(t, []kinds{{"small model", []int{drawPrompt, drawStep, drawBranches}}, {"waiting", []int{drawVain}},
		{"rolled back", []int{drawVain, drawVain}}, {"ask, position 31", []int{drawHit}},
		{"text shown", []int{drawCloud, drawEdge}}}, got)
	assert.Equal(t, "step, 57 to 74 ms, position 31, 4 tokens on 4 branches", rows[0].Spans[2].Text)
	assert.Equal(t, chart.Span{From: 57, To: 357, Kind: drawHit, Text: "ask, 57 to 357 ms, position 31, hit"},
		rows[3].Spans[0])
	for outcome, want := range map[string]int{"hit": drawHit, "miss": drawMiss, "known": drawMiss, "late": drawVain,
		"dropped": drawVain} {
		assert.Equal(t, want, askKind(outcome), outcome)
	}
	m.Waterfall = nil
	for i := range 40 {
		m.Waterfall = append(m.Waterfall, result.Span{Start: float64(40 - i), End: float64(90 - i),
			Kind: result.SpanAsk, Pos: i, Outcome: "hit"})
	}
	rows = waterfallRows(m.Waterfall)
	assert.Len(t, rows, 26)
	assert.Equal(t, "ask, position 39", rows[0].Name)
	assert.Equal(t, "16 more asks", rows[24].Name)
}

// evaluated returns an evaluation of two questions in three runs, with a hostile text.
func evaluated(t *testing.T) (*task.Set, []eval.Run, *eval.Log) {
	set := &task.Set{}
	for _, id := range []string{"a", hostile} {
		set.Questions = append(set.Questions, task.Question{ID: id, Text: "text " + id, Key: "key", Guess: 0.25,
			Grade: func(string) task.Verdict { return task.Right }})
	}
	runs := []eval.Run{{Policy: router.Never}, {Policy: router.Always}, {Policy: router.Margin, Threshold: new(0.5)}}
	settings := eval.Settings{Runs: eval.Names(runs), Task: hostile, Prompts: "p-1"}
	path := filepath.Join(t.TempDir(), "log")
	l, err := eval.OpenLog(path, settings, eval.About{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	for _, q := range set.Questions {
		for i, name := range settings.Runs {
			a := eval.Answer{Question: q.ID, Run: name, Verdict: []string{"wrong", "right", "right"}[i], Stop: "end",
				Tokens: []int32{1, 2, 3, 4}, Pieces: []string{q.ID, "x", "y", "z"}, Origins: []string{"eeee", "cccc",
					"ecec"}[i],
				Audited: 2, Asks: []int{0, 4, 2}[i]}
			switch i {
			case 0:
				a.Missed = []int{1, 2}
			case 2:
				a.Needless = []int{3}
			}
			require.NoError(t, json.NewEncoder(f).Encode(a))
		}
	}
	require.NoError(t, f.Close())
	l, err = eval.OpenLog(path, settings, eval.About{})
	require.NoError(t, err)
	return set, runs, l
}

// TestOfEval: the page has each run, the curves, and each answer once with the origin of its tokens; text from models
// and questions stays text.
func TestOfEval(t *testing.T) {
	set, runs, l := evaluated(t)
	defer l.Close()
	sum := eval.Summarize(set, runs, l)
	r, err := OfEval(sum, l.Settings, aRun("eval "+hostile))
	require.NoError(t, errors.Join(err, r.AddAnswers(set, runs, l)))
	page := written(t, r)
	assert.Equal(t, 2, strings.Count(page, "<script"), "its own")
	assert.Equal(t, 2, strings.Count(page, "</script"), "its own")
	assert.NotContains(t, page, "<img src=x")
	assert.NotContains(t, page, "NaN")
	assert.NotContains(t, page, "left out")
	assert.NotContains(t, pageScript, "innerHTML")
	for _, want := range []string{"2 of 2 questions, prompts p-1", "<td>oracle</td>", "<td>prompts</td><td>p-1</td>",
		"<h3>Accuracy against the large model alone", "<td>yes</td>", "up to 10%"} {
		assert.Contains(t, page, want)
	}
	m := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)
	require.NotNil(t, m)
	var d pageAnswers
	require.NoError(t, json.Unmarshal([]byte(m[1]), &d))
	assert.Equal(t, eval.Names(runs), d.Runs)
	require.Len(t, d.Questions, 2)
	q := d.Questions[1]
	assert.Equal(t, hostile, q.ID)
	assert.Equal(t, "text "+hostile, q.Text)
	assert.Equal(t, "key", q.Key)
	assert.Equal(t, []int{0, 1, 2}, q.Of)
	assert.Equal(t, pageAnswer{Verdict: "wrong", Stop: "end", Tokens: 4,
		Spans: [][2]string{{"e", hostile}, {"E", "xy"}, {"e", "z"}}}, q.Answers[0])
	assert.Equal(t, pageAnswer{Verdict: "right", Stop: "end", Tokens: 4, Cloud: 2,
		Spans: [][2]string{{"e", hostile}, {"c", "x"}, {"e", "y"}, {"C", "z"}}}, q.Answers[2])
	assert.Equal(t, [][2]string{{"e", "x"}, {"C", "y"}}, newPageAnswer(&eval.Answer{Origins: "ec",
		Pieces: []string{"x", "y"}, Needless: []int{0, 1}}).Spans, "a token that ends a check is the small model's")
	set.Questions[0].Text = strings.Repeat("long ", maxPage/5)
	full, err := collectAnswers(set, runs, l)
	require.NoError(t, err)
	assert.Empty(t, full.Questions, "a page holds a max number of answers")
	assert.Equal(t, 2, full.Left)
}

// TestEvalTables: the tables of the comparisons have each number in its column, and nothing in place of one that is
// missing.
func TestEvalTables(t *testing.T) {
	none := stats.Interval{Value: 0.5, Low: nan, High: nan}
	runs := []eval.RunReport{
		{Policy: "never"}, // compared with nothing
		{Policy: "margin", Gap: &stats.Interval{Value: 0.875, Low: 0.75, High: 0.9375},
			Versus: map[router.Policy]*eval.Versus{
				"always": {Ratio: &stats.Interval{Value: 0.97, Low: 0.96, High: 0.98}, OnlyThat: 3},
				"never":  {Ratio: &stats.Interval{Value: 1.5, Low: 1.25, High: 1.75}, OnlyThis: 6}},
			Curve: []eval.At{
				{Share: 0.05, Quality: stats.Interval{Value: 0.75, Low: 0.7, High: 0.8},
					Minus: map[string]stats.Interval{"random": {Value: 0.125, Low: -0.25, High: 0.5},
						"entropy": {Value: nan}}},
				{Share: 0.1, Quality: stats.Interval{Value: 0.5, Low: 0.5, High: 0.5}}}},
		{Policy: "margin", Threshold: new(0.5), Curve: []eval.At{{}}},
		{Policy: "random", Versus: map[router.Policy]*eval.Versus{"always": {Ratio: &none}}},
		{Policy: "entropy", Versus: map[router.Policy]*eval.Versus{"never": {OnlyThis: 7}}},
	}
	r, err := Of(runs, aRun("eval csqa"))
	require.NoError(t, err)
	all := r.Sections[0].Tables
	require.Len(t, all, 3)
	assert.Equal(t, `| run | of always | >= 0.95 | p always | of never | p never | gap |
|---|---|---|---|---|---|---|
| margin | 0.970 (0.960 to 0.980) | yes | 0.25 | 1.500 (1.250 to 1.750) | 0.031 | 0.875 (0.750 to 0.938) |
| random |  |  | 1 |  |  |  |
| entropy |  |  |  |  | 0.016 |  |
`, all[1].Markdown())
	assert.Equal(t, `| policy | share | height | over random |
|---|---|---|---|
| margin | 5% | 0.750 (0.700 to 0.800) | 0.125 (-0.250 to 0.500) |
| margin | 10% | 0.500 (0.500 to 0.500) |  |
`, all[2].Markdown())
	r, err = Of(runs[:1], aRun("eval csqa"))
	require.NoError(t, err)
	assert.Len(t, r.Sections[0].Tables, 1)
}

// TestCurves: policies are lines over shares; the large model alone is a level.
func TestCurves(t *testing.T) {
	run := func(policy string, share, accuracy float64) eval.RunReport {
		return eval.RunReport{Policy: policy, Tokens: 10000, Cloud: int(10000 * share),
			Accuracy: &stats.Accuracy{Value: accuracy, Low: accuracy - 0.1, High: accuracy + 0.1}}
	}
	runs := []eval.RunReport{run("margin", 0.25, 0.6), run("margin", 0.0625, 0.5), run("always", 1, 0.9), run("never",
		0, 0.4)}
	order := slices.Clone(runs)
	c := chart.Chart{
		Title: "Quality against the share of tokens from the large model, up to 30%",
		X:     chart.Axis{Label: "tokens from the large model, %", End: 0.3},
		Y:     chart.Axis{Label: "accuracy, or agreement, %"},
		Lines: []chart.Line{
			{Name: "never", Dots: true, X: []float64{0}, Y: []float64{0.4}, Low: []float64{0.4 - 0.1},
				High: []float64{0.5}},
			{Name: "margin", Dots: true, X: []float64{0.0625, 0.25}, Y: []float64{0.5, 0.6}, Low: []float64{0.4, 0.5},
				High: []float64{0.6, 0.7}},
			{Name: "always", Dashed: true, X: []float64{0, 0.3}, Y: []float64{0.9, 0.9}},
		},
	}
	assert.Equal(t, string(c.SVG()), string(plotCurves(runs, 0.3)))
	assert.Equal(t, order, runs, "the table keeps its order")
	assert.Nil(t, plotCurves([]eval.RunReport{{Policy: "x"}}, 1))
}

// FuzzNew: any lines give a page, or an error that names the line.
func FuzzNew(f *testing.F) {
	var t testing.T
	for _, l := range allLines(&t) {
		f.Add(l)
	}
	f.Add([]byte(`{"mode":"x","samples":[{"ms":1e308},{"ms":-1e308,"question":-5}],` +
		`"cell":{"rtt_ms":-1e308},` +
		`"waterfall":[{"start_ms":9,"end_ms":-1e308,"kind":"step"}],"run":{"measurement":"demo"}}`))
	f.Add([]byte(`{"generation_tps":1,"threads":-1,"samples":[{}],` +
		`"run":{"measurement":"bench engine","model":{"hash":""}}}`))
	f.Add([]byte(`{"timed":"ask","errors":1,"outage_ms":1,"bound_ms":1,"run":{"measurement":"bench link"}}`))
	for _, end := range []string{"", "_low", "_high"} { // without the other ends of its interval
		f.Add([]byte(`{"policy":"x","accuracy` + end + `":1,"run":{"measurement":"eval"}}`))
		f.Add([]byte(strings.Replace(`{"policy":"x","accuracy":1,"accuracy_low":1,"accuracy_high":1,`+
			`"run":{"measurement":"eval"}}`, `"accuracy`+end+`":1,`, "", 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := result.Read(bytes.NewReader(b), "lines")
		if err != nil {
			return
		}
		r, err := New(all)
		if err != nil {
			assert.Regexp(t, `^lines:\d+: `, err.Error())
			return
		}
		page := written(t, r)
		assert.False(t, strings.Contains(page, "NaN"))
		assert.Equal(t, 1, strings.Count(page, "<script>"))
	})
}

// TestMistakes: a line that does not fit its measurement is an error; it is not left out.
func TestMistakes(t *testing.T) {
	for _, text := range []string{
		`{"policy":"never","accuracy":"high","run":{"measurement":"eval"}}`,
		`{"mode":"local","cell":{},"samples":{},"run":{"measurement":"bench routing"}}`,
	} {
		all, err := result.Read(strings.NewReader(text), "lines")
		require.NoError(t, err)
		_, err = New(all)
		assert.ErrorContains(t, err, "lines:1: ", text)
		var wrong *json.UnmarshalTypeError
		assert.True(t, errors.As(err, &wrong))
	}
}

var nan = math.NaN()
