package draft

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/retry"
)

const (
	firstPause = 200 * time.Millisecond // between a failed probe and the next one; doubles with each
	maxPause   = 5 * time.Second
)

// Breaker stops questions to a cloud that does not answer. A failure opens it: local tokens then stand at once, until a
// probe or a question that was still open succeeds. A probe is the question of an escalation that no token waits for;
// one is under way at a time, and the pause between them grows with each failure.
//
// The zero value is closed. Decoders of one cloud may share a breaker.
type Breaker struct {
	mu      sync.Mutex
	open    bool
	since   time.Time // when the question was asked that failed
	cause   error     // of that failure, or of the last probe
	probing bool
	probes  int       // failures in a row
	next    time.Time // min time of the next probe
}

// Open reports whether the cloud failed, and no question has succeeded since.
func (b *Breaker) Open() bool {
	_, open := b.openSince()
	return open
}

func (b *Breaker) openSince() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since, b.open
}

// recordFailure opens the breaker, after a question that was asked at sent.
func (b *Breaker) recordFailure(sent, now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		b.open, b.since, b.next, b.probes, b.cause = true, sent, now, 0, why
	}
}

// setCause notes why the cloud failed, which is known only after the deadline.
func (b *Breaker) setCause(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open && b.cause == ErrDeadline {
		b.cause = why
	}
}

func (b *Breaker) refusalError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return notAskedError(b.cause)
}

func (b *Breaker) recordSuccess() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

// startProbe reports whether to send a probe now. The caller ends it with endProbe.
func (b *Breaker) startProbe(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.probing || now.Before(b.next) {
		return false
	}
	b.probing = true
	return true
}

// endProbe ends a probe. why is nil unless it failed.
func (b *Breaker) endProbe(now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing = false; why != nil {
		b.probes++
		b.cause, b.next = why, now.Add(retry.Delay(b.probes, firstPause, maxPause))
	}
}
