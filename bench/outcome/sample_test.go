package outcome

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestSampleOfAnAnswer: every figure of an answer is in its sample, and in the JSON of the sample and of the sums.
func TestSampleOfAnAnswer(t *testing.T) {
	const ms = time.Millisecond
	a := Answer{
		IDs: []int32{5, 6, 7}, Origins: []string{"edge", "cloud", "edge-timeout"}, Known: true, Correct: true,
		Took: 250 * ms, Shown: []time.Duration{40 * ms, 40 * ms, 100 * ms}, CPU: 30 * ms, Question: 4, Repetition: 2,
	}
	figures, names := reflect.ValueOf(&a.Figures).Elem(), map[string]float64{}
	for i := range figures.NumField() {
		name, _, _ := strings.Cut(figures.Type().Field(i).Tag.Get("json"), ",")
		if !figures.Field(i).CanInt() {
			continue
		}
		require.NotContains(t, []string{"", "-"}, name, "a figure without a name")
		figures.Field(i).SetInt(int64(i+1) * int64(ms))
		names[name] = float64(figures.Field(i).Int())
		if strings.HasSuffix(name, "_ms") {
			names[name] = float64(i + 1)
		}
	}
	assert.Equal(t, Sample{Question: 4, Repetition: 2, Took: 250 * ms, FirstToken: 40 * ms, Right: new(true),
		CPU: 30 * ms, Text: a.hashTokens(), Summary: a.Figures}, a.toSample())
	r := newReport(modes(t, "serial")[0], []Answer{a})
	b, err := record.Marshal(r)
	require.NoError(t, err)
	var back Report
	require.NoError(t, record.Unmarshal(b, &back))
	assert.Equal(t, r, back)
	var line struct {
		Sums    map[string]any
		Samples []map[string]any
	}
	require.NoError(t, json.Unmarshal(b, &line))
	for name, want := range names {
		assert.Equal(t, want, line.Sums[name], name)
		assert.Equal(t, want, line.Samples[0][name], name)
	}
	assert.Equal(t, 250., line.Samples[0]["ms"])
	two := newReport(modes(t, "serial")[0], []Answer{a, {Took: ms, Shown: []time.Duration{ms}}})
	assertTimes(t, result.Times{Mean: 20.5, P50: 1, P90: 40, P99: 40}, *two.FirstToken)
	assert.InDelta(t, 30, two.Between.Mean, 1e-9, "0 and 60 ms: without the gap between answers")
	assert.Equal(t, draft.Summary{PromptTokens: 9, Prefilled: 9, Tokens: 4, Cloud: 4, Decoded: 4},
		CloudFigures(9, 3, true))
	assert.Equal(t, 3, CloudFigures(9, 3, false).Tokens)
}

// TestObserve: only an answer with a picture keeps spans.
func TestObserve(t *testing.T) {
	var a Answer
	a.Observe(draft.Event{Pass: &draft.Pass{Rows: 1, Took: time.Millisecond}})
	assert.Empty(t, a.spans)
	a.Pictured = true
	a.Observe(draft.Event{Pass: &draft.Pass{Rows: 1, Took: time.Millisecond}})
	assert.Equal(t, waterfall{{End: 1, Kind: result.SpanStep, Rows: 1}}, a.spans)
}

// TestHash: the hash depends on tokens, their order and origins.
func TestHash(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range []Answer{
		{}, {IDs: []int32{1}}, {IDs: []int32{1, 2}}, {IDs: []int32{2, 1}},
		{IDs: []int32{1, 2}, Origins: []string{"edge", "cloud"}},
		{IDs: []int32{1, 2}, Origins: []string{"cloud", "edge"}},
	} {
		assert.False(t, seen[a.hashTokens()])
		seen[a.hashTokens()] = true
		assert.Len(t, a.hashTokens(), 8)
	}
}

