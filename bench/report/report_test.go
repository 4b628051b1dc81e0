package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
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
	"github.com/pilotfish-ai/pilotfish/bench/wire"
	"github.com/pilotfish-ai/pilotfish/internal/chart"
	"github.com/pilotfish-ai/pilotfish/internal/held"
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
func line(t *testing.T, v any, run result.Run) []byte {
	b, err := result.Line(v, run)
	require.NoError(t, err)
	return b
}

// TestSorted: each line is in the section of its measurement; a line of unknown shape is shown with the names of its
// figures.
func TestSorted(t *testing.T) {
	r := sample(t)
	assert.Equal(t, 27, r.Lines)
	assert.Len(t, r.Paths, 1+3+1)
	assert.Len(t, r.Loopbacks, 1)
	assert.Len(t, r.Evens, 2)
	require.Len(t, r.Studies, 1)
	assert.Equal(t, []string{"local", "serial", "pipelined-4", hostile}, r.Studies[0].Modes)
	require.Len(t, r.Studies[0].Cells, 3)
	for i, rtt := range []float64{0, 50, 300} {
		assert.Equal(t, rtt, r.Studies[0].Cells[i].Cell.RTT)
		require.Len(t, r.Studies[0].Cells[i].Modes, 4)
		assert.Equal(t, 4, r.Studies[0].Cells[i].Modes[0].Colour, "local")
	}
	assert.Len(t, r.Engines, 2)
	assert.Len(t, r.Gateways, 1)
	require.Len(t, r.Curves, 1)
	assert.Len(t, r.Curves[0].Runs, 5)
	require.Len(t, r.Others, 2)
	assert.Equal(t, []Field{{"summary.prompt_tps", "100.5"}, {"summary.text", hostile}, {"summary.tokens", "3 values"}},
		r.Others[0].Fields)
	assert.Len(t, r.Runs, 6, "one run for each call")
	assert.Equal(t, strings.Repeat("ä", 200), shortText(strings.Repeat("ä", 200)))
	assert.Equal(t, strings.Repeat("ä", 200)+"…", shortText(strings.Repeat("ä", 201)))
	_, err := New(nil)
	assert.Error(t, err)
	wrong := aMode("local", 1)
	wrong["answers"] = "many"
	_, err = New(records(t, line(t, wrong, aRun("demo"))))
	assert.ErrorContains(t, err, "lines:1: ")
}

// TestElsewhere: a line of another measurement is no line of one whose field it has.
func TestElsewhere(t *testing.T) {
	fields := map[string]any{"mode": "local", "policy": "never", "generation_tps": 1, "rate": 1, "part": "asks",
		"break_even": []string{}}
	for _, m := range []string{"run", "router train"} {
		assert.Len(t, reported(t, line(t, fields, aRun(m))).Others, 1, m)
	}
	for _, m := range []string{"bench routing", "demo", "bench engine", "bench gateway", "bench link", "eval csqa"} {
		assert.Len(t, reported(t, line(t, map[string]any{"x": 1}, aRun(m))).Others, 1, m)
	}
}

// TestStudies: lines that differ in more than the round trip are separate studies, and so is a repeated measurement.
func TestStudies(t *testing.T) {
	base := aRun("bench routing")
	count := func(change func(mode map[string]any, cell map[string]any, run *result.Run)) int {
		mode, run := aMode("serial", 50), base
		run.Flags = map[string]string{"policy": "margin"}
		other := aMode("serial", 100)
		otherRun := run
		otherRun.Flags = map[string]string{"policy": "margin"}
		change(other, other["cell"].(map[string]any), &otherRun)
		return len(reported(t, line(t, mode, run), line(t, other, otherRun)).Studies)
	}
	assert.Equal(t, 1, count(func(_, _ map[string]any, _ *result.Run) {}))
	assert.Equal(t, 1, count(func(_, _ map[string]any, r *result.Run) {
		r.Date, r.Command = r.Date.AddDate(0, 0, 1), "x"
	}))
	for name, change := range map[string]func(mode, cell map[string]any, run *result.Run){
		"loss":     func(_, c map[string]any, _ *result.Run) { c["loss"] = 0.1 },
		"edge":     func(_, c map[string]any, _ *result.Run) { c["edge_tps"] = 20 },
		"cloud":    func(_, c map[string]any, _ *result.Run) { c["cloud_ms"] = 40 },
		"trace":    func(_, c map[string]any, _ *result.Run) { c["trace"] = "x" },
		"rows":     func(_, c map[string]any, _ *result.Run) { c["edge_row_cost"] = 0.1 },
		"parallel": func(_, c map[string]any, _ *result.Run) { c["parallel"] = 1 },
		"version":  func(_, _ map[string]any, r *result.Run) { r.Version = "v2" },
		"CPU":      func(_, _ map[string]any, r *result.Run) { r.Machine.CPU = "other" },
		"policy":   func(_, _ map[string]any, r *result.Run) { r.Flags["policy"] = "learned" },
		"model":    func(_, _ map[string]any, r *result.Run) { r.Model = &result.Model{Hash: "other"} },
		"large":    func(_, _ map[string]any, r *result.Run) { r.Large = &result.Model{Hash: "other"} },
		"remote":   func(_, _ map[string]any, r *result.Run) { r.Remote = "other" },
		"same":     func(_, c map[string]any, _ *result.Run) { c["rtt_ms"] = 50 },
		"command":  func(_, _ map[string]any, r *result.Run) { r.Measurement = "demo" },
	} {
		assert.Equal(t, 2, count(change), name)
	}
	for flag := range strings.FieldsSeq("policy threshold budget router branches window inflight deadline ahead " +
		"verify-every lookup workload questions no-warm no-audit edge-row-cost repeat replay max-tokens raw upstream") {
		assert.Equal(t, 2, count(func(_, _ map[string]any, r *result.Run) { r.Flags[flag] = "other" }), flag)
	}
	again := reported(t, line(t, aMode("serial", 50), base), line(t, aMode("serial", 50), base))
	assert.Contains(t, again.Studies[1].Title, "measurement 2 of the same")
	twice := aMode("serial", 50)
	twice["variant"] = 2
	one := aMode("serial", 50)
	one["variant"] = 1
	both := reported(t, line(t, one, base), line(t, twice, base))
	require.Len(t, both.Studies, 1)
	assert.Equal(t, []string{"serial #1", "serial #2"}, both.Studies[0].Modes)
}

