package draft

import (
	"slices"
	"time"
)

// Waits holds the waits for the last answers of a cloud, and how often it is asked. The zero value holds none. Texts
// that are decoded one after the other may share it.
type Waits struct {
	last [9]time.Duration // a ring
	n    int              // answers so far
	// median of the last times, the lower one of two; 0 if there are none. It is how long the next answer is likely to
	// take: one slow answer changes it little.
	median time.Duration

	pace time.Duration // between the last tokens ahead

	tokens, asked float64 // decisions, and of these, escalations; older ones count less
}

func (w *Waits) recordDecision(escalated bool) {
	const keep = 1 - 1./256
	w.tokens, w.asked = keep*w.tokens+1, keep*w.asked
	if escalated {
		w.asked++
	}
}

func (w *Waits) escalationShare() float64 { return (w.asked + 0.5) / (w.tokens + 20) }

func (w *Waits) recordWait(d time.Duration) {
	w.last[w.n%len(w.last)] = d
	w.n++
	sorted := w.last // a copy
	n := min(w.n, len(sorted))
	slices.Sort(sorted[:n])
	w.median = sorted[(n-1)/2]
}
