package link

import "time"

// emulator is one direction of a link as a function from arrivals to departures. It has no clock: its caller passes all
// times, since the link began.
type emulator struct {
	Direction
	dice   lossSource
	narrow bottleneck
	rtt    rttReplay
	n      uint64        // packets that arrived
	now    time.Duration // of the last arrival
	last   time.Duration // no later packet may depart before this time
}

// packetEnd is what happens to a packet.
type packetEnd uint8

const (
	departs  packetEnd = iota
	lost               // by chance
	tailDrop           // the queue was full
	vanished           // in an outage
)

// packetResult is the result for a packet.
type packetResult struct {
	n      uint64        // number of the packet in its direction, from 0
	end    packetEnd     // the fields below are only for a packet that departs
	across time.Duration // when it has crossed the bottleneck; also for lost and vanished packets
	due    time.Duration // when it departs
}

func newEmulator(o Options, w directionID) *emulator {
	d := o.Up
	if w == directionDown {
		d = o.Down
	}
	e := &emulator{
		Direction: d.withDefaults(),
		dice:      lossSource{seed: o.Seed, way: w},
		rtt:       rttReplay{trace: o.RTT, begin: o.TraceStart, adds: w == directionDown},
	}
	e.narrow = newBottleneck(e.Direction, o.TraceStart)
	return e
}

// emulatePacket decides what happens to the next packet: size bytes with headers that arrive at a time. A time before
// that of the last packet counts as equal to it.
func (e *emulator) emulatePacket(at time.Duration, size int) packetResult {
	e.now = max(e.now, at)
	f := packetResult{n: e.n}
	e.n++
	across, ok := e.narrow.admitPacket(e.now, size)
	if !ok {
		f.end = tailDrop
		return f
	}
	f.across = across
	recorded, ok := e.rtt.delayAt(across)
	switch {
	case !ok:
		f.end = vanished
	case e.dice.drawLoss(f.n) < e.Loss:
		f.end = lost
	default:
		e.last = max(across+e.Delay+recorded, e.last) // it does not overtake earlier ones
		f.due = e.last
	}
	return f
}
