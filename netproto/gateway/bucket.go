package gateway

import (
	"sync"
	"time"
)

// bucket limits a rate: it holds up to burst permits and gains rate of them a second.
type bucket struct {
	rate, burst float64

	mu   sync.Mutex
	have float64
	last time.Time // when have was right
}

func newBucket(rate float64, burst int) *bucket {
	size := float64(burst)
	if burst <= 0 {
		size = max(2*rate, 8)
	}
	return &bucket{rate: rate, burst: size, have: size, last: time.Now()}
}

// take takes a permit, or says how long it will be until there is one.
func (b *bucket) take() (wait time.Duration) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.have = min(b.burst, b.have+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	if b.have < 1 {
		return max(time.Duration((1-b.have)/b.rate*float64(time.Second)), time.Microsecond) // 0 would say that it is taken
	}
	b.have--
	return 0
}
