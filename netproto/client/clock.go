package client

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// clock estimates how far the clock of a gateway is ahead of this machine's, from the asks of one connection, as NTP
// does (RFC 5905, section 8): each ask gives four times, and if both ways took as long as each other, the offset is the
// mean of what they show. It is wrong by half of the round trip at most. Of the last asks, the one with the least
// round trip counts: the least of it was spent in queues. Clocks drift apart, so that older ones are forgotten.
type clock struct {
	mu   sync.Mutex
	zero time.Time // of both clocks, each on its own; set with the first sample
	last [16]sample
	n    int // samples so far
}

// sample is what one ask says.
type sample struct {
	ahead     time.Duration // of the gateway's clock
	roundTrip time.Duration // without the time in the gateway
}

// learn takes the times of an ask and returns them on this machine's clock. A gateway cannot have had the ask before it
// left, nor answer after the answer came; where it claims to have had it for longer than that all took, it tells
// nothing.
func (c *clock) learn(left, arrived time.Time, theirs netproto.Clock) terms.Times {
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
	best := c.best()
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

// best is the sample with the least round trip; of those that are alike, the last one counts.
func (c *clock) best() sample {
	best := c.last[(c.n-1)%len(c.last)]
	for i := range min(c.n, len(c.last)) {
		if s := c.last[i]; s.roundTrip < best.roundTrip {
			best = s
		}
	}
	return best
}
