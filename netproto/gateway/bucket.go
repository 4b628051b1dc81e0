package gateway

import (
	"sync"
	"time"
)

// bucket limits a rate: it holds up to burst permits and gains rate permits per second. A nil bucket, or one with a
// rate of 0, has no limit.
type bucket struct {
	rate, burst float64

	mu   sync.Mutex
	have float64
	last time.Time // when have was computed
}

// newBucket returns a full bucket, or nil for a rate of 0. A burst of 0 means twice the rate, at least 8.
func newBucket(rate float64, burst int) *bucket {
	if rate <= 0 {
		return nil
	}
	b := new(bucket)
	b.set(rate, burst)
	return b
}

// set changes the limits. Permits that were used under the old limits stay used.
func (b *bucket) set(rate float64, burst int) {
	size := float64(burst)
	if burst <= 0 {
		size = max(2*rate, 8)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	if b.rate <= 0 {
		b.have = size
	}
	b.rate, b.burst = rate, size // fill drops what exceeds the burst
}

// take takes a permit, or returns how long it will be until there is one.
func (b *bucket) take() (wait time.Duration) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate <= 0 {
		return 0
	}
	b.fill()
	if b.have < 1-1e-9 { // sums of fractions need not be exactly 1
		return max(time.Duration((1-b.have)/b.rate*float64(time.Second)), 1) // 0 would mean success
	}
	b.have = max(0, b.have-1)
	return 0
}

// full reports whether the bucket equals a new one.
func (b *bucket) full() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	return b.rate <= 0 || b.have >= b.burst
}

// fill adds the permits gained since the last call. The caller holds the lock.
func (b *bucket) fill() {
	now := time.Now()
	b.have = min(b.burst, b.have+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
}
