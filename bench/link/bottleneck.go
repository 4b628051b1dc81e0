package link

import "time"

// bottleneck is the narrow place of a direction: packets cross it one after the other, and those that cannot cross at
// once wait in a queue of limited length.
type bottleneck struct {
	rate  int64          // bytes per second, or
	trace *CapacityTrace // recorded chances; neither means that nothing is narrow
	begin time.Duration  // where in the trace time 0 lies
	limit int            // bytes that may wait

	waiting []crossing // not across yet, oldest first
	bytes   int        // of them
	free    time.Duration
	chance  int64 // of the trace that the last packet ended in; -1 before the first
	left    int   // bytes of that chance that nobody used
}

// crossing is a packet that waits or is on its way across.
type crossing struct {
	across time.Duration
	size   int
}

func newBottleneck(d Direction, begin time.Duration) bottleneck {
	return bottleneck{rate: d.Rate, trace: d.Capacity, begin: begin, limit: d.Queue, chance: -1}
}

// admit takes a packet that comes at a time not before that of the last one, and returns when all of it is across. It
// refuses a packet for which the queue has no room; one that finds the link idle is never refused.
func (b *bottleneck) admit(at time.Duration, size int) (across time.Duration, ok bool) {
	if b.rate == 0 && b.trace == nil {
		return at, true
	}
	if b.queued(at) > 0 && b.bytes+size > b.limit {
		return 0, false
	}
	if b.trace != nil {
		across = b.byTrace(at, size)
	} else {
		across = b.byRate(at, size)
	}
	b.waiting = append(b.waiting, crossing{across, size})
	b.bytes += size
	return across, true
}

// queued returns the bytes that are not across at a time.
func (b *bottleneck) queued(at time.Duration) int {
	for len(b.waiting) > 0 && b.waiting[0].across <= at {
		b.bytes -= b.waiting[0].size
		b.waiting = b.waiting[1:]
	}
	return b.bytes
}

// byRate: a packet starts when it is there and the one before it is across, and takes size/rate, rounded up.
func (b *bottleneck) byRate(at time.Duration, size int) time.Duration {
	takes := (int64(size)*int64(time.Second) + b.rate - 1) / b.rate
	b.free = max(b.free, at) + time.Duration(takes)
	return b.free
}

// byTrace: a packet is across with the chance that carries its last byte. A chance carries chanceBytes of whatever
// waits; what nobody waits for is gone.
func (b *bottleneck) byTrace(at time.Duration, size int) time.Duration {
	if next := b.trace.first(at + b.begin); next > b.chance {
		b.chance, b.left = next, chanceBytes
	}
	for size > b.left {
		size -= b.left
		b.chance, b.left = b.chance+1, chanceBytes
	}
	b.left -= size
	return b.trace.at(b.chance) - b.begin
}
