package draft

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/backoff"
)

const (
	firstPause = 200 * time.Millisecond // between a failed probe and the next one; doubles with each
	maxPause   = 5 * time.Second
)

// Breaker remembers whether the cloud answers. A failure opens it: escalations are then not waited for, until a probe
// or a question that was still open succeeds. A probe is the question of an escalation, asked on the side; one is under
// way at a time, and failures space them out.
//
// The zero value is closed. Decoders of one cloud may share a breaker.
type Breaker struct {
	mu      sync.Mutex
	open    bool
	since   time.Time // when the question was asked whose failure opened it
	cause   error     // of the failure that opened it, or of the last probe
	probing bool
	probes  int       // that failed in a row
	next    time.Time // no probe before
}

// Open reports whether the cloud failed and nothing has succeeded since.
func (b *Breaker) Open() bool {
	_, open := b.openSince()
	return open
}

func (b *Breaker) openSince() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since, b.open
}

// failed notes that a question asked at sent has failed, and why.
func (b *Breaker) failed(sent, now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		b.open, b.since, b.next, b.probes, b.cause = true, sent, now, 0, why
	}
}

// explain notes why the cloud failed, which is known only some time after a deadline.
func (b *Breaker) explain(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open && b.cause == ErrDeadline {
		b.cause = why
	}
}

// refusal returns the error of a question that is not asked while the breaker is open.
func (b *Breaker) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return notAsked(b.cause)
}

// succeeded notes an answer.
func (b *Breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

// startProbe reports whether a probe is to be sent now. The caller ends it with endProbe or probeFailed.
func (b *Breaker) startProbe(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open || b.probing || now.Before(b.next) {
		return false
	}
	b.probing = true
	return true
}

// probeFailed ends a probe that failed at now, and notes why.
func (b *Breaker) probeFailed(now time.Time, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing, b.cause = false, why
	b.probes++
	b.next = now.Add(backoff.Delay(b.probes, firstPause, maxPause))
}

// endProbe ends a probe that succeeded or was given up.
func (b *Breaker) endProbe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}
