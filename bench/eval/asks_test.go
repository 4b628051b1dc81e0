package eval

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/bench/eval/stats"
	"github.com/pilotfish-ai/pilotfish/bench/task"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/draft"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// with returns r with verification.
func with(r Run, margin float64) Run {
	r.Verify = &margin
	return r
}

// TestSummarizeVerified: a run with verification reports what was known and replaced; a run of the
// router alone does not. Without any token, no share is undefined.
func TestSummarizeVerified(t *testing.T) {
	set, runs, l := comparedRuns()
	verified := with(at(router.Margin, 0.5), 0)
	for i, q := range set.Questions {
		a := made(q.ID, verified.Name(), "right", "ce")
		a.Known, a.Turned = i, 2
		l.answers[key{q.ID, a.Run}] = a
	}
	r := Summarize(set, append(runs, verified), l)
	one := r.Runs[3]
	assert.Equal(t, verified.Name(), one.Name())
	assert.Zero(t, *one.Verify)
	assert.Equal(t, 6, one.Known)
	assert.Equal(t, 8, one.Turned)
	for _, plain := range r.Runs[:3] {
		assert.Zero(t, plain.Known+plain.Turned, plain.Name())
	}
	q, ok := one.Quality()
	assert.True(t, ok)
	assert.Equal(t, stats.Interval{Value: 1, Low: one.Accuracy.Low, High: 1}, q)
	one.Accuracy = nil
	q, ok = one.Quality()
	assert.True(t, ok)
	assert.Equal(t, *one.Agreement, q, "of answers that are not graded")
	_, ok = new(RunReport).Quality()
	assert.False(t, ok)

	for k, a := range l.answers {
		a.Verdict = ""
		l.answers[k] = a
	}
	oracle := Summarize(set, runs, l).Runs[3]
	assert.True(t, oracle.Name() == Oracle && oracle.Accuracy == nil, "nothing is graded")
	empty := made("a", "never", "silent", "")
	l = NewLog(Settings{}, About{})
	l.answers[key{"a", "never"}] = empty
	r = Summarize(set, runs[:1], l)
	assert.Zero(t, r.Runs[0].Share(r.Runs[0].Cloud))
	assert.Zero(t, r.Runs[0].Tokens)
}

// TestDialled: verification without a margin gives the large model's text for any router, and no answer is taken from
// another threshold.
func TestDialled(t *testing.T) {
	racing.Spare(t)
	runs := []Run{{Policy: router.Always}, at(router.Margin, 0.5),
		with(at(router.Margin, 0.5), 0), with(at(router.Margin, 0.51), 0)}
	o := demoOptions(t, 3, runs...)
	o.Every = 7
	require.NoError(t, o.Run(t.Context()))
	of := func(q task.Question, run int) Answer {
		a, ok := o.Log.Answer(q.ID, runs[run].Name())
		require.True(t, ok)
		require.NoError(t, a.checkConsistency(Names(runs)))
		return a
	}
	turned := 0
	for _, q := range o.Set.Questions {
		always := of(q, 0)
		for run := 2; run <= 3; run++ {
			a := of(q, run)
			assert.Equal(t, always.Tokens, a.Tokens, a.Run)
			assert.Empty(t, a.Missed, a.Run)
			assert.Empty(t, a.Same, "questions of verification depend on the threshold")
			assert.GreaterOrEqual(t, a.Asks+a.Known, (len(a.Tokens)-1)/8, "at least one for every eighth token")
			turned += a.Turned
		}
	}
	assert.Positive(t, turned)
}

// TestTakerCounts: the counts of an answer, event by event.
func TestTakerCounts(t *testing.T) {
	x := answerBuilder{prompt: 10}
	for _, e := range []draft.Event{
		{Escalation: &draft.Escalation{Pos: 12, Outcome: draft.Hit, Token: 5, Local: 4}},
		{Escalation: &draft.Escalation{Pos: 13, Outcome: draft.Known, Token: 5, Local: 5}},
		{Escalation: &draft.Escalation{Pos: 14, Outcome: draft.Dropped, Audited: 7, Missed: make([]terms.Finding, 3)}},
		{Turn: &draft.Turn{}}, {Turn: &draft.Turn{}},
		{Preview: &draft.Preview{}}, {Warming: &draft.Warming{}},
	} {
		x.addEvent(e)
	}
	assert.NoError(t, x.failed)
	assert.Equal(t, Answer{Asks: 2, Known: 1, Turned: 2, Needless: []int{3}}, x.a)
	assert.Equal(t, 13, x.until, "a known token adds no comparison")
	x.addEvent(draft.Event{Escalation: &draft.Escalation{Pos: 15, Outcome: draft.Known, Token: 1, Audited: 2,
		AuditedTo: 15}})
	assert.Equal(t, 15, x.until, "with verification it does")
	assert.Equal(t, 2, x.a.Audited)
	x.addEvent(draft.Event{Escalation: &draft.Escalation{Pos: 19, Outcome: draft.Miss, Token: 1, Audited: 3,
		Missed: []terms.Finding{{Pos: 16}, {Pos: 18}}}})
	assert.Equal(t, 5, x.a.Audited)
	assert.Equal(t, []int{6, 8}, x.a.Missed)
	assert.Equal(t, 20, x.until)
	x.addEvent(draft.Event{Escalation: &draft.Escalation{Pos: 30, Outcome: draft.Hit, Token: 1, ByAhead: true}})
	assert.Equal(t, 20, x.until, "an answer ahead compares no tokens")
}

// TestRestFails: a missing audit of the last tokens is a missing answer, and names why the context ended.
func TestRestFails(t *testing.T) {
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	k := &answerBuilder{prompt: 10, a: Answer{Tokens: make([]int32, 4), Origins: "eeee"}}
	err := k.auditRest(ctx, silent{}, make([]int32, 10))
	_, again := errors.AsType[*unansweredError](err)
	assert.True(t, again)
	assert.ErrorIs(t, err, draft.ErrDeadline)
	cancel(over)
	assert.Equal(t, over, k.auditRest(ctx, silent{}, make([]int32, 10)))
}

// silent is a large model that gives no answer.
type silent struct{}

func (silent) Ask(context.Context, engine.CloudQuestion) (engine.CloudAnswer, error) {
	return engine.CloudAnswer{}, draft.ErrDeadline
}
