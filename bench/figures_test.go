package bench

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
)

// counted returns a tally of which each count is a number of its own, times k.
func counted(k int) (t Tally) {
	v := reflect.ValueOf(&t).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(k * (i + 1)))
	}
	return t
}

// TestTallyPlus: every count is added to its own.
func TestTallyPlus(t *testing.T) {
	sum := counted(1)
	sum.plus(counted(100))
	assert.Equal(t, counted(101), sum)
}

// TestTallyOfARun: what is counted of one answer, event by event, by hand.
func TestTallyOfARun(t *testing.T) {
	var got Tally
	for _, e := range []draft.Event{
		{Token: &draft.Token{Origin: draft.Edge}},
		{Warming: &draft.Warming{BytesUp: 300, BytesDown: 7}},
		{Escalation: &draft.Escalation{Outcome: draft.Hit, Wait: 50, Hidden: 40, BytesUp: 20, BytesDown: 5, Audited: 6, Missed: make([]draft.Finding, 2)}},
		{Token: &draft.Token{Origin: draft.FromCloud}},
		{Escalation: &draft.Escalation{Outcome: draft.Miss, Wait: 60, Hidden: 1, BytesUp: 30, BytesDown: 6, Audited: 3,
			Missed: make([]draft.Finding, 1), AuditWeight: 10}},
		{Token: &draft.Token{Origin: draft.FromCloud}},
		{Escalation: &draft.Escalation{Outcome: draft.Dropped, Wait: 70, Hidden: 9, BytesUp: 40, BytesDown: 8, Audited: 100}},
		{Escalation: &draft.Escalation{Outcome: draft.Late, Wait: 800, Hidden: 9, BytesUp: 50, BytesDown: 9}},
		{Token: &draft.Token{Origin: draft.EdgeTimeout}},
	} {
		got.Add(e)
	}
	assert.Equal(t, Tally{
		Tokens: 4, Cloud: 2, Timeouts: 1, Escalations: 3, Asks: 4, Answered: 2, Hits: 1, Wait: 110, Hidden: 41,
		Up: 300 + 20 + 30 + 40, Down: 7 + 5 + 6 + 8, Audited: 9, Missed: 3, AuditedFor: 6 + 30, MissedFor: 2 + 10,
	}, got)
}

// scripted are answers of which every figure of a report follows by hand: five questions, four with a right answer.
func scripted() []answer {
	one := func(ms int, tokens int, known, correct bool, tally Tally) answer {
		return answer{ids: make([]int32, tokens), known: known, correct: correct, took: time.Duration(ms) * time.Millisecond, tally: tally}
	}
	return []answer{
		one(500, 4, true, true, Tally{Tokens: 5, Cloud: 1, Escalations: 1, Asks: 2, Answered: 1, Hits: 1, Wait: 100,
			Hidden: 90, Up: 10, Down: 4,
			Audited: 3, AuditedFor: 3}),
		one(100, 6, true, false, Tally{Tokens: 7, Cloud: 2, Escalations: 3, Asks: 3, Answered: 2, Hits: 1, Wait: 100,
			Hidden: 10, Up: 20, Down: 5,
			Audited: 5, Missed: 1, AuditedFor: 50, MissedFor: 10}),
		one(300, 8, true, true, Tally{Tokens: 9, Timeouts: 2, Escalations: 2, Asks: 1}),
		one(200, 1, false, false, Tally{Tokens: 2}),
		one(900, 1, true, true, Tally{Tokens: 2, Cloud: 1, Escalations: 1, Asks: 1, Answered: 1, Wait: 200, Up: 30, Down: 3,
			Audited: 2, Missed: 1, AuditedFor: 2, MissedFor: 1}),
	}
}

// TestReportByHand: each printed figure of each kind of mode, from answers that are written down.
func TestReportByHand(t *testing.T) {
	w := stats.Wilson(3, 4)
	usual := ModeReport{
		Answers: 5, Accuracy: new(0.75), AccuracyLow: &w.Low, AccuracyHigh: &w.High, TokensPerAnswer: 4, // 20 of 5
		Time: Times{Mean: 400, P50: 300, P90: 900},
	}
	routed := usual
	routed.EscalatedShare, routed.Escalations, routed.Asks = new(4.0/25), new(7.0/5), new(7.0/5)
	routed.Timeouts, routed.BytesUp, routed.BytesDown, routed.MissedShare = new(2), new(60.0/4), new(12.0/4), new(11.0/55)
	pipelined := routed
	pipelined.HitRate, pipelined.HiddenShare = new(2.0/4), new(100.0/400)
	for name, want := range map[string]ModeReport{
		"local": usual, "cloud": usual, "paper": routed, "serial": routed, "pipelined-1": pipelined, "pipelined-64": pipelined,
	} {
		want.Mode = name
		assert.Equal(t, want, report(modes(t, name)[0], scripted()), name)
	}
	all := scripted()
	for i := range all {
		all[i].known, all[i].correct = false, false
	}
	r := report(modes(t, "local")[0], all)
	assert.Nil(t, r.Accuracy, "no right answers are known")
	assert.Nil(t, r.AccuracyLow)
	ten := make([]answer, 10)
	for i := range ten {
		ten[i].took = time.Duration(10-i) * time.Second
	}
	assert.Equal(t, Times{Mean: 5500, P50: 5000, P90: 9000}, report(modes(t, "cloud")[0], ten).Time)
}

