package client

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// clock estimates the offset of a gateway's clock from this machine's, from the asks of one connection, as NTP does
// (RFC 5905, section 8). Each ask gives four times. If both directions took the same time, the offset is the mean of
// the two differences; the error is half of the round trip at most. Of the recent asks the one with the shortest round
// trip is used, since it spent the least time in queues. Clocks drift, so old samples are dropped.
type clock struct {
	mu   sync.Mutex
	zero time.Time // of both clocks; set with the first sample
	last [16]sample
	n    int // samples so far
}

// sample is the result of one ask.
type sample struct {
	ahead     time.Duration // of the gateway's clock
	roundTrip time.Duration // without the time in the gateway
}

// addSample takes the times of an ask and returns them on this machine's clock. A gateway cannot have received the ask
// before it was sent, nor sent the answer after it arrived. If it reports a longer time than the whole exchange took,
// its times are ignored.
func (c *clock) addSample(left, arrived time.Time, theirs netproto.Clock) terms.Times {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zero.IsZero() {
		c.zero = left
	}
	roundTrip := arrived.Sub(left) - (theirs.Sent - theirs.Received)
	if roundTrip < 0 {
		return terms.Times{}
	}
	there, back := theirs.Received-left.Sub(c.zero), theirs.Sent-arrived.Sub(c.zero)
	c.last[c.n%len(c.last)] = sample{there/2 + back/2, roundTrip}
	c.n++
	best := c.bestSample()
	within := func(their time.Duration) time.Time {
		t := c.zero.Add(their - best.ahead)
		if t.Before(left) {
			return left
		}
		if t.After(arrived) {
			return arrived
		}
		return t
	}
	return terms.Times{
		Left: left, Arrived: arrived, Received: within(theirs.Received), Sent: within(theirs.Sent),
		Within: best.roundTrip / 2,
	}
}

// bestSample returns the sample with the shortest round trip, the latest of them if there are several.
func (c *clock) bestSample() sample {
	best := c.last[(c.n-1)%len(c.last)]
	for i := range min(c.n, len(c.last)) {
		if s := c.last[i]; s.roundTrip < best.roundTrip {
			best = s
		}
	}
	return best
}
