package outcome

import (
	"encoding/json"
	"maps"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// scripted returns answers with figures that can be computed by hand: five questions, four with a right answer.
func scripted() []Answer {
	one := func(ms int, known, correct bool, of draft.Summary) Answer {
		return Answer{Known: known, Correct: correct, Took: time.Duration(ms) * time.Millisecond, Figures: of}
	}
	all := []Answer{
		one(500, true, true, draft.Summary{Tokens: 5, Cloud: 1, Asks: 2, Answered: 1, Hits: 1, Wait: 100, Hidden: 90,
			BytesUp: 10, BytesDown: 4, Exposed: 3 * time.Millisecond, Passes: 6, Wasted: 5}),
		one(100, true, false, draft.Summary{Tokens: 7, Cloud: 2, Asks: 3, Answered: 2, Hits: 1, Wait: 100, Hidden: 10,
			BytesUp: 20, BytesDown: 5, Unverified: 3}),
		one(300, true, true, draft.Summary{Tokens: 9, Timeouts: 2, Asks: 1}),
		one(200, false, false, draft.Summary{Tokens: 2, Passes: 1}),
		one(900, true, true, draft.Summary{Tokens: 2, Cloud: 1, Asks: 1, Answered: 1, Wait: 200, BytesUp: 30,
			BytesDown: 3, Wasted: 2}),
	}
	all[0].CPU = 10 * time.Second
	return all
}

// TestReportByHand: sums, times, accuracy, and each rate of each kind of mode, computed by hand from the scripted
// answers.
func TestReportByHand(t *testing.T) {
	type rates = map[string]float64
	alone := rates{"cpu_seconds": 2}
	local := rates{"cpu_seconds": 2, "passes": 7.0 / 5}
	serial := maps.Clone(local)
	maps.Copy(serial, rates{"escalated_share": 4.0 / 25, "asks": 7.0 / 5, "wasted": 7.0 / 5,
		"exposed_ms": 3.0 / 5, "bytes_up": 60.0 / 4, "bytes_down": 12.0 / 4})
	pipelined := maps.Clone(serial)
	maps.Copy(pipelined, rates{"hit_rate": 2.0 / 4, "hidden_share": 100.0 / 400})
	for name, want := range map[string]rates{
		"local": local, "cloud": alone, "paper": serial, "serial": serial, "pipelined-1": pipelined,
		"pipelined-64": pipelined, "verified": pipelined, "verified:2": pipelined, "judged:0.5": pipelined,
		"speculative-4": serial, "overlapped-4": pipelined,
	} {
		r := newReport(modes(t, name)[0], scripted())
		assertTimes(t, result.Times{Mean: 400, P50: 300, P90: 900, P99: 900}, r.Time)
		assert.Equal(t, stats.NewAccuracy(3, 4), r.Accuracy)
		assert.Equal(t, draft.Summary{Tokens: 25, Cloud: 4, Timeouts: 2, Asks: 7, Answered: 4, Hits: 2, Wait: 400,
			Hidden: 100, BytesUp: 60, BytesDown: 12, Exposed: 3 * time.Millisecond, Passes: 7, Wasted: 7,
			Unverified: 3}, r.Sums)
		assert.Equal(t, want, r.Rates(), name)
	}
	answers := scripted()
	answers[0].IDs = []int32{1, 2, 3, 4} // and an end token
	r := Reports(modes(t, "serial,pipelined-1"), [][]Answer{answers, answers}, ReportOptions{})[1]
	b, err := json.Marshal(r)
	require.NoError(t, err)
	for _, part := range []string{`"mode":"pipelined-1"`, `"answers":5`, `"accuracy":0.75`, `"accuracy_low":`,
		`"accuracy_high":`, `"time_per_answer_ms":{"mean":400,"p50":`, `"tokens_per_answer":0.8`,
		`"escalated_share":0.16`, `"escalations_per_answer":0`, `"asks_per_answer":1.4`, `"hidden_share":0.25`,
		`"hit_rate":0.5`, `"bytes_up_per_escalation":15`, `"bytes_down_per_escalation":3`, `"equal_to_serial":true`} {
		assert.Contains(t, string(b), part, "other programs read it")
	}
	all := scripted()
	for i := range all {
		all[i].Known, all[i].Correct = false, false
	}
	r = newReport(modes(t, "local")[0], all)
	assert.Nil(t, r.Accuracy, "without right answers")
	ten := make([]Answer, 10)
	for i := range ten {
		ten[i].Took = time.Duration(10-i) * time.Second
	}
	assertTimes(t, result.Times{Mean: 5500, P50: 5000, P90: 9000, P99: 10_000},
		newReport(modes(t, "cloud")[0], ten).Time)
}

// assertTimes compares the mean exactly, and percentiles with the precision of a histogram.
func assertTimes(t *testing.T, want, got result.Times) {
	t.Helper()
	assert.InDelta(t, want.Mean, got.Mean, 1e-9, "mean")
	assert.InEpsilon(t, want.P50, got.P50, 0.001, "P50")
	assert.InEpsilon(t, want.P90, got.P90, 0.001, "P90")
	assert.InEpsilon(t, want.P99, got.P99, 0.001, "P99")
}

// TestReports: each mode has the cell, and its own comparison, bound, variant and picture.
func TestReports(t *testing.T) {
	all := modes(t, "local", "serial", "verified", "serial")
	var answers [][]Answer
	for i := range all {
		one := Answer{IDs: []int32{1, 2}, Took: time.Duration(i+1) * time.Second,
			Figures: draft.Summary{Tokens: 3, Passes: 3, Prefilled: 10, Decoded: 2}}
		one.spans = waterfall{{Kind: result.SpanAsk, Outcome: strconv.Itoa(i)}}
		answers = append(answers, []Answer{one})
	}
	got := Reports(all, answers, ReportOptions{
		Cell:    &Cell{Trace: "5g"},
		Alone:   []Answer{{IDs: []int32{1, 3}}},
		Verdict: 200 * time.Millisecond,
	})
	require.Len(t, got, 4)
	for i, r := range got {
		assert.Equal(t, all[i].Name, r.Mode)
		assert.Equal(t, "5g", r.Cell.Trace)
		assert.Equal(t, []int{0, 1, 0, 2}[i], r.Variant)
		assert.Equal(t, strconv.Itoa(i), r.Waterfall[0].Outcome)
		assert.Equal(t, i > 0, r.Differing != nil)
	}
	assert.Equal(t, 1, *got[2].Differing)
	assert.InDelta(t, 1000+200, *got[2].Bound, 1e-9, "three calls of the small model, and the verdict")
}

// TestRouterOfMode: with a budget each router has a balance of its own, whatever the options have.
func TestRouterOfMode(t *testing.T) {
	shared := new(router.Balance)
	o := router.Options{Policy: router.Margin, Budget: 0.1, Balance: shared}
	for _, name := range []string{"serial", "verified"} {
		r, err := modes(t, name)[0].Router(o)
		require.NoError(t, err)
		r.Add(router.Answer{Tokens: 10, Escalations: 1})
		assert.Equal(t, int64(10), int64(r.Balance().Total().Tokens), "of a new one")
	}
	assert.Zero(t, shared.Total())
}

// comparedBy compares the answers of modes.
func comparedBy(t *testing.T, names []string, answers map[string][]Answer) []Report {
	var reports []Report
	var all [][]Answer
	for _, n := range names {
		reports, all = append(reports, Report{Mode: n}), append(all, answers[n])
	}
	compareAnswers(reports, modes(t, names...), all, nil)
	return reports
}

// TestCompared: the modes over our protocol are compared with serial by tokens and origins. Other modes are not, and
// without serial no mode is.
func TestCompared(t *testing.T) {
	names := []string{"local", "paper", "pipelined-1", "serial", "pipelined-2", "pipelined-3"}
	same := []Answer{{IDs: []int32{1, 2}, Origins: []string{"edge", "cloud"}},
		{IDs: []int32{3}, Origins: []string{"edge"}}, {}}
	clone := func(edit func([]Answer)) []Answer {
		all := append([]Answer{}, same...)
		edit(all)
		return all
	}
	answers := map[string][]Answer{
		"local": clone(func([]Answer) {}), "paper": clone(func([]Answer) {}), "serial": same,
		"pipelined-1": clone(func([]Answer) {}),
		"pipelined-2": clone(func(a []Answer) { a[1].IDs = []int32{4}; a[2].IDs = []int32{1} }),
		"pipelined-3": clone(func(a []Answer) {
			a[0].Origins = []string{"edge", "edge-timeout"}
			a[1].Took = time.Second
		}),
	}
	of := func(names ...string) map[string]*int {
		differing := map[string]*int{}
		for _, r := range comparedBy(t, names, answers) {
			differing[r.Mode] = r.Differing
		}
		return differing
	}
	assert.Equal(t, map[string]*int{
		"local": nil, "paper": nil, "serial": new(0), "pipelined-1": new(0), "pipelined-2": new(2),
		"pipelined-3": new(1),
	}, of(names...))
	assert.Equal(t, map[string]*int{"local": nil, "pipelined-2": nil}, of("local", "pipelined-2"))
}

// TestComparedWithCloud: modes that must give the large model's text are compared with it, token for token. With a
// margin, without verification or without this text there is no comparison.
func TestComparedWithCloud(t *testing.T) {
	says := []Answer{{IDs: []int32{1, 2}}, {IDs: []int32{3}}, {}}
	other := []Answer{{IDs: []int32{1, 2}, Origins: []string{"edge", "cloud"}}, {IDs: []int32{4}}, {IDs: []int32{1}}}
	same := []Answer{{IDs: []int32{1, 2}, Origins: []string{"edge", "cloud"}}, {IDs: []int32{3}}, {}}
	answers := map[string][]Answer{
		"serial": other, "pipelined-1": same, "verified": same, "verified:0": other, "verified:0.5": other,
		"speculative-4": same, "overlapped-4": other, "cloud": says,
	}
	names := []string{"cloud", "serial", "pipelined-1", "verified", "verified:0", "verified:0.5", "speculative-4",
		"overlapped-4"}
	want := map[string]int{"serial": 0, "pipelined-1": 2, "verified": 0, "verified:0": 2, "speculative-4": 0,
		"overlapped-4": 2}
	for _, r := range comparedBy(t, names, answers) {
		n, compares := want[r.Mode]
		require.Equal(t, compares, r.Differing != nil, r.Mode)
		if compares {
			assert.Equal(t, n, *r.Differing, r.Mode)
		}
	}
	for _, r := range comparedBy(t, names[1:], answers) {
		assert.Equal(t, r.Mode == "serial" || r.Mode == "pipelined-1", r.Differing != nil, r.Mode)
	}
}

// TestComparedWithReference: without a mode with only the large model, answers are compared with its reference answers
// by question.
func TestComparedWithReference(t *testing.T) {
	alone := []Answer{{IDs: []int32{1}}, {IDs: []int32{2}}}
	got := []Answer{{IDs: []int32{1}}, {IDs: []int32{1}}, {IDs: []int32{2}, Question: 1},
		{IDs: []int32{9}, Question: 1}}
	reports := []Report{{Mode: "verified"}}
	compareAnswers(reports, modes(t, "verified"), [][]Answer{got}, alone)
	assert.Equal(t, 1, *reports[0].Differing)
	reports = make([]Report, 2)
	compareAnswers(reports, modes(t, "verified", "cloud"), [][]Answer{alone, alone}, []Answer{{}, {}})
	assert.Zero(t, *reports[0].Differing, "the measured answers come first")
}

// TestTraceNames: folders are left out.
func TestTraceNames(t *testing.T) {
	assert.Equal(t, "a.csv+b.up", TraceNames([]string{filepath.Join("x", "y", "a.csv"), "b.up"}))
	assert.Empty(t, TraceNames(nil))
}

// modes parses a list.
func modes(t *testing.T, names ...string) []Mode {
	t.Helper()
	all, err := ParseModes(strings.Join(names, ","))
	require.NoError(t, err)
	return all
}

// modeParts are the parts that a mode uses.
type modeParts struct {
	small, large, routes, asks, link, pipelined, lookup, verifies, ahead, serial, cloud bool
}

// modeCase has the parts of a mode, and how it decodes.
type modeCase struct {
	modeParts
	branches int
	margin   float64
	every    int
	judge    string
}

func modeCases() map[string]modeCase {
	judged := modeParts{small: true, large: true, asks: true, link: true, pipelined: true, lookup: true,
		verifies: true, ahead: true}
	near := judged // to the large model's text, by a margin
	near.routes = true
	verified, pipelined := near, near
	verified.cloud = true
	pipelined.verifies, pipelined.serial = false, true
	serial := pipelined
	serial.pipelined = false
	speculative := modeParts{small: true, large: true, asks: true, link: true, lookup: true, verifies: true,
		cloud: true}
	overlapped := speculative
	overlapped.pipelined = true
	return map[string]modeCase{
		"local":          {modeParts: modeParts{small: true, lookup: true}, branches: 9},
		"cloud":          {modeParts: modeParts{large: true}, branches: 9},
		"paper":          {modeParts: modeParts{small: true, large: true, routes: true, asks: true}, branches: 9},
		"serial":         {modeParts: serial, branches: 9},
		"pipelined-1":    {modeParts: pipelined, branches: 1},
		"pipelined-64":   {modeParts: pipelined, branches: 64},
		"pipelined-auto": {modeParts: pipelined, branches: draft.AutoBranches},
		"verified":       {modeParts: verified, branches: 9, every: 11},
		"verified:0":     {modeParts: verified, branches: 9, every: 11},
		"verified:.25":   {modeParts: near, branches: 9, margin: 0.25, every: 11},
		"judged:1":       {modeParts: judged, branches: 9, every: 11, judge: "j"},
		"judged:0.25":    {modeParts: judged, branches: 9, margin: math.Log(4), every: 11, judge: "j"},
		"speculative-4":  {modeParts: speculative, branches: 9, every: 4},
		"overlapped-64":  {modeParts: overlapped, branches: 1, every: 64},
	}
}

func TestModes(t *testing.T) {
	shared := draft.Options{Branches: 9, Window: 5, InFlight: 6, Deadline: 7, Audit: true, Ahead: 8, VerifyEvery: 11,
		Judge: "j"}
	for name, c := range modeCases() {
		t.Run(name, func(t *testing.T) {
			m, err := ParseMode(name)
			require.NoError(t, err)
			assert.Equal(t, name, m.Name)
			assert.Equal(t, c.modeParts, modeParts{m.Kind != Cloud, m.LargeModel(), m.Routes(), m.Asks(), m.OverLink(),
				m.Pipelined(), c.lookup, m.Verifies(), c.ahead, m.Kind == Routed, m.AsCloud()})
			want := shared
			want.Branches, want.Verify, want.Margin, want.VerifyEvery = c.branches, c.verifies, c.margin, c.every
			want.Judge = c.judge
			if want.Mode = draft.Serial; c.pipelined {
				want.Mode = draft.Pipelined
			}
			if !c.lookup {
				want.Lookup = -1
			}
			if !c.ahead {
				want.Ahead = 0
			}
			assert.Equal(t, want, m.Draft(shared))
			r, err := m.Router(router.Options{Policy: router.Always})
			require.NoError(t, err)
			assert.Equal(t, c.asks, r != nil, "a device has a router if it asks")
			if r != nil {
				_, escalates, _ := r.Decide(0, 0,
					&backend.Output{Top: []backend.Candidate{{ID: 1, Logit: 2}, {ID: 2, Logit: 1}}})
				assert.Equal(t, c.routes, escalates, "speculative decoding has no router")
			}
		})
	}
	r, err := Mode{Kind: Reference}.Router(router.Options{Policy: router.Always})
	assert.NoError(t, err)
	assert.Nil(t, r)
}

func TestModesRefused(t *testing.T) {
	for _, name := range []string{"", "verified:", "verified:-1", "verified:-0", "verified:NaN", "verified:Inf",
		"judged:0", "judged:1.5", "judged:NaN", "judged:", "verified:1e3", "verified:0x1",
		"verified:1e400", "verified:1.2.3", "verified-2", "speculative",
		"speculative-0", "speculative-65", "overlapped-0", "overlapped--1", "overlapped-x",
		"pipelined-0", "pipelined-65"} {
		_, err := ParseMode(name)
		assert.ErrorContains(t, err, strconv.Quote(name), name)
	}
	_, err := ParseModes("serial,x")
	assert.ErrorContains(t, err, `"x" is not a mode`)
}