// TestOldLines: lines without a cell have their link in the flags.
func TestOldLines(t *testing.T) {
	mode := aMode("local", 0)
	delete(mode, "cell")
	r := reported(t, line(t, mode, aRun("demo")))
	assert.Equal(t, outcome.Cell{RTT: 100, Loss: 0.05, EdgeTPS: 60, CloudMS: 15}, r.Studies[0].Cells[0].Cell)
	assert.Equal(t, "small "+hostile+" asks model fedcba987654, loss 5%, device 60 tokens/s, cloud 15 ms a token",
		r.Studies[0].Title)
	assert.Equal(t, "round trip 100 ms", r.Studies[0].Cells[0].Name())
	assert.Equal(t, "device at full speed, cloud 0 ms a token", studyTitle(&result.Run{}, outcome.Cell{}, 1))
	p := Place{Cell: outcome.Cell{Trace: "x.csv"}}
	assert.Equal(t, "trace x.csv", p.Name())
	p.Cell.RTT = 7
	assert.Equal(t, "round trip 7 ms", p.Name(), "the trace is in the title")
	assert.Equal(t, &outcome.Cell{Trace: "a.up,b.rtt.csv", RTT: 1500, Loss: 0.25, EdgeTPS: 20.5, CloudMS: 2.5,
		Parallel: 3}, cellOfFlags(map[string]string{"trace": "[a.up,b.rtt.csv]", "rtt": "1.5s", "loss": "0.25",
		"edge-tps": "20.5", "cloud-ms": "2.5", "parallel": "3"}))
	const full = "device at full speed, cloud 0 ms a token"
	small, large := &result.Model{Name: "small"}, &result.Model{Hash: "0123456789abcdef"}
	for want, r := range map[string]result.Run{
		"small asks model 0123456789ab": {Model: small, Large: large, Remote: "elsewhere"},
		"small asks elsewhere":          {Model: small, Remote: "elsewhere"},
		"small asks a large model":      {Model: small},
	} {
		assert.Equal(t, want+", trace a.up, loss 2.5%, "+full+", measurement 3 of the same",
			studyTitle(&r, outcome.Cell{Trace: "a.up", Loss: 0.025}, 3))
	}
}

// TestCalls: lines are of one call only if measurement, command, date, version and machine are the same.
func TestCalls(t *testing.T) {
	for name, change := range map[string]func(*result.Run){
		"measurement": func(r *result.Run) { r.Measurement = "eval csqa" },
		"command":     func(r *result.Run) { r.Command += " -n 9" },
		"date":        func(r *result.Run) { r.Date = r.Date.Add(time.Second) },
		"version":     func(r *result.Run) { r.Version = "v2" },
		"machine":     func(r *result.Run) { r.Machine.Cores++ },
		"":            func(r *result.Run) { r.Date = r.Date.In(time.FixedZone("elsewhere", 3600)) },
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
		assert.Len(t, r.Curves, calls, name)
		assert.Len(t, r.Runs, calls, name)
	}
}

