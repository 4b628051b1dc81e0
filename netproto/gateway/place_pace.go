package gateway

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// placePace is how soon places become free while asks wait for them, and what follows for asks that have only so much
// time. It is learned from asks that end meanwhile, by their number and by their tokens. Both are lower bounds, as an
// engine takes some time for each ask and some for each of its tokens: for large asks after small ones the time by
// number is too short, for small ones after large ones that by tokens. So the shorter one of both is taken.
type placePace struct {
	places int
	window paceWindow
	ask    time.Duration // at least, from one that ends to the next; 0: not known yet
	token  time.Duration // of the asks that end
	retry  fair.RetryTimes
}

// paceWindow is the asks that have ended since a time.
type paceWindow struct {
	since        time.Time // 0: no ask waits
	asks, tokens int
}

// learnRelease learns from an ask that ends, 0 tokens if nothing was asked, and whether others waited for its place.
func (p *placePace) learnRelease(tokens int, waited bool, now time.Time) {
	w := &p.window
	if !waited || w.since.IsZero() {
		*w = paceWindow{}
		if waited {
			w.since = now
		}
		return
	}
	if tokens == 0 {
		return
	}
	w.asks, w.tokens = w.asks+1, w.tokens+tokens
	if w.asks < max(p.places, 8) { // as many as begin together, so that their ends say something
		return
	}
	took := now.Sub(w.since)
	fair.LearnLeast(&p.ask, took/time.Duration(w.asks))
	fair.LearnLeast(&p.token, took/time.Duration(w.tokens))
	*w = paceWindow{since: now}
}

// lateBy returns by how much an ask that waits will be answered after its time because of those before it, if no others
// come; 0 if it may be answered in time. One that would be late even alone is not refused: what the engine computes in
// its time is there for the next one of its session.
func (p *placePace) lateBy(
	t *fair.Entry[*waitingAsk], queue *fair.Queue[*waitingAsk], within time.Duration,
) time.Duration {
	if p.ask == 0 {
		return 0
	}
	largest := uint64(1)
	for other := range queue.All {
		largest = max(largest, other.Work())
	}
	token := min(p.token, p.ask/time.Duration(largest))
	alone := time.Duration(p.places) * time.Duration(t.Work()) * token
	if alone > within {
		return 0
	}
	return max(0, time.Duration(queue.Ahead(t))*token+alone-within)
}
