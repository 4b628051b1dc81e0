package draft

import "time"

const (
	// leastDeadline is the deadline of questions to a cloud that answers fast, and of all while it is not connected.
	leastDeadline = 800 * time.Millisecond
	// mostDeadline bounds the wait for a cloud that is connected, whatever it was seen to take.
	mostDeadline = 30 * time.Second
	// readingTime is how long a large model may need to read a token of the prompt, which the first answer waits for.
	readingTime = 80 * time.Millisecond
)

// answerTimeout returns how long a question may take. Without a given deadline it follows the cloud: it is three times
// the median of the last waits, and until the first answer to this text the time that reading the prompt may take.
func (r *decodeRun) answerTimeout() time.Duration {
	if !r.adapts {
		return r.Deadline
	}
	d := max(leastDeadline, 3*r.lately.median)
	if !r.heard {
		d += time.Duration(r.prompt) * readingTime
	}
	return min(d, mostDeadline)
}

func (r *decodeRun) isConnected() bool {
	c, ok := r.cloud.(Connection)
	return !ok || c.Connected()
}

// escalationDeadline returns the deadline of e. After a failure all questions share the deadline of the failed one, so
// that a dead cloud costs one deadline for any number of questions.
func (r *decodeRun) escalationDeadline(e *escalation) time.Time {
	patience := r.answerTimeout()
	if r.adapts && !r.isConnected() {
		patience = leastDeadline
	}
	due := e.sent.Add(patience)
	if since, open := r.Breaker.openSince(); open {
		if all := since.Add(patience); all.Before(due) {
			return all
		}
	}
	return due
}

// nextDeadline returns the earliest deadline, that of the question that was sent first; zero if there is none. A
// deadline that follows the cloud ends earlier if the connection is lost.
func (r *decodeRun) nextDeadline() (next time.Time) {
	if r.Deadline < 0 || len(r.asked) == 0 {
		return next
	}
	return r.escalationDeadline(r.asked[0])
}

// nextWakeup returns the earliest time at which there is work without an answer, a deadline or the end of the wait for
// a stream; zero if there is none.
func (r *decodeRun) nextWakeup(now time.Time) time.Time {
	next := r.nextDeadline()
	if check := now.Add(leastDeadline); r.adapts && check.Before(next) {
		next = check
	}
	for _, e := range r.unsent {
		if until, waits := r.waitsForStream(e, now); waits {
			next = earlierTime(next, until)
		}
	}
	return next
}

// The zero time is none.
func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// expireEscalations fails the questions past their deadline. The first failure can shorten the deadline of others.
func (r *decodeRun) expireEscalations(now time.Time) {
	for due := r.nextDeadline(); !due.IsZero() && !due.After(now); due = r.nextDeadline() {
		r.failEscalation(r.asked[0], ErrDeadline)
	}
}
