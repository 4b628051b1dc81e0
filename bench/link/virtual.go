package link

import "time"

// Way is one direction of a link without sockets or a clock: the same stages as in a running [Link], at times that the
// caller passes. It is not safe for concurrent use.
type Way struct{ e *emulator }

// Ways returns the two directions of a link with options o, ignoring its addresses.
func Ways(o Options) (up, down *Way) {
	return &Way{newEmulator(o, directionUp)}, &Way{newEmulator(o, directionDown)}
}

// Send returns when a datagram arrives that leaves at a time since the link began, not before the previous one, with
// the given number of bytes of payload; false if it does not arrive. Headers of IP and UDP are added, as in [Options].
// A lost datagram uses its time on the link and does not arrive: the caller decides about losses instead of
// [Direction.Loss].
func (w *Way) Send(at time.Duration, bytes int, lost bool) (arrives time.Duration, ok bool) {
	w.e.Loss = 0
	if lost {
		w.e.Loss = 1
	}
	f := w.e.emulatePacket(at, bytes+headerBytes)
	return f.due, f.end == departs
}

// RoundTrip returns the mean round trip of small packets, without a queue.
func (o *Options) RoundTrip() time.Duration {
	mean := o.Up.Delay + o.Down.Delay
	if o.RTT != nil {
		mean += o.RTT.meanRTT()
	}
	return mean
}
