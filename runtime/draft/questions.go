package draft

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// openQuestions are the questions without an answer.
//
//   - An escalation is in unsent while it waits to be asked, then in asked, in the order of sending, until an answer or
//     its deadline resolves it or its branch is dropped. A check only counts. Probes are in neither.
//   - No more than InFlight escalations and checks are open at a time.
//   - No question is open longer than its deadline. After a failure the deadline of the failed one is that of all.
//   - What was not asked because of a failed question has the error of that, once its ask has returned.
type openQuestions struct {
	*rules
	cloud  Cloud
	lately *Waits
	unsent []*escalation
	asked  []*escalation
	checks int
	silent *escalation   // one that the deadline ended; its ask may still run
	heard  bool          // the cloud has answered a question about this text
	waited time.Duration // in all, for answers or tokens ahead
}

// openCount returns the number of questions in flight.
func (q *openQuestions) openCount() int { return len(q.asked) + q.checks }

// sortUnsent puts the questions first that are the likeliest to matter.
func (q *openQuestions) sortUnsent(t *draftTree) {
	slices.SortStableFunc(q.unsent, func(a, b *escalation) int {
		return cmp.Compare(t.pathProbability(b.at), t.pathProbability(a.at))
	})
}

func (q *openQuestions) markAsked(e *escalation, now time.Time) {
	e.sent, e.Outcome, e.Held = now, inFlight, now.Sub(e.wanted)
	q.removeEscalation(e)
	q.asked = append(q.asked, e)
}

func (q *openQuestions) removeEscalation(e *escalation) {
	same := func(x *escalation) bool { return x == e }
	q.unsent, q.asked = slices.DeleteFunc(q.unsent, same), slices.DeleteFunc(q.asked, same)
}

func (q *openQuestions) closeEscalation(e *escalation, why error) {
	q.removeEscalation(e)
	if s := e.stream; s != nil && !s.afterReplacement && (why != nil || len(s.tokens) == 0) {
		s.live = false
	}
	if e.cancel != nil && (e.stream == nil || !e.stream.live) {
		e.cancel(why)
	}
}

// markSilent notes that e failed while its ask still runs: what is not asked because of it waits for its error.
func (q *openQuestions) markSilent(e *escalation) {
	if !e.returned && (q.silent == nil || q.silent.returned) {
		q.silent = e
	}
}

// followSilent lets e, which is not asked, have the error of the failed question.
func (q *openQuestions) followSilent(e *escalation) {
	if q.silent != nil && !q.silent.returned {
		e.after = q.silent
		q.silent.followers = append(q.silent.followers, e)
	}
}

// recordAskError sets the error of an escalation that ended at its deadline, and of those that were not asked because
// of it, to the error that its ask has now returned. It returns those of them that were to be emitted then.
func (q *openQuestions) recordAskError(e *escalation, err error) (due []*escalation) {
	if errors.Is(err, ErrDeadline) {
		if e.Outcome == Late {
			e.Err = err
		}
		if e == q.silent {
			q.Breaker.setCause(err)
		}
		for _, f := range e.followers {
			f.Err = notAskedError(err)
		}
	}
	return slices.DeleteFunc(append([]*escalation{e}, e.followers...), func(f *escalation) bool { return !f.due })
}
