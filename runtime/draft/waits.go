package draft

import (
	"slices"
	"time"
)

// Waits remembers how long the last answers of a cloud were waited for. The zero value knows of none. Texts that are
// decoded one after the other may share it.
type Waits struct {
	last [9]time.Duration // a ring
	n    int              // answers so far
}

// learn notes the time from a question to its answer.
func (w *Waits) learn(d time.Duration) {
	w.last[w.n%len(w.last)] = d
	w.n++
}

// likely is the median of the last times, the lower one of two; 0 where there are none. A single answer that was slow
// changes little.
func (w *Waits) likely() time.Duration {
	n := min(w.n, len(w.last))
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w.last[:n]))
	return sorted[(n-1)/2]
}
