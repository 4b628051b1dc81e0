package eval

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// with returns r with verification and answers ahead.
func with(r Run, margin float64, ahead int) Run {
	r.Verify, r.Ahead = &margin, ahead
	return r
}

func TestDialNames(t *testing.T) {
	assert.Equal(t, []string{"never verified 0", "margin 0.5 verified 0.25 ahead 8", "learned 7% verified 12",
		"margin 0.5 ahead 2"},
		Names([]Run{with(Run{Policy: router.Never}, 0, 1), with(at(router.Margin, 0.5), 0.25, 8),
			with(Run{Policy: router.Learned, Budget: 0.07}, 12, 0),
			{Policy: router.Margin, Threshold: new(0.5), Ahead: 2}}))
	assert.True(t, Run{Ahead: 1}.plain() && Run{}.plain())
	assert.False(t, with(Run{}, 0, 0).plain() || Run{Ahead: 2}.plain())
	r := RunReport{Policy: "margin", Threshold: new(0.5), Verify: new(0.0), Ahead: 4}
	assert.Equal(t, "margin 0.5 verified 0 ahead 4", r.Name())
}

// dialRuns returns 40 questions. At two thresholds, the router alone gets a quarter and all of them right for 1 and 3
// asks; with verification, three quarters and all for 1 and 2.
func dialRuns() (*task.Set, []Run, *Log) {
	runs := []Run{
		at(router.Margin, 0.2), at(router.Margin, 0.8),
		with(at(router.Margin, 0.2), 0, 8), with(at(router.Margin, 0.8), 0, 8),
		with(at(router.Margin, 0.2), 2, 1), // all right, but with more asks than the router alone ever makes
		with(at(router.Margin, 0.8), 2, 1),
		{Policy: router.Always}, {Policy: router.Never},
	}
	rightIn := []int{10, 40, 30, 40, 40, 40, 40, 0}
	asks := []int{1, 3, 1, 2, 4, 5, 9, 0}
	origins := []string{"ee", "ec", "cc", "cc", "cc", "cc", "cc", "ee"}
	set, l := &task.Set{}, NewLog(Settings{}, About{})
	for i := range 40 {
		q := graded(fmt.Sprint(i), false)
		set.Questions = append(set.Questions, q)
		for n, r := range runs {
			a := made(q.ID, r.Name(), "wrong", origins[n])
			if i < rightIn[n] {
				a.Verdict = "right"
			}
			a.Asks, a.Known, a.Turned, a.Ahead = asks[n], 1, 2, 3
			l.answers[key{q.ID, r.Name()}] = a
		}
	}
	return set, runs, l
}

