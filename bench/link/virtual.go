package link

import (
	"fmt"
	"time"
)

// Way is one direction of a link without sockets or a clock: the same stages as in a running [Link], at moments that
// the caller tells. It is for one goroutine at a time.
type Way struct{ e *emulator }

// Ways returns the two directions of the link that o describes; its addresses are not looked at.
func Ways(o Options) (up, down *Way, err error) {
	if err := o.check(); err != nil {
		return nil, nil, fmt.Errorf("link: %w", err)
	}
	return &Way{newEmulator(o, wayUp)}, &Way{newEmulator(o, wayDown)}, nil
}

// Send says when a datagram arrives that leaves at a time since the link began, not before that of the last one, with
// so many bytes of payload; false where it does not arrive. Headers of IP and UDP come on top, as in [Options]. One
// that is lost uses its time on the link and does not arrive: the caller's chance takes the place of [Direction.Loss].
func (w *Way) Send(at time.Duration, bytes int, lost bool) (arrives time.Duration, ok bool) {
	w.e.Loss = 0
	if lost {
		w.e.Loss = 1
	}
	f := w.e.arrive(at, bytes+headerBytes)
	return f.due, f.end == departs
}

// Estimate is what the two ends of a connection know of the round trip at a time since the link began, by RFC 9002,
// section 5: the smoothed round trip and its variation, in which each recorded round trip until then counts as a
// sample, on top of the delays of both directions. Without a trace the variation is 0.
func (o *Options) Estimate(at time.Duration) (smoothed, variation time.Duration) {
	base := o.Up.Delay + o.Down.Delay
	if o.RTT == nil {
		return base, 0
	}
	smoothed, variation = o.RTT.estimate(at+o.TraceStart, o.RTTEnd)
	return base + smoothed, variation
}
