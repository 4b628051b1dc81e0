package draft

import "time"

// due is the deadline of e. After a failure all questions share the deadline of the failed one, so that a dead cloud
// costs one deadline for any number of questions.
func (r *run) due(e *escalation) time.Time {
	due := e.sent.Add(r.Deadline)
	if since, open := r.Breaker.openSince(); open {
		if all := since.Add(r.Deadline); all.Before(due) {
			return all
		}
	}
	return due
}

// nextDue is the earliest end of a deadline; false if there is none.
func (r *run) nextDue() (next time.Time, ok bool) {
	if r.Deadline < 0 {
		return next, false
	}
	for _, e := range r.asked {
		if due := r.due(e); !ok || due.Before(next) {
			next, ok = due, true
		}
	}
	return next, ok
}

// next is the earliest time at which there is work without an answer; false if there is none.
func (r *run) next(now time.Time) (next time.Time, ok bool) {
	next, ok = r.nextDue()
	if until, waits := r.nextUncovered(now); waits && (!ok || until.Before(next)) {
		return until, true
	}
	return next, ok
}

// expire gives up the questions that are past their deadline. The first failure can shorten the deadline of others.
func (r *run) expire(now time.Time) {
	for due, ok := r.nextDue(); ok && !due.After(now); due, ok = r.nextDue() {
		for _, e := range r.asked {
			if !r.due(e).After(now) {
				r.fail(e, ErrDeadline)
				break
			}
		}
	}
}
