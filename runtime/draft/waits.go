package draft

import (
	"slices"
	"time"
)

// Waits remembers how long the last answers of a cloud were waited for, and how often it is asked. The zero value knows
// of nothing. Texts that are decoded one after the other may share it.
type Waits struct {
	last   [9]time.Duration // a ring
	n      int              // answers so far
	median time.Duration    // of the last times, the lower one of two; 0 where there are none

	tokens, asked float64 // decisions, the old ones counting less and less, and those of them that were escalations
}

// decided notes whether a token is to be asked for.
func (w *Waits) decided(escalated bool) {
	const keep = 1 - 1./256
	w.tokens, w.asked = keep*w.tokens+1, keep*w.asked
	if escalated {
		w.asked++
	}
}

// share is how many of the next tokens are likely to be asked for: as many as of the last, beside a few.
func (w *Waits) share() float64 { return (w.asked + 0.5) / (w.tokens + 20) }

// learn notes the time from a question to its answer.
func (w *Waits) learn(d time.Duration) {
	w.last[w.n%len(w.last)] = d
	w.n++
	sorted := w.last // a copy
	n := min(w.n, len(sorted))
	slices.Sort(sorted[:n])
	w.median = sorted[(n-1)/2]
}

// likely is how long the next answer is probably waited for: the median, as a single answer that was slow changes it
// little.
func (w *Waits) likely() time.Duration { return w.median }