// TestOther: figures keep their digits, those that are absent are left out, and a page shows at most 200 of a line.
func TestOther(t *testing.T) {
	fields := map[string]any{"bytes": 12345678901, "none": nil, "of": map[string]any{"a": map[string]any{"b": true}},
		"list": []int{1}, "share": 0.1}
	r := reported(t, line(t, fields, aRun("x")))
	assert.Equal(t, []Field{{"bytes", "12345678901"}, {"list", "1 value"}, {"of.a.b", "true"}, {"share", "0.1"}},
		r.Others[0].Fields)
	many := map[string]any{}
	for i := range maxFields + 1 {
		many[fmt.Sprintf("f%03d", i)] = i
	}
	all := reported(t, line(t, many, aRun("x"))).Others[0].Fields
	require.Len(t, all, 200)
	assert.Equal(t, Field{"f199", "199"}, all[199], "the first by name")
}

// TestColours: modes have different colours; the usual modes always have the same ones.
func TestColours(t *testing.T) {
	for _, names := range [][]string{
		{"serial", "pipelined-8", "local", "pipelined-2", "x", "cloud", "y", "verified"},
		{"a", "b", "c", "d", "e", "f", "g", "h"},
	} {
		s := Study{Modes: names, colours: map[string]int{}}
		s.paint()
		seen := map[int]bool{}
		for _, name := range names {
			c := s.colours[name]
			assert.False(t, seen[c], "%s has the colour of another mode", name)
			assert.True(t, c >= 1 && c <= chart.Colours)
			seen[c] = true
		}
	}
	many := Study{colours: map[string]int{}}
	for i := range 20 {
		many.Modes = append(many.Modes, strings.Repeat("x", i+1))
	}
	many.paint()
	assert.Len(t, many.colours, 20)
	uses := map[int]int{}
	for _, c := range many.colours {
		uses[c]++
	}
	assert.Len(t, uses, chart.Colours)
	for c, n := range uses {
		assert.LessOrEqual(t, n, 2, "colour %d", c)
	}
	s := Study{Modes: []string{"x", "local"}, colours: map[string]int{}}
	s.paint()
	assert.Equal(t, 4, s.colours["local"])
}

