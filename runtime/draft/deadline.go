package draft

import "time"

// due is when the local token of e stands at the latest. After a failure the other questions have until one deadline
// after that one was asked: so a dead cloud costs one deadline, however many questions it swallows.
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

// next is the earliest moment at which something is to be done without an answer; false if there is none.
func (r *run) next(now time.Time) (next time.Time, ok bool) {
	next, ok = r.nextDue()
	if until, waits := r.nextUncovered(now); waits && (!ok || until.Before(next)) {
		return until, true
	}
	return next, ok
}

// expire gives up the questions whose time is over at now. The first to fail can end the time of the others.
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