// TestSharesAreOfTokens: every share is from 0 to 1, whatever the questions and their outcomes.
func TestSharesAreOfTokens(t *testing.T) {
	outcomes := []draft.Outcome{draft.Hit, draft.Miss, draft.Late, draft.Failed, draft.Unasked,
		draft.Known, draft.Dropped, draft.Probing, draft.Probed}
	origins := []draft.Origin{draft.Edge, draft.FromCloud, draft.EdgeTimeout}
	draw := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var a Answer
		for range 1 + draw.IntN(40) {
			for range draw.IntN(7) { // more questions than tokens
				wait, audited := draw.IntN(1000), draw.IntN(6)
				a.Figures.Add(draft.Event{Escalation: &draft.Escalation{
					Outcome: outcomes[draw.IntN(len(outcomes))], Wait: time.Duration(wait), Audited: audited,
					Hidden: time.Duration(draw.IntN(wait + 1)), Missed: make([]terms.Finding, draw.IntN(audited+1)),
				}})
			}
			a.Figures.Add(draft.Event{Token: &draft.Token{Origin: origins[draw.IntN(len(origins))]}})
		}
		r := newReport(modes(t, "pipelined-2")[0], []Answer{a, {}})
		for _, name := range []string{"escalated_share", "hidden_share", "hit_rate"} {
			share := r.Rates()[name]
			require.True(t, share >= 0 && share <= 1, "%s is %v", name, share)
		}
		for _, s := range r.Samples {
			require.LessOrEqual(t, s.Cloud, s.Tokens)
		}
	}
}

// timedSamples returns reports of modes at round trips, with the times of three questions each.
func timedSamples(mode string, rtt float64, ms ...float64) Report {
	r := Report{Mode: mode, Cell: &Cell{RTT: rtt, EdgeTPS: 60}, Answers: len(ms)}
	for i, x := range ms {
		r.Samples = append(r.Samples, Sample{Question: i, Took: time.Duration(x * 1e6)})
	}
	return r
}

// TestBound: one call of the device for each pass, and the verdict on the last token if it was asked for.
func TestBound(t *testing.T) {
	local, verified, serial := timedSamples("local", 0, 100, 200), timedSamples("verified", 0, 1, 1),
		timedSamples("serial", 0, 1, 1)
	local.Samples[0].Passes, local.Samples[1].Passes = 9, 21
	verified.Samples[0].Passes, verified.Samples[1].Passes = 20, 20
	verified.Samples[0].Tokens, verified.Samples[1].Tokens = 30, 12
	overlapped, margin := verified, verified
	overlapped.Mode, margin.Mode = "overlapped-4", "verified:0.5"
	all := []Report{serial, local, verified, overlapped, timedSamples("cloud", 0, 270, 300), margin}
	setLowerBounds(all, 80*time.Millisecond)
	assert.Nil(t, all[0].Bound)
	assert.Nil(t, all[1].Bound)
	assert.InDelta(t, (270+200)/2., *all[2].Bound, 1e-9, "20 and 12 calls of 10 ms, each and 80 ms, or the stream")
	assert.InDelta(t, (280+200)/2., *all[3].Bound, 1e-9, "without tokens ahead no stream")
	assert.Equal(t, all[2].Bound, all[5].Bound, "with any margin")
	first := []Report{all[4], local, verified}
	setLowerBounds(first, 80*time.Millisecond)
	assert.Equal(t, all[2].Bound, first[2].Bound, "in any order")
	setLowerBounds(all[2:], 0)
	without := []Report{timedSamples("verified", 0, 1)}
	setLowerBounds(without, 0)
	assert.Nil(t, without[0].Bound)
}

// TestReportJSON: the fields that other programs read are present, and fields that do not apply are absent.
func TestReportJSON(t *testing.T) {
	text, err := record.Marshal(newReport(modes(t, "local")[0], []Answer{{Took: time.Second}}))
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	for _, name := range []string{"mode", "answers", "sums", "time_per_answer_ms", "samples"} {
		assert.Contains(t, fields, name)
	}
	for _, name := range []string{"escalated_share", "variant", "bound_ms", "accuracy"} {
		assert.NotContains(t, fields, name)
	}
}
