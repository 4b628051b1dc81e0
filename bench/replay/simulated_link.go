package replay

import (
	"context"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/link"
	"github.com/pilotfish-ai/pilotfish/runtime/router"
)

// Link replaces the recorded link.
type Link struct {
	Options link.Options // delays, capacities, traces; no addresses and no losses
	Loss    float64      // of messages, each way, in [0, 1)
	Seed    uint64       // of the losses
}

const (
	// frameBytes is QUIC's overhead for a packet with a part of a stream: a short header with a connection id of eight
	// bytes, the header of the stream frame, and the authentication tag of 16 bytes.
	frameBytes = 36
	// ackDelay is how much longer than a round trip a sender waits for an acknowledgement: max_ack_delay of RFC 9000,
	// section 18.2, and the granularity of timers of RFC 9002.
	ackDelay   = 26 * time.Millisecond
	maxDoubled = 10 // maximum number of doublings of that time
)

// Directions, for the random losses.
const (
	upwards uint64 = iota
	downwards
)

// losesMessage reports whether a message is lost: a function of the seed and of its identity.
func (l *Link) losesMessage(message, direction, attempt uint64) bool {
	u := router.Draw(router.Draw(router.Draw(l.Seed, message), direction), attempt)
	return float64(u>>11)/(1<<53) < l.Loss
}

// simulatedLink is both directions of a link, for one text.
type simulatedLink struct {
	*Link
	ways  [2]*link.Way // by direction
	again time.Duration
}

// newSimulatedLink returns the link of an answer, which begins at its part of the traces.
func newSimulatedLink(l Link, of Of) *simulatedLink {
	o := &l.Options
	var length time.Duration
	if c := o.Up.Capacity; o.RTT != nil {
		length = o.RTT.Length()
	} else if c != nil {
		length = c.Length()
	} else if c := o.Down.Capacity; c != nil {
		length = c.Length()
	}
	o.TraceStart = time.Duration(of.Part * float64(length))
	l.Seed = lossSeed(l.Seed, of)
	up, down := link.Ways(*o)
	return &simulatedLink{&l, [2]*link.Way{up, down}, o.RoundTrip() + ackDelay}
}

// lossSeed returns the seed of the losses of an answer: the same in all modes.
func lossSeed(seed uint64, of Of) uint64 {
	return router.Draw(router.Draw(seed, uint64(of.Question)), uint64(of.Take))
}

// sendMessage sends a message with this number of bytes to the other side. It returns true when it has arrived, or
// false if ctx is done before. message identifies it.
func (t *Text) sendMessage(ctx context.Context, direction, message uint64, bytes int) bool {
	for attempt := 0; ; attempt++ {
		lost := t.link.losesMessage(message, direction, uint64(attempt))
		if at, ok := t.link.ways[direction].Send(t.elapsedTime(), bytes+frameBytes, lost); ok {
			return t.sleepFor(ctx, at-t.elapsedTime())
		}
		if !t.sleepFor(ctx, t.link.again<<min(attempt, maxDoubled)) {
			return false
		}
	}
}

func (t *Text) elapsedTime() time.Duration { return t.clock.Now().Sub(t.began) }

// sleepFor returns false if ctx is done before d has passed.
func (t *Text) sleepFor(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	return !t.clock.Sleep(d, func() bool { return ctx.Err() != nil })
}