// TestAsksCurves: a policy with verification is compared with the same policy alone over their common range of asks, in
// resamples of the same questions. Policies without a common range are not compared and are not in the curves over
// shares.
func TestAsksCurves(t *testing.T) {
	set, runs, l := dialRuns()
	r := Summarize(set, runs, l)
	require.Len(t, r.Dials, 3)
	d := r.Dials[0]
	assert.Equal(t, []any{"margin", 0.0, false, 8, 1.0, 2.0}, []any{d.Policy, *d.Verify, d.Best, d.Ahead, d.From, d.To})
	// alone: 0.25 at 1 ask to 0.625 at 2, halfway to 1 at 3; verified: 0.75 to 1
	assert.InDelta(t, 0.875, d.Area.Value, 1e-12)
	assert.InDelta(t, 0.4375, d.Router.Value, 1e-12)
	assert.InDelta(t, 0.4375, d.Minus.Value, 1e-12)
	assert.Greater(t, d.Minus.Low, 0.3)
	assert.Less(t, d.Minus.High, 0.6)
	assert.Less(t, d.Minus.High-d.Minus.Low, d.Area.High-d.Area.Low+d.Router.High-d.Router.Low,
		"the comparison is paired")
	best, all := r.Dials[1], r.Dials[2]
	assert.Equal(t, []any{true, 8, true, 1}, []any{best.Best, best.Ahead, all.Best, all.Ahead})
	assert.Equal(t, []any{d.From, d.To, d.Area, d.Minus}, []any{best.From, best.To, best.Area, best.Minus})
	assert.Equal(t, []float64{0, 3, 0}, []float64{all.From, all.To, all.Minus.Value}, "the setting off is in the range")
	for i, one := range r.Runs[:len(runs)] {
		assert.Equal(t, i == 2 || i == 3, one.AsksCurve != nil, one.Name())
		assert.Equal(t, i < 2, one.Curve != nil, one.Name())
		assert.Equal(t, runs[i].plain(), one.Known == nil && one.Turned == nil && one.CloudAhead == nil, one.Name())
	}
	two := r.Runs[2]
	assert.Equal(t, []float64{1, 1, 2, 3}, []float64{two.Asks, *two.Known, *two.Turned, *two.CloudAhead})
	require.Len(t, r.Policies, 1)
	both := []Run{runs[0], runs[1], runs[6], runs[7]}
	assert.Equal(t, Summarize(set, both, l).Policies[0].Area.Value, r.Policies[0].Area.Value,
		"equal to the router alone")
	b, err := json.Marshal(two)
	require.NoError(t, err)
	for _, want := range []string{`"verify":0,"ahead":8`, `"known_per_answer":1`, `"turned_per_answer":2`,
		`"cloud_tokens_ahead_per_answer":3`,
		`"asks_curve":{"policy":"margin","verify":0,"ahead":8,"from":1,"to":2,"area":`} {
		assert.Contains(t, string(b), want)
	}
	b, err = json.Marshal(r.Runs[0])
	require.NoError(t, err)
	for _, not := range []string{"verify", "ahead", "known", "turned", "asks_curve"} {
		assert.NotContains(t, string(b), `"`+not)
	}

	plain, _, _ := dialRuns()
	alone := Summarize(plain, runs[:2], l)
	assert.Empty(t, alone.Dials)
	assert.Equal(t, alone.Runs[0].Asks, r.Runs[0].Asks)
	// the curve of the router alone never falls, whatever its runs do
	for i := range set.Questions {
		one := l.answers[key{fmt.Sprint(i), "margin 0.8"}]
		one.Asks, one.Verdict = 2, "wrong"
		l.answers[key{one.Question, one.Run}] = one
	}
	worse := Summarize(set, runs[:4], l).Dials
	assert.InDelta(t, 0.125, worse[0].Router.Value, 1e-12, "from a quarter to none")
	assert.InDelta(t, 0.25, worse[1].Router.Value, 1e-12)
	set, runs, l = dialRuns()
	// never with verification is an end of the curve with the same verification; the large model alone belongs to no
	// curve
	a := with(Run{Policy: router.Never}, 0, 8)
	for i := range set.Questions {
		one := made(fmt.Sprint(i), a.Name(), "right", "ee")
		one.Asks = 3
		l.answers[key{one.Question, one.Run}] = one
	}
	always := with(Run{Policy: router.Always}, 0, 8)
	for i := range set.Questions {
		one := made(fmt.Sprint(i), always.Name(), "wrong", "cc")
		l.answers[key{one.Question, one.Run}] = one
	}
	curves := len(r.Dials)
	r = Summarize(set, append(runs, a, always), l)
	assert.Len(t, r.Dials, curves, "neither has a curve of its own")
	d = r.Dials[0]
	assert.Equal(t, []float64{1, 3}, []float64{d.From, d.To})
	one := r.Runs[0]
	assert.Equal(t, []int{10, 0}, []int{one.Never.OnlyThis, one.Never.OnlyThat},
		"the small model alone does not verify")
	assert.Equal(t, []int{0, 30}, []int{one.Always.OnlyThis, one.Always.OnlyThat})
}

// TestShared: curves with a single number of asks in common, or none, are not compared.
func TestShared(t *testing.T) {
	curve := func(x ...float64) (c stats.Curve) {
		for _, x := range x {
			c = append(c, stats.Point{X: x})
		}
		return c
	}
	for _, c := range []struct {
		a, b stats.Curve
		want []any
	}{
		{curve(1, 2, 5), curve(2, 3), []any{2., 3., true}},
		{curve(1, 2), curve(2, 3), []any{2., 2., false}},
		{curve(1, 2), curve(3, 4), []any{3., 2., false}},
		{curve(1, 2), nil, []any{0., 0., false}},
	} {
		for _, pair := range [][2]stats.Curve{{c.a, c.b}, {c.b, c.a}} {
			from, to, ok := shared(pair[0], pair[1])
			assert.Equal(t, c.want, []any{from, to, ok})
		}
	}
}

