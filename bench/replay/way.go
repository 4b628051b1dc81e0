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
	Loss    float64      // of packets, each way, in [0, 1)
	Seed    uint64       // of the losses
}

const (
	// packetBytes is the part of a message in a packet: the minimum that every path supports (RFC 9000, section 14).
	packetBytes = 1200
	// frameBytes is QUIC's overhead for a packet with a part of a stream: a short header with a connection id of eight
	// bytes, the header of the stream frame, and the authentication tag of 16 bytes.
	frameBytes = 36

	granularity = time.Millisecond      // of timers: kGranularity of RFC 9002
	ackDelay    = 25 * time.Millisecond // max_ack_delay of RFC 9000, section 18.2
	maxDoubled  = 10                    // maximum number of doublings of the probe timeout
)

// Directions, for the random losses.
const (
	upwards uint64 = iota
	downwards
)

// timeout returns the probe timeout of RFC 9002, section 6.2.1, after a number of failed attempts.
func timeout(smoothed, variation time.Duration, attempts int) time.Duration {
	return (smoothed + max(4*variation, granularity) + ackDelay) << min(attempts, maxDoubled)
}

// loses reports whether a packet is lost: a function of the seed and of the packet's identity.
func (l *Link) loses(message, direction, packet, attempt uint64) bool {
	u := router.Draw(router.Draw(router.Draw(l.Seed, message), direction), packet<<16|attempt)
	return float64(u>>11)/(1<<53) < l.Loss
}

// pipe is both directions of a link, for one text.
type pipe struct {
	*Link
	up, down *link.Way
}

// carry sends a message with this number of bytes to the other side, and returns when it has arrived, or false if ctx
// is done before. message identifies it.
func (t *Text) carry(ctx context.Context, direction, message uint64, bytes int) bool {
	w := t.pipe.up
	if direction == downwards {
		w = t.pipe.down
	}
	left := make([]uint64, max(1, (bytes+packetBytes-1)/packetBytes))
	for i := range left {
		left[i] = uint64(i)
	}
	there := t.passed()
	for attempt := 0; ; attempt++ {
		now := t.passed()
		var lost []uint64
		for _, n := range left {
			size := min(packetBytes, max(0, bytes-int(n)*packetBytes)) + frameBytes
			at, ok := w.Send(now, size, t.pipe.loses(message, direction, n, uint64(attempt)))
			if ok {
				there = max(there, at)
			} else {
				lost = append(lost, n)
			}
		}
		if len(lost) == 0 {
			return t.rest(ctx, there-t.passed())
		}
		smoothed, variation := t.pipe.Options.Estimate(now)
		if !t.rest(ctx, timeout(smoothed, variation, attempt)) {
			return false
		}
		left = lost
	}
}

// passed returns the time since the text began.
func (t *Text) passed() time.Duration { return t.clock.Now().Sub(t.began) }

// rest waits for d. It returns false if ctx is done before.
func (t *Text) rest(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	return !t.clock.Sleep(d, func() bool { return ctx.Err() != nil })
}
