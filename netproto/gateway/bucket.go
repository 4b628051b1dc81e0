package gateway

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

func newBucket(perSecond float64, burst int) *rate.Limiter {
	b := rate.NewLimiter(rate.Inf, math.MaxInt32)
	setBucket(b, perSecond, burst)
	return b
}

// setBucket changes the limits. A rate of 0 means no limit, a burst of 0 twice the rate, at least 8. Permits that were
// used under the old limits stay used.
func setBucket(b *rate.Limiter, perSecond float64, burst int) {
	limit := rate.Limit(perSecond)
	if burst <= 0 {
		burst = int(min(max(2*perSecond, 8), math.MaxInt32))
	}
	if perSecond <= 0 {
		limit, burst = rate.Inf, math.MaxInt32
	}
	b.SetLimit(limit)
	b.SetBurst(burst)
}

// takePermit takes a permit, or returns how long it will be until there is one.
func takePermit(b *rate.Limiter) (wait time.Duration) {
	if b.Allow() {
		return 0
	}
	return max(time.Duration((1-b.Tokens())/float64(b.Limit())*float64(time.Second)), 1) // 0 would mean success
}

func isFull(b *rate.Limiter) bool { return b.Limit() == rate.Inf || b.Tokens() >= float64(b.Burst()) }