// TestMeanTime: the mean is that of the samples and lies in its interval. The interval resamples questions: repetitions
// of one question do not make it narrower.
func TestMeanTime(t *testing.T) {
	m := &Mode{Report: outcome.Report{Time: result.Times{Mean: 7}}}
	assert.Equal(t, 7.0, meanTime(m).Low, "without samples there is no interval")
	m.Samples = []outcome.Sample{{Question: 0, MS: 1}, {Question: 0, MS: 3}}
	assert.Equal(t, 7.0, meanTime(m).High, "nor with a single question")
	for q := range 20 {
		m.Samples = append(m.Samples, outcome.Sample{Question: q + 1, MS: float64(10 + q)})
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

// TestPageIsText: text in the lines does not become markup, the policy allows only the page's own script and style, and
// the page refers to nothing outside.
func TestPageIsText(t *testing.T) {
	r := sample(t)
	page := written(t, r)
	mean := r.Studies[0].Cells[1].Modes[0].Mean
	assert.True(t, strings.HasPrefix(page, "<!doctype html>"))
	assert.False(t, strings.Contains(page, "<img src=x"))
	assert.Equal(t, 1, strings.Count(page, "<script>"))
	assert.Equal(t, 1, strings.Count(page, "</script>"))
	for _, part := range []struct{ name, tag string }{{"script-src", "script"}, {"style-src", "style"}} {
		inside := regexp.MustCompile(`(?s)<` + part.tag + `>(.*?)</` + part.tag + `>`).FindStringSubmatch(page)
		require.NotNil(t, inside)
		assert.True(t, strings.Contains(html.UnescapeString(page), part.name+" '"+digest(inside[1])+"'"), part.name)
	}
	assert.True(t, strings.Contains(page, "default-src 'none'"))
	outside := regexp.MustCompile(`(?i)(https?:)?//[a-z]`).FindAllString(
		strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1)
	assert.Empty(t, outside)
	assert.False(t, strings.Contains(page, " style="))
	for _, want := range []string{
		"<td>29999 of 30000</td>", "<td>75.0%</td>", "<dt>command</dt><dd><code>pilotfish bench routing &lt;/script",
		"<td>900 MiB</td>",
		"<dt>sources</dt><dd>runtime/draft 0123456789ab ", "1.2 (1.1 to 1.3)", "<td>3.1%</td>",
		`<option value="2">round trip 300 ms</option>`,
		"avx2", "8.0 GiB of memory at 21.3 GB/s, load 0.2 in the minute before", "Q8_0, F32", "2026-11-23 07:00:00 UTC",
		"<td>70.0% to 97.0%</td>", "<td>5%</td><td>123</td><td>101 to 150</td>\n<td>below</td>",
		"<td>0%, x</td><td></td><td></td>\n<td>slower at each &lt;/s",
		"<td>ask with 8 new tokens, until its answer</td><td>100 ms, 5% lost, model 15 ms</td><td>299</td><td>1</td>" +
			"<td>5.9</td>",
		"<td>115</td>\n<td>142</td><td>167</td>", "<td>at most 120</td>",
		"<td>64</td><td>7381</td><td>14,738</td><td>43.9</td>",
		"<td>connection resumed with 0-RTT, until its first answer</td><td>100 ms, 5% lost, model 15 ms</td><td>9</td>",
		"<td>serial #2</td><td>local</td><td></td>", "<td>--rtt</td><td>100ms</td>",
		"<td>" + chart.Number(mean.Value) + "</td><td>" + chart.Number(mean.Low) + " to " + chart.Number(mean.High),
	} {
		assert.True(t, strings.Contains(page, want), want)
	}
}

// TestColumns: each figure is in the column of its name.
func TestColumns(t *testing.T) {
	x := func(n float64) *float64 { return &n }
	mode := outcome.Report{Mode: "m", Answers: 2, Accuracy: x(0.03), AccuracyLow: x(0.04), AccuracyHigh: x(0.05),
		EscalatedShare: x(0.06), Time: result.Times{Mean: 7, P50: 8, P90: 9, P99: 10}, Cell: new(outcome.Cell),
		RatioTo: &outcome.Ratio{Value: 11, Low: x(12), High: x(13)}, Bound: x(14), HiddenShare: x(0.18),
		HitRate: x(0.19), Asks: x(20), Timeouts: new(22)}
	mode.FirstToken, mode.Between = &result.Times{P50: 15, P99: 900}, &result.Times{P50: 901, P99: 16}
	mode.Exposed, mode.Wasted, mode.CPU, mode.Joules = x(17), x(21), x(23), x(24)
	even := []outcome.BreakEven{{Mode: "m", With: "w", EdgeTPS: 25, Loss: 0.26, RTT: x(27), Low: x(28), High: x(29),
		Faster: "below"}}
	engine := speed.Report{PromptTokens: 30, PromptTPS: 31, DecodedTokens: 32, GenerationTPS: 33, Share: x(0.34),
		Bound: 35, Bandwidth: 36, LoadMS: 37, FirstTokenMS: 38, PeakRSS: 39 << 20, Threads: 1}
	gateway := wire.GatewayReport{Devices: 40, Rate: 41, ModelMS: 42, Asks: 44, Answers: 43, PerSecond: 45, Errors: 46,
		Latency: result.Latency{P50: 47, P90: 48, P99: 49, P999: 50, Max: 51}, InGateway: result.Latency{P99: 52},
		CPUPerAsk: 53, PerConnection: 54 << 10, PerSession: 55 << 10}
	link := wire.LinkReport{Part: "outage", RTTMS: 56, Loss: 0.57, ModelMS: 58, Outage: &wire.LinkOutage{Outages: 59,
		Lost: 60, Recovery: result.Latency{P50: 61, P90: 62, P99: 63, P999: 64, Max: 65}, Expected: 66, OutageMS: 67}}
	loop := wire.LinkReport{Part: "loopback", Loopback: &wire.LinkLoopback{Abreast: 68, Answers: 69, PerSecond: 70,
		CPUPerAsk: 71}}
	run := eval.RunReport{Policy: "p", Answers: 72, Accuracy: x(0.73), AccuracyLow: x(0.74), AccuracyHigh: x(0.75),
		EscalatedShare: 0.76, Asks: 77}
	page := written(t, reported(t, line(t, mode, aRun("demo")),
		line(t, map[string]any{"break_even": even}, aRun("bench routing")), line(t, engine, aRun("bench engine")),
		line(t, gateway, aRun("bench gateway")), line(t, link, aRun("bench link")), line(t, loop, aRun("bench link")),
		line(t, run, aRun("eval"))))
	cells := regexp.MustCompile(`(?s)<t[hd]>(.*?)</t[hd]>`)
	var rows []string
	for _, row := range regexp.MustCompile(`(?s)<tr[^>]*>(.*?)</tr>`).FindAllStringSubmatch(page, -1) {
		var all []string
		for _, cell := range cells.FindAllStringSubmatch(row[1], -1) {
			all = append(all, cell[1])
		}
		rows = append(rows, strings.Join(all, "|"))
	}
	assert.Subset(t, rows, []string{
		"mode|answers|right|95% interval|from cloud|ms mean|95% interval|p50|p90|p99|over the base|bound|" +
			"first token p50|between tokens p99|exposed|hidden|hits|asks|wasted|timed out|CPU s|joules",
		"m|2|3.0%|4.0% to 5.0%|6.0%|7||8|9|10|11 (12 to 13)|14|15|16|17|18.0%|19.0%|20|21|22|23|24",
		"mode|with|device, tokens/s|loss|round trip, ms|95% interval|the mode is faster",
		"m|w|25|26%|27|28 to 29|below",
		"model|prompt|tokens/s|generated|tokens/s|of the bound|bound, tokens/s|memory, GB/s|load, ms|first token, ms|" +
			"peak memory",
		html.EscapeString("small "+hostile) + ", 1 thread|30|31|32|33|34.0%|35|36|37|38|39 MiB",
		"devices|asks/s of each|model, ms|answered|answers/s|failed|ms p50|p90|p99|p99.9|most|in gateway p99|" +
			"CPU, µs an ask|memory a device|a session",
		"40|41|42|43 of 44|45|46|47|48|49|50|51|52|53|54 KiB|55 KiB",
		"timed|round trip|times|failed|ms p50|p90|p99|p99.9|most|predicted|bytes up|down",
		"end of an outage of 67 ms, until an answer|56 ms, 57% lost, model 58 ms|59|60|61|62|63|64|65|at most 66||",
		"asks under way|answers|asks/s|CPU, µs an ask", "68|69|70|71",
		"run|answers|right|95% interval|from cloud|asks", "p|72|73.0%|74.0% to 75.0%|76%|77",
	})
}

// TestPictures: each picture is complete and has its own file.
func TestPictures(t *testing.T) {
	r := sample(t)
	dir := filepath.Join(held.TempDir(t), "new", "figures")
	names, err := r.WriteSVG(dir)
	require.NoError(t, err)
	assert.Len(t, names, 1+3*(3+4)+1+1+1,
		"over round trips; in each cell times, waits, bytes, answers; engine; link; accuracy")
	assert.Subset(t, names, []string{"study1-time-over-rtt.svg", "study1-cell2-waits.svg", "engine.svg", "link.svg"})
	for _, name := range names {
		assert.Regexp(t, `^[A-Za-z0-9._-]+\.svg$`, name)
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		d := xml.NewDecoder(bytes.NewReader(b))
		for err = error(nil); err == nil; _, err = d.Token() {
		}
		assert.ErrorIs(t, err, io.EOF, name)
		assert.NotContains(t, string(b), "NaN")
	}
	file := filepath.Join(held.TempDir(t), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = r.WriteSVG(file)
	assert.Error(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, names[2])))
	require.NoError(t, os.Mkdir(filepath.Join(dir, names[2]), 0o700))
	written, err := r.WriteSVG(dir)
	assert.ErrorContains(t, err, names[2])
	assert.Equal(t, names[:2], written)
	assert.Equal(t, "a_b_c-AZ09.svg", fileName("a/b c-AZ09.svg"))
	assert.Len(t, fileName(strings.Repeat("a", 99)), 80)
}

// TestPictureNames: no two pictures have the same name, also if their modes have the same letters in file names.
func TestPictureNames(t *testing.T) {
	r := reported(t, line(t, aMode("a b", 0), aRun("demo")), line(t, aMode("a/b", 0), aRun("demo")),
		line(t, aMode("a\\b", 0), aRun("demo")))
	names := map[string]bool{}
	for _, d := range r.Pictures() {
		assert.False(t, names[d.Name], d.Name)
		names[d.Name] = true
	}
	assert.Len(t, names, 3+3, "times, waits, bytes, and an answer of each mode")
}

// TestOverRTT: each mode is a line through its cells, with the intervals of its samples. Cells of traces are left out.
func TestOverRTT(t *testing.T) {
	place := func(rtt float64, trace string) *Place {
		mode := func(name string, x float64) *Mode {
			return &Mode{Label: name, Mean: stats.Interval{Value: x, Low: x - 1, High: x + 2}}
		}
		return &Place{Cell: outcome.Cell{RTT: rtt, Trace: trace}, Modes: []*Mode{mode("cloud", rtt), mode("a", 7)}}
	}
	s := Study{Modes: []string{"local", "cloud", "a"}, colours: map[string]int{"local": 4, "cloud": 2, "a": 1},
		Cells: []*Place{place(0, ""), place(9, "x"), place(300, ""), place(50, "")}}
	assert.Equal(t, chart.Chart{
		Title: "Time per answer over round trips",
		X:     chart.Axis{Label: "round trip, ms", Scale: chart.Linear, End: 300},
		Y:     chart.Axis{Label: "mean time per answer, ms", Scale: chart.Linear, End: 302},
		Lines: []chart.Line{
			{Name: "local", Dots: true, Dashed: true, Colour: 4},
			{Name: "cloud", Dots: true, Dashed: true, Colour: 2, X: []float64{0, 300, 50}, Y: []float64{0, 300, 50},
				Low: []float64{-1, 299, 49}, High: []float64{2, 302, 52}},
			{Name: "a", Dots: true, Colour: 1, X: []float64{0, 300, 50}, Y: []float64{7, 7, 7},
				Low: []float64{6, 6, 6}, High: []float64{9, 9, 9}},
		},
	}, s.overRTT())
	s.Cells = s.Cells[:1]
	assert.Nil(t, s.overRTT(), "one round trip gives no line")
}

// TestTimes: each mode is a bar in its colour, with its interval.
func TestTimes(t *testing.T) {
	p := &Place{Cell: outcome.Cell{RTT: 50}, Modes: []*Mode{
		{Label: "a", Colour: 3, Mean: stats.Interval{Value: 1500, Low: 4, High: 1700}},
		{Label: "b", Colour: 1, Mean: stats.Interval{Value: 8, Low: 7, High: 9}},
	}}
	assert.Equal(t, chart.Spans{
		Title: "Time per answer, round trip 50 ms",
		X:     chart.Axis{Label: "mean time per answer, ms", Scale: chart.Linear, End: 1700},
		Rows: []chart.Row{
			{Name: "a", Low: 4, High: 1700, Text: "1,500", Spans: []chart.Span{{To: 1500, Colour: 2, Text: "a"}}},
			{Name: "b", Low: 7, High: 9, Text: "8", Spans: []chart.Span{{To: 8, Text: "b"}}},
		},
	}, p.times())
}

// TestPaths: a measured time and the predicted one are neighbours.
func TestPaths(t *testing.T) {
	link := map[string]any{"part": "outage", "rtt_ms": 30, "outage": map[string]any{"outage_ms": 1000,
		"recovery_ms": map[string]any{"p50": 20, "p99": 40}, "expected_most_ms": 35}}
	assert.Equal(t, chart.Spans{
		Title: "Times over the link and what arithmetic says",
		X:     chart.Axis{Label: "ms", Scale: chart.Linear, End: 40},
		Kinds: []chart.Kind{{Name: "measured, median"}, {Name: "predicted", Colour: 1}},
		Rows: []chart.Row{
			{Name: "after an outage", Text: "20", Low: 20, High: 40,
				Spans: []chart.Span{{To: 20, Text: "30 ms: median"}}},
			{Name: "predicted", Text: "at most 35", Spans: []chart.Span{{To: 35, Colour: 1, Text: "30 ms: predicted"}}},
		},
	}, paths(reported(t, line(t, link, aRun("bench link"))).Paths))
	assert.Nil(t, paths(nil))
}

// TestPathsOfLink: each time of bench link has its own figures and its own prediction.
func TestPathsOfLink(t *testing.T) {
	l := func(x float64) map[string]any {
		return map[string]any{"p50": x, "p90": x + 1, "p99": x + 2, "p999": x + 3, "max": x + 4}
	}
	of := func(x float64) result.Latency {
		return result.Latency{P50: x, P90: x + 1, P99: x + 2, P999: x + 3, Max: x + 4}
	}
	part := func(name string, fields map[string]any) []byte {
		return line(t, map[string]any{"part": name, "rtt_ms": 30, name: fields}, aRun("bench link"))
	}
	r := reported(t, part("asks", map[string]any{"tokens": 1, "answers": 8, "errors": 2, "latency_ms": l(10),
		"late_ms": l(90), "wire_bytes_up_per_ask": 70, "wire_bytes_down_per_ask": 60,
		"payload_bytes_up_per_ask": 50, "payload_bytes_down_per_ask": 40}),
		part("connect", map[string]any{"connections": 5, "early": 4, "connected_ms": l(20), "first_answer_ms": l(30),
			"resumed_ms": l(40), "expected_connected_ms": 21, "expected_first_ms": 31, "expected_resumed_ms": 41}),
		part("outage", map[string]any{"outages": 3, "outage_ms": 1000, "recovery_ms": l(50), "asks_lost": 7,
			"expected_most_ms": 51}))
	assert.Equal(t, []Path{
		{"30 ms", "ask with 1 new token, until its answer", "ask, 1 new token", 8, 2, of(10), "0", 0, new(70.0),
			new(60.0)},
		{"30 ms", "new connection, until it is there", "connected", 5, 0, of(20), "21", 21, nil, nil},
		{"30 ms", "new connection, until its first answer", "first answer", 5, 0, of(30), "31", 31, nil, nil},
		{"30 ms", "connection resumed with 0-RTT, until its first answer", "first with 0-RTT", 4, 0, of(40), "41", 41,
			nil, nil},
		{"30 ms", "end of an outage of 1,000 ms, until an answer", "after an outage", 3, 7, of(50), "at most 51", 51,
			nil, nil},
	}, r.Paths)
}

// TestEngines: the whiskers of a bar are the slowest and the fastest sample; a speed of 0 has no bar.
func TestEngines(t *testing.T) {
	e := map[string]any{"generation_tps": 30, "threads": 2, "samples": []map[string]any{
		{"generation_tps": 31, "prompt_tps": 71}, {"generation_tps": 28, "prompt_tps": 78},
		{"generation_tps": 29, "prompt_tps": 69}}}
	run := aRun("bench engine")
	run.Model = nil
	assert.Equal(t, chart.Spans{
		Title: "Speed of the engine", X: chart.Axis{Label: "tokens per second", Scale: chart.Linear, End: 31},
		Kinds: []chart.Kind{{Name: "generation"}, {Name: "prompt", Colour: 1}},
		Rows: []chart.Row{{Name: "a model, 2 threads", Text: "30", Low: 28, High: 31,
			Spans: []chart.Span{{To: 30, Text: "generation"}}}},
	}, engines(reported(t, line(t, e, run)).Engines))
	e["prompt_tps"], e["threads"], run.Model = 70, 1, &result.Model{Hash: "0123456789abcdef"}
	both := engines(reported(t, line(t, e, run)).Engines).(chart.Spans)
	assert.Equal(t, 78., both.X.End)
	assert.Equal(t, chart.Row{Name: "model 0123456789ab, 1 thread", Text: "70", Low: 69, High: 78,
		Spans: []chart.Span{{To: 70, Colour: 1, Text: "prompt"}}}, both.Rows[1])
	assert.Nil(t, engines(nil))
	for want, r := range map[string]speed.Report{"": {}, "62.5%": {Share: new(0.625)},
		"fits in the cache": {FitsCache: true, Share: new(0.5)}} {
		assert.Equal(t, want, (&Engine{Report: r}).OfBound())
	}
}

// TestWaits: the bins of the histogram have the right ends and add up to 1.
func TestWaits(t *testing.T) {
	waits := []float64{0, 0.99, 1, 1.7, 1.8, 10, 99, 100, 1000, 5e6}
	samples := []outcome.Sample{{Waits: waits[:4]}, {Waits: waits[4:]}}
	p := &Place{Modes: []*Mode{{Label: "a", Report: outcome.Report{Samples: samples}}, {Label: "none"}}}
	c := p.waits().(chart.Chart)
	require.Len(t, c.Lines, 1)
	l := c.Lines[0]
	sum, shares := 0.0, map[float64]float64{}
	for i := 0; i < len(l.X); i += 2 {
		assert.Equal(t, l.Y[i], l.Y[i+1], "flat")
		sum += l.Y[i]
		shares[l.X[i]] = l.Y[i]
	}
	assert.InDelta(t, 1, sum, 1e-9)
	assert.Equal(t, 0.2, shares[0.5], "no wait")
	assert.Equal(t, 0.2, shares[1], "1 and 1.7: below the fourth root of ten")
	assert.InDelta(t, longestWait, c.X.End, 1e-3)
	assert.Equal(t, chart.Axis{Label: "exposed wait, ms (below 1: none)", Scale: chart.Log, Start: 0.5, End: c.X.End},
		c.X)
	assert.Equal(t, chart.Axis{Label: "answers of the large model, %"}, c.Y)
	assert.Equal(t, 0.1, l.Y[len(l.Y)-1], "longer waits are in the last bin")
	assert.Nil(t, (&Place{Modes: []*Mode{{Label: "a"}}}).waits())
}

func TestBytes(t *testing.T) {
	m := &Mode{Label: "a", Report: outcome.Report{Samples: []outcome.Sample{{Up: 10, Down: 4}, {Up: 30, Down: 0}}}}
	p := Place{Cell: outcome.Cell{RTT: 5}, Modes: []*Mode{m, {Label: "local"}}} // the small model alone sends nothing
	assert.Equal(t, chart.Spans{
		Title: "Payload each way, round trip 5 ms",
		X:     chart.Axis{Label: "bytes per answer", Scale: chart.Linear, End: 22},
		Kinds: []chart.Kind{{Name: "up"}, {Name: "down", Colour: 1}},
		Rows: []chart.Row{{Name: "a", Text: "20 + 2", Spans: []chart.Span{{To: 20, Text: "20 bytes up"},
			{From: 20, To: 22, Colour: 1, Text: "2 bytes down"}}}},
	}, p.bytes())
	assert.Nil(t, (&Place{Modes: []*Mode{{Label: "local"}}}).bytes())
}

// TestWaterfall: spans are in the rows and colours of their kinds, each ask in its own row.
func TestWaterfall(t *testing.T) {
	m := sample(t).Studies[0].Cells[2].Modes[1]
	s := m.waterfall().(chart.Spans)
	var names []string
	for _, r := range s.Rows {
		names = append(names, r.Name)
	}
	assert.Equal(t, []string{"small model", "waiting", "rolled back", "ask, position 31", "text shown"}, names)
	var colours [][]int
	for _, r := range s.Rows {
		var row []int
		for _, one := range r.Spans {
			row = append(row, one.Colour)
		}
		colours = append(colours, row)
	}
	assert.Equal(t, [][]int{{drawPrompt, drawStep, drawBranches}, {drawVain}, {drawVain, drawVain}, {drawHit},
		{drawCloud, drawEdge}}, colours)
	assert.Equal(t, "step, 57 to 74 ms, position 31, 4 tokens on 4 branches", s.Rows[0].Spans[2].Text)
	assert.Equal(t, "ask, 57 to 357 ms, position 31, hit", s.Rows[3].Spans[0].Text)
	assert.Equal(t, "One answer, serial", s.Title)
	assert.Equal(t, chart.Axis{Label: "ms since the answer began", Scale: chart.Linear, End: 359}, s.X)
	assert.Equal(t, 57.0, s.Rows[3].Spans[0].From)
	assert.Equal(t, 357.0, s.Rows[3].Spans[0].To)
	keys := map[int]string{}
	for _, k := range s.Kinds {
		keys[k.Colour] = k.Name
	}
	assert.Equal(t, map[int]string{drawPrompt: "prompt", drawStep: "step", drawBranches: "step on branches",
		drawHit: "ask, guessed", drawMiss: "ask, not guessed", drawVain: "in vain", drawCloud: "shown, the cloud's",
		drawEdge: "shown, the device's"}, keys)
	for outcome, want := range map[string]int{"hit": drawHit, "miss": drawMiss, "known": drawMiss, "late": drawVain,
		"dropped": drawVain} {
		assert.Equal(t, want, askKind(outcome), outcome)
	}
	m.Waterfall = nil
	for i := range 40 {
		m.Waterfall = append(m.Waterfall, result.Span{Start: float64(40 - i), End: float64(90 - i),
			Kind: result.SpanAsk, Pos: i, Outcome: "hit"})
	}
	s = m.waterfall().(chart.Spans)
	assert.Len(t, s.Rows, 26)
	assert.Equal(t, 90.0, s.X.End)
	assert.Equal(t, "16 more asks", s.Rows[24].Name)
	assert.Equal(t, "ask, position 39", s.Rows[0].Name, "in order of their start")
	m.Waterfall = nil
	assert.Nil(t, m.waterfall())
}

// TestAccuracy: policies are lines over shares; the large model alone is a level.
func TestAccuracy(t *testing.T) {
	curves := sample(t).Curves[0]
	slices.Reverse(curves.Runs)
	order := slices.Clone(curves.Runs)
	c := curves.picture().(chart.Chart)
	assert.Equal(t, order, curves.Runs, "the table keeps its order")
	var names []string
	for _, l := range c.Lines {
		names = append(names, l.Name)
	}
	assert.Equal(t, []string{"never", "margin", hostile, "always"}, names)
	assert.Equal(t, []float64{0.0625, 0.25}, c.Lines[1].X)
	assert.Equal(t, []float64{0.525, 0.65}, c.Lines[1].Y)
	assert.Equal(t, [][]float64{{0.425, 0.55}, {0.625, 0.75}}, [][]float64{c.Lines[1].Low, c.Lines[1].High})
	for _, l := range c.Lines {
		assert.Equal(t, []bool{l.Name != "always", l.Name == "always"}, []bool{l.Dots, l.Dashed}, l.Name)
	}
	assert.Equal(t, []float64{0, 1}, c.Lines[3].X)
	assert.Equal(t, "Accuracy against the share of tokens from the large model", c.Title)
	assert.Equal(t, "tokens from the large model, %", c.X.Label)
	assert.Equal(t, chart.Axis{Label: "accuracy, %"}, c.Y)
	assert.InDelta(t, 0.6, c.X.End, 1e-9, "just above the max share, without the large model alone")
	assert.Nil(t, (&Curves{Runs: []Accuracy{{eval.RunReport{Policy: "x"}}}}).picture())
	run := Accuracy{eval.RunReport{Policy: "x", Threshold: new(0.5), Budget: new(0.07), Verify: new(1.5)}}
	assert.Equal(t, "x 0.5 7.0% verified 1.5", run.Name())
}

// FuzzNew: any lines give a page, or an error that names the line.
func FuzzNew(f *testing.F) {
	var t testing.T
	for _, l := range lines(&t) {
		f.Add(l)
	}
	f.Add([]byte(`{"mode":"x","samples":[{"ms":1e308},{"ms":-1e308,"question":-5,"waits_ms":[1e308,-1]}],` +
		`"cell":{"rtt_ms":-1e308},` +
		`"waterfall":[{"start_ms":9,"end_ms":-1e308,"kind":"step"}],"run":{"measurement":"demo"}}`))
	f.Add([]byte(`{"generation_tps":1,"threads":-1,"samples":[{}],` +
		`"run":{"measurement":"bench engine","model":{"hash":""}}}`))
	f.Add([]byte(`{"part":"asks","asks":{"tokens":1},"run":{"measurement":"bench link"}}`))
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
		`{"generation_tps":1,"threads":"two","run":{"measurement":"bench engine"}}`,
		`{"rate":1,"latency_ms":7,"run":{"measurement":"bench gateway"}}`,
		`{"part":"asks","rtt_ms":"far","run":{"measurement":"bench link"}}`,
		`{"policy":"never","accuracy":"high","run":{"measurement":"eval"}}`,
		`{"mode":"local","samples":{},"run":{"measurement":"bench routing"}}`,
	} {
		all, err := result.Read(strings.NewReader(text), "lines")
		require.NoError(t, err)
		_, err = New(all)
		assert.ErrorContains(t, err, "lines:1: ", text)
		var wrong *json.UnmarshalTypeError
		assert.True(t, errors.As(err, &wrong))
	}
}
