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

// loses reports whether a message is lost: a function of the seed and of its identity.
func (l *Link) loses(message, direction, attempt uint64) bool {
	u := router.Draw(router.Draw(router.Draw(l.Seed, message), direction), attempt)
	return float64(u>>11)/(1<<53) < l.Loss
}

// pipe is both directions of a link, for one text.
type pipe struct {
	*Link
	ways  [2]*link.Way // by direction
	again time.Duration
}

// newPipe returns the link of an answer, which begins at its part of the traces.
func newPipe(l Link, of Of) *pipe {
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
	l.Seed = seedOf(l.Seed, of)
	up, down := link.Ways(*o)
	return &pipe{&l, [2]*link.Way{up, down}, o.RoundTrip() + ackDelay}
}

// seedOf returns the seed of the losses of an answer: the same in all modes.
func seedOf(seed uint64, of Of) uint64 {
	return router.Draw(router.Draw(seed, uint64(of.Question)), uint64(of.Take))
}

// carry sends a message with this number of bytes to the other side, and returns when it has arrived, or false if ctx
// is done before. message identifies it.
func (t *Text) carry(ctx context.Context, direction, message uint64, bytes int) bool {
	for attempt := 0; ; attempt++ {
		lost := t.pipe.loses(message, direction, uint64(attempt))
		if at, ok := t.pipe.ways[direction].Send(t.passed(), bytes+frameBytes, lost); ok {
			return t.rest(ctx, at-t.passed())
		}
		if !t.rest(ctx, t.pipe.again<<min(attempt, maxDoubled)) {
			return false
		}
	}
}

func (t *Text) passed() time.Duration { return t.clock.Now().Sub(t.began) }

// rest waits for d. It returns false if ctx is done before.
func (t *Text) rest(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	return !t.clock.Sleep(d, func() bool { return ctx.Err() != nil })
}