// TestCompared: the modes over our protocol are compared with serial, tokens and origins; the others are not, and
// without serial none is.
func TestCompared(t *testing.T) {
	names := []string{"local", "paper", "pipelined-1", "serial", "pipelined-2", "pipelined-3"}
	same := []answer{{ids: []int32{1, 2}, origins: []string{"edge", "cloud"}}, {ids: []int32{3}, origins: []string{"edge"}}, {}}
	clone := func(edit func([]answer)) []answer {
		all := append([]answer{}, same...)
		edit(all)
		return all
	}
	answers := map[string][]answer{
		"local": clone(func([]answer) {}), "paper": clone(func([]answer) {}), "serial": same, "pipelined-1": clone(func([]answer) {}),
		"pipelined-2": clone(func(a []answer) { a[1].ids = []int32{4}; a[2].ids = []int32{1} }),
		"pipelined-3": clone(func(a []answer) { a[0].origins = []string{"edge", "edge-timeout"}; a[1].took = time.Second }),
	}
	of := func(names ...string) map[string]*int {
		var reports []ModeReport
		for _, n := range names {
			reports = append(reports, ModeReport{Mode: n})
		}
		differing := map[string]*int{}
		for _, r := range compared(reports, modes(t, names...), answers) {
			if r.Differing != nil {
				assert.Equal(t, *r.Differing == 0, *r.EqualToSerial, r.Mode)
			} else {
				assert.Nil(t, r.EqualToSerial)
			}
			differing[r.Mode] = r.Differing
		}
		return differing
	}
	assert.Equal(t, map[string]*int{
		"local": nil, "paper": nil, "serial": new(0), "pipelined-1": new(0), "pipelined-2": new(2), "pipelined-3": new(1),
	}, of(names...))
	delete(answers, "serial")
	assert.Equal(t, map[string]*int{"local": nil, "pipelined-2": nil}, of("local", "pipelined-2"))
}

// TestModes: who takes part in each mode, and how it decodes.
func TestModes(t *testing.T) {
	type parts struct{ small, large, routes, link, pipelined, lookup bool }
	shared := draft.Options{Branches: 9, Window: 5, InFlight: 6, Deadline: 7, Audit: true}
	for name, c := range map[string]struct {
		parts
		branches int
	}{
		"local":          {parts{small: true, lookup: true}, 0},
		"cloud":          {parts{large: true}, 0},
		"paper":          {parts{small: true, large: true, routes: true}, 0},
		"serial":         {parts{small: true, large: true, routes: true, link: true, lookup: true}, 0},
		"pipelined-1":    {parts{true, true, true, true, true, true}, 1},
		"pipelined-64":   {parts{true, true, true, true, true, true}, 64},
		"pipelined-auto": {parts{true, true, true, true, true, true}, draft.AutoBranches},
	} {
		m, err := ParseMode(name)
		require.NoError(t, err)
		assert.Equal(t, name, m.Name)
		got := parts{m.SmallModel(), m.LargeModel(), m.Routes(), m.OverLink(), m.Pipelined(), m.LooksUp()}
		assert.Equal(t, c.parts, got, name)
		want := shared
		if want.Mode = draft.Serial; c.branches != 0 {
			want.Mode, want.Branches = draft.Pipelined, c.branches
		}
		if !c.lookup {
			want.Lookup = -1
		}
		assert.Equal(t, want, m.Draft(shared), name)
	}
}

// TestSummarise: the medians of samples that are written down, and the bound that the bandwidth sets.
func TestSummarise(t *testing.T) {
	r := EngineReport{
		TokenBytes: 900e6, DepthBytes: 100e6,
		Samples: []EngineSample{
			{PromptTPS: 30, GenerationTPS: 5, Bandwidth: 10}, {PromptTPS: 10, GenerationTPS: 8, Bandwidth: 20}, {PromptTPS: 20, GenerationTPS: 30, Bandwidth: 20},
		},
	}
	r.summarise()
	assert.Equal(t, []float64{20, 8, 20, 20}, []float64{r.PromptTPS, r.GenerationTPS, r.Bandwidth, r.Bound}, "1 GB a token")
	assert.False(t, r.FitsCache)
	assert.InDelta(t, 0.5, *r.Share, 1e-12, "the median of 0.5, 0.4 and 1.5")
	for i, want := range []float64{0.5, 0.4, 1} {
		assert.InDelta(t, want, *r.Samples[i].Share, 1e-12)
	}
	assert.Equal(t, Scale{Threads: 3, PromptTPS: 20, GenerationTPS: 8, Bandwidth: 20, Share: r.Share, FitsCache: true},
		(&EngineReport{Threads: 3, PromptTPS: 20, GenerationTPS: 8, Bandwidth: 20, Share: r.Share, FitsCache: true}).scale())
}

// TestEngineOptions: the context that a measurement needs, and what cannot be measured.
func TestEngineOptions(t *testing.T) {
	for _, c := range []struct {
		prompt, decode, depth, need int
	}{{100, 0, 0, 101}, {0, 10, 0, 19}, {0, 10, 8, 19}, {0, 10, 50, 61}, {100, 10, 5, 101}, {60, 10, 50, 61}} {
		assert.Equal(t, c.need, EngineOptions{Prompt: c.prompt, Decode: c.decode, Depth: c.depth}.need(), "%+v", c)
	}
	for _, bad := range []EngineOptions{{Prompt: -1, Decode: 1, Repeat: 1}, {Prompt: 1, Decode: -1, Repeat: 1}, {Prompt: 1, Depth: -1, Repeat: 1},
		{Repeat: 1}, {Prompt: 1}, {Decode: 1, Repeat: -1}} {
		assert.Error(t, bad.check(), "%+v", bad)
	}
	for _, good := range []EngineOptions{{Prompt: 1, Repeat: 1}, {Decode: 1, Repeat: 1}, {Decode: 1, Depth: 1, Repeat: 1}} {
		assert.NoError(t, good.check())
	}
}
