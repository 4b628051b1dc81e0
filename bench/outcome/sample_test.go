package outcome

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// TestSampleOfAnAnswer: every figure of a row, from scripted events.
func TestSampleOfAnAnswer(t *testing.T) {
	const ms = time.Millisecond
	a := Answer{
		IDs: []int32{5, 6, 7}, Origins: []string{"edge", "cloud", "edge-timeout"}, Prompt: 11,
		Known: true, Correct: true, Took: 250 * ms, Shown: []time.Duration{40 * ms, 40 * ms, 100 * ms},
		CPU: 30 * ms, Question: 4, Repetition: 2,
	}
	for _, e := range []draft.Event{
		{Token: &draft.Token{Origin: draft.Edge, CommitDelay: 3 * ms, Pos: 11}},
		{Escalation: &draft.Escalation{Pos: 12, Outcome: draft.Hit, Wait: 50 * ms, Hidden: 40 * ms, Exposed: 13 * ms,
			Drafted: 5, Wasted: 2, BytesUp: 20, BytesDown: 5, Prefilled: 9, Decoded: true}},
		{Token: &draft.Token{Origin: draft.FromCloud, CommitDelay: 9 * ms, Pos: 12}},
		{Escalation: &draft.Escalation{Pos: 13, Outcome: draft.Late, Wait: 80 * ms, BytesUp: 7, BytesDown: 1}},
		{Token: &draft.Token{Origin: draft.EdgeTimeout, Pos: 13}},
		{Warming: &draft.Warming{BytesUp: 300, BytesDown: 7}}, {Pass: &draft.Pass{Rows: 2}},
		{Pass: &draft.Pass{Rows: 1}},
	} {
		a.Observe(e)
	}
	assert.Equal(t, Sample{
		Question: 4, Repetition: 2, MS: 250, FirstToken: 40, Tokens: 3, CloudTokens: 1,
		Asks: 2, Passes: 2, Correct: new(true), Exposed: 93, CommitDelay: 4, Wasted: 2, Up: 327,
		Down: 13, CPU: 30, Text: a.hashTokens(),
	}, a.toSample(modes(t, "serial")[0]))
	assert.Empty(t, a.spans, "an answer without a picture")
	pictured := Answer{Pictured: true}
	pictured.Observe(draft.Event{Pass: &draft.Pass{Rows: 1, Took: ms}})
	assert.Equal(t, waterfall{{End: 1, Kind: result.SpanStep, Rows: 1}}, pictured.spans)
	w := summarizeWork(modes(t, "pipelined-2")[0], []Answer{a, {Took: ms, Shown: []time.Duration{ms}}}, a.Tally)
	assertTimes(t, result.Times{Mean: 20.5, P50: 1, P90: 40, P99: 40}, *w.FirstToken)
	assert.InDelta(t, 30, w.Between.Mean, 1e-9, "0 and 60 ms: without the gap between answers")
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{
		"passes": {w.Passes, 1}, "hidden": {w.Hidden, 20}, "exposed": {w.Exposed, 46.5}, "wasted": {w.Wasted, 1},
		"delay": {w.CommitDelay, 4}, "up": {w.Up, 163.5}, "down": {w.Down, 6.5}, "cpu": {w.CPU, 0.015},
	} {
		require.NotNil(t, c.got, name)
		assert.InDelta(t, c.want, *c.got, 1e-9, name)
	}
	alone := summarizeWork(modes(t, "local")[0], []Answer{a}, a.Tally)
	assert.Nil(t, alone.Up)
	assert.Nil(t, alone.Exposed)
	bytes := Tally{Summary: draft.Summary{BytesUp: 4, BytesDown: 6}}
	streamed := summarizeWork(modes(t, "cloud")[0], []Answer{{Took: ms, Tally: bytes}}, Tally{})
	assert.Equal(t, new(4.0), streamed.Up)
	assert.Equal(t, new(6.0), streamed.Down)
	assert.Nil(t, streamed.Passes)
	assert.Nil(t, streamed.FirstToken)
	assert.Nil(t, streamed.CPU, "not measured")
	large := Answer{Tally: Tally{Summary: draft.Summary{Tokens: 7}}}
	assert.Equal(t, 7, large.toSample(modes(t, "cloud")[0]).CloudTokens, "all tokens are from the large model")
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
				a.Observe(draft.Event{Escalation: &draft.Escalation{
					Outcome: outcomes[draw.IntN(len(outcomes))], Wait: time.Duration(wait), Audited: audited,
					Hidden: time.Duration(draw.IntN(wait + 1)), Missed: make([]terms.Finding, draw.IntN(audited+1)),
				}})
			}
			a.Observe(draft.Event{Token: &draft.Token{Origin: origins[draw.IntN(len(origins))]}})
		}
		r := newReport(modes(t, "pipelined-2")[0], []Answer{a, {}})
		for name, share := range map[string]*float64{"cloud": r.EscalatedShare, "hidden": r.HiddenShare,
			"hits": r.HitRate} {
			if share != nil {
				require.True(t, *share >= 0 && *share <= 1, "%s is %v", name, *share)
			}
		}
		for _, s := range r.Samples {
			require.LessOrEqual(t, s.CloudTokens, s.Tokens)
		}
	}
}

// timedSamples returns reports of modes at round trips, with the times of three questions each.
func timedSamples(mode string, rtt float64, ms ...float64) Report {
	r := Report{Mode: mode, Cell: &Cell{RTT: rtt, EdgeTPS: 60}, Answers: len(ms)}
	for i, x := range ms {
		r.Samples = append(r.Samples, Sample{Question: i, MS: x})
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
	text, err := json.Marshal(newReport(modes(t, "local")[0], []Answer{{Took: time.Second}}))
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	for _, name := range []string{"mode", "answers", "tokens_per_answer", "time_per_answer_ms", "samples"} {
		assert.Contains(t, fields, name)
	}
	for _, name := range []string{"escalated_share", "variant", "bound_ms", "exposed_ms_per_answer",
		"cpu_seconds_per_answer", "Work"} {
		assert.NotContains(t, fields, name)
	}
}
