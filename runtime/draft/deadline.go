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
func (q *openQuestions) answerTimeout() time.Duration {
	if !q.adapts {
		return q.Deadline
	}
	d := max(leastDeadline, 3*q.lately.median)
	if !q.heard {
		d += time.Duration(q.prompt) * readingTime
	}
	return min(d, mostDeadline)
}

func (q *openQuestions) isConnected() bool {
	c, ok := q.cloud.(Connection)
	return !ok || c.Connected()
}

// escalationDeadline returns the deadline of e. After a failure all questions share the deadline of the failed one, so
// that a dead cloud costs one deadline for any number of questions.
func (q *openQuestions) escalationDeadline(e *escalation) time.Time {
	patience := q.answerTimeout()
	if q.adapts && !q.isConnected() {
		patience = leastDeadline
	}
	due := e.sent.Add(patience)
	if since, open := q.Breaker.openSince(); open {
		if all := since.Add(patience); all.Before(due) {
			return all
		}
	}
	return due
}

// nextDeadline returns the earliest deadline, that of the question that was sent first; zero if there is none. A
// deadline that follows the cloud ends earlier if the connection is lost.
func (q *openQuestions) nextDeadline() (next time.Time) {
	if q.Deadline < 0 || len(q.asked) == 0 {
		return next
	}
	return q.escalationDeadline(q.asked[0])
}

// nextWakeup returns the earliest time at which there is work without an answer, a deadline or the end of the wait for
// a stream; zero if there is none.
func (r *decodeRun) nextWakeup(now time.Time) time.Time {
	next := r.questions.nextDeadline()
	if check := now.Add(leastDeadline); r.adapts && check.Before(next) {
		next = check
	}
	for _, e := range r.questions.unsent {
		if until, waits := r.streams.waitsForStream(e, now, r.questions.answerTimeout()); waits {
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
	for due := r.questions.nextDeadline(); !due.IsZero() && !due.After(now); due = r.questions.nextDeadline() {
		r.failEscalation(r.questions.asked[0], ErrDeadline)
	}
}
