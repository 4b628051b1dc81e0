package link

import "time"

// emulator is one direction of a link as a function from arrivals to departures. It has no clock: its caller passes all
// times, since the link began.
type emulator struct {
	Direction
	dice   dice
	narrow bottleneck
	rtt    rttReplay
	n      uint64        // packets that arrived
	now    time.Duration // of the last arrival
	last   time.Duration // no later packet may depart before this time
}

// end is the end of a packet's way.
type end uint8

const (
	departs  end = iota
	lost         // by chance
	tailDrop     // the queue was full
	vanished     // in an outage
)

// fate is the result for a packet.
type fate struct {
	n      uint64        // number of the packet in its direction, from 0
	end    end           // the fields below are only for a packet that departs
	across time.Duration // when it has crossed the bottleneck; also for lost and vanished packets
	due    time.Duration // when it departs
}

// newEmulator returns one direction of the link with options o.
func newEmulator(o Options, w way) *emulator {
	d := o.Up
	if w == wayDown {
		d = o.Down
	}
	e := &emulator{
		Direction: d.filled(),
		dice:      dice{seed: o.Seed, way: w},
		rtt:       rttReplay{trace: o.RTT, begin: o.TraceStart, adds: w == wayDown},
	}
	e.narrow = newBottleneck(e.Direction, o.TraceStart)
	return e
}

// arrive decides the fate of the next packet: size bytes with headers that arrive at a time. A time before that of the
// last packet counts as equal to it.
func (e *emulator) arrive(at time.Duration, size int) fate {
	e.now = max(e.now, at)
	f := fate{n: e.n}
	e.n++
	across, ok := e.narrow.admit(e.now, size)
	if !ok {
		f.end = tailDrop
		return f
	}
	f.across = across
	recorded, ok := e.rtt.at(across)
	switch {
	case !ok:
		f.end = vanished
	case e.dice.of(f.n) < e.Loss:
		f.end = lost
	default:
		e.last = max(across+e.Delay+recorded, e.last) // it does not overtake earlier ones
		f.due = e.last
	}
	return f
}
