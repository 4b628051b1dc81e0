package draft

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestOpenQuestions: a question is in one list until it is closed; after a failure all share its deadline, and what is
// not asked because of it has its error.
func TestOpenQuestions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := Options{Deadline: 60 * ms, Breaker: new(Breaker)}
		q, began := &openQuestions{rules: newRules(o, 1), lately: new(Waits)}, time.Now()
		ask := func() *escalation {
			e := &escalation{wanted: began}
			q.unsent = append(q.unsent, e)
			q.markAsked(e, time.Now())
			return e
		}
		first := ask()
		time.Sleep(10 * ms)
		second := ask()
		assert.Equal(t, 10*ms, second.Held)
		assert.Empty(t, q.unsent)
		assert.Equal(t, []*escalation{first, second}, q.asked)
		q.checks++
		assert.Equal(t, 3, q.openCount())
		assert.Equal(t, began.Add(60*ms), q.nextDeadline())
		assert.Equal(t, began.Add(70*ms), q.escalationDeadline(second))

		time.Sleep(50 * ms)
		q.Breaker.recordFailure(first.sent, time.Now(), ErrDeadline)
		q.markSilent(first)
		q.closeEscalation(first, ErrDeadline)
		first.Outcome = Late
		assert.Equal(t, []*escalation{second}, q.asked)
		assert.Equal(t, began.Add(60*ms), q.nextDeadline(), "that of the failed question")

		unasked, why := &escalation{due: true}, deadlineError(errors.New("no route"))
		q.followSilent(unasked)
		assert.Same(t, first, unasked.after)
		assert.Equal(t, []*escalation{unasked}, q.recordAskError(first, why), "the other was not to be emitted yet")
		assert.Equal(t, why, first.Err)
		assert.ErrorIs(t, unasked.Err, ErrBreaker)
		assert.ErrorContains(t, unasked.Err, "no route")
	})
}
