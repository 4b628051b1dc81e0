package draft

import "time"

// due returns the deadline of e. After a failure all questions share the deadline of the failed one, so that a dead
// cloud costs one deadline for any number of questions.
func (r *run) due(e *escalation) time.Time {
	due := e.sent.Add(r.Deadline)
	if since, open := r.Breaker.openSince(); open {
		if all := since.Add(r.Deadline); all.Before(due) {
			return all
		}
	}
	return due
}

// nextDue returns the earliest deadline, that of the question that was sent first; zero if there is none.
func (r *run) nextDue() (next time.Time) {
	if r.Deadline < 0 || len(r.asked) == 0 {
		return next
	}
	return r.due(r.asked[0])
}

// next returns the earliest time at which there is work without an answer, a deadline or the end of the wait for a
// stream; zero if there is none.
func (r *run) next(now time.Time) time.Time {
	next := r.nextDue()
	for _, e := range r.unsent {
		if until, waits := r.covered(e, now); waits {
			next = earlier(next, until)
		}
	}
	return next
}

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// expire gives up the questions that are past their deadline. The first failure can shorten the deadline of others.
func (r *run) expire(now time.Time) {
	for due := r.nextDue(); !due.IsZero() && !due.After(now); due = r.nextDue() {
		r.fail(r.asked[0], ErrDeadline)
	}
}