// TestDialled: verification without a margin gives the large model's text for any router. Answers ahead change no
// token, and the counts are consistent.
func TestDialled(t *testing.T) {
	racing.Spare(t)
	runs := []Run{{Policy: router.Never}, {Policy: router.Always}, at(router.Margin, 0.5),
		{Policy: router.Margin, Threshold: new(0.5), Ahead: 8},
		with(Run{Policy: router.Never}, 0, 1), with(at(router.Margin, 0.5), 0, 8), with(at(router.Margin, 0.51), 0, 8),
		with(at(router.Margin, 0.5), 1000, 1)}
	o := demoOptions(t, 8, runs...)
	o.Every = 7
	require.NoError(t, o.Run(t.Context()))
	of := func(q task.Question, run int) Answer {
		a, ok := o.Log.Answer(q.ID, runs[run].Name())
		require.True(t, ok)
		require.NoError(t, a.validate(Names(runs)))
		return a
	}
	turned := 0
	for _, q := range o.Set.Questions {
		never, always, router, ahead := of(q, 0), of(q, 1), of(q, 2), of(q, 3)
		assert.Equal(t, router.Tokens, ahead.Tokens)
		assert.LessOrEqual(t, ahead.Asks, router.Asks)
		assert.Equal(t, router.Asks, ahead.Asks+ahead.Known)
		assert.Equal(t, []int{router.Audited, router.AuditedFor, router.MissedFor},
			[]int{ahead.Audited, ahead.AuditedFor, ahead.MissedFor}, "audits depend only on the text")
		assert.Equal(t, router.Missed, ahead.Missed)
		assert.Zero(t, never.Turned+always.Turned+router.Turned+router.Known)
		for run := 4; run <= 6; run++ {
			a := of(q, run)
			assert.Equal(t, always.Tokens, a.Tokens, a.Run)
			assert.Empty(t, a.Missed, a.Run)
			assert.Empty(t, a.Same, "verification asks depend on the threshold")
			assert.GreaterOrEqual(t, a.Asks+a.Known, (len(a.Tokens)-1)/8,
				"at least every eighth token has an ask")
			turned += a.Turned
		}
		far := of(q, 7)
		assert.Equal(t, router.Tokens, far.Tokens, "with this margin all tokens are accepted")
		assert.Equal(t, router.Missed, far.Missed)
		assert.Zero(t, far.Turned)
	}
	assert.Positive(t, turned)
}

// TestTakerCounts: the counts of an answer, event by event.
func TestTakerCounts(t *testing.T) {
	x := taker{prompt: 10}
	for _, e := range []draft.Event{
		{Escalation: &draft.Escalation{Pos: 12, Outcome: draft.Hit, Token: 5, Local: 4, BytesUp: 9, BytesDown: 2}},
		{Escalation: &draft.Escalation{Pos: 13, Outcome: draft.Known, Token: 5, Local: 5}},
		{Escalation: &draft.Escalation{Pos: 14, Outcome: draft.Dropped, BytesUp: 20, BytesDown: 40,
			Audited: 7, Missed: make([]terms.Finding, 3)}},
		{Turn: &draft.Turn{}}, {Turn: &draft.Turn{}},
		{Ahead: &draft.Ahead{Tokens: 7, Used: 2}}, {Preview: &draft.Preview{}}, {Warming: &draft.Warming{}},
	} {
		x.take(e)
	}
	assert.NoError(t, x.failed)
	assert.Equal(t, Answer{Asks: 2, Known: 1, Turned: 2, Ahead: 7, Read: 12, Up: 29, Down: 42, Needless: []int{3}}, x.a)
	assert.Equal(t, 13, x.until, "a known token adds no comparison")
	x.take(draft.Event{Escalation: &draft.Escalation{Pos: 15, Outcome: draft.Known, Token: 1,
		Audited: 2, AuditedFrom: 13, AuditedTo: 15}})
	assert.Equal(t, 15, x.until, "with verification it does")
	assert.Equal(t, []int{2, 2}, []int{x.a.Audited, x.a.AuditedFor})
	x.take(draft.Event{Escalation: &draft.Escalation{Pos: 19, Outcome: draft.Miss, Token: 1, Audited: 3, AuditWeight: 4,
		Missed: []terms.Finding{{Pos: 16}, {Pos: 18}}}})
	assert.Equal(t, []int{5, 14, 8}, []int{x.a.Audited, x.a.AuditedFor, x.a.MissedFor}, "each counts for four")
	assert.Equal(t, []int{6, 8}, x.a.Missed)
	assert.Equal(t, []int{20, 19}, []int{x.until, x.a.Read})
	x.take(draft.Event{Escalation: &draft.Escalation{Pos: 30, Outcome: draft.Hit, Token: 1, ByAhead: true}})
	assert.Equal(t, []int{20, 30}, []int{x.until, x.a.Read}, "an answer ahead compares no tokens")
	x.take(draft.Event{Escalation: &draft.Escalation{Outcome: draft.Late, Err: draft.ErrDeadline}})
	assert.ErrorIs(t, x.failed, draft.ErrDeadline)
}
