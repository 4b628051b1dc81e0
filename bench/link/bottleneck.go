package link

import "time"

// bottleneck is the bottleneck of a direction: packets cross it in sequence, and wait in a queue of limited length.
type bottleneck struct {
	trace *CapacityTrace // recorded chances; nil: there is no bottleneck
	begin time.Duration  // position in the trace at time 0
	limit int            // maximum size of the queue in bytes

	waiting []queuedPacket // packets that have not crossed yet, oldest first
	bytes   int            // of these
	chance  int64          // of the trace, in which the last packet ended; -1 before the first
	left    int            // unused bytes of that chance
}

// queuedPacket is a packet in the queue or on its way across.
type queuedPacket struct {
	across time.Duration
	size   int
}

func newBottleneck(d Direction, begin time.Duration) bottleneck {
	return bottleneck{trace: d.Capacity, begin: begin, limit: d.Queue, chance: -1}
}

// admitPacket takes a packet that arrives not before the previous one, and returns when it has crossed completely. It
// refuses a packet without room in the queue; a packet at an idle link is never refused.
func (b *bottleneck) admitPacket(at time.Duration, size int) (across time.Duration, ok bool) {
	if b.trace == nil {
		return at, true
	}
	if b.queuedBytes(at) > 0 && b.bytes+size > b.limit {
		return 0, false
	}
	across = b.crossingTime(at, size)
	b.waiting = append(b.waiting, queuedPacket{across, size})
	b.bytes += size
	return across, true
}

func (b *bottleneck) queuedBytes(at time.Duration) int {
	for len(b.waiting) > 0 && b.waiting[0].across <= at {
		b.bytes -= b.waiting[0].size
		b.waiting = b.waiting[1:]
	}
	return b.bytes
}

// crossingTime computes the crossing with a trace: a packet has crossed with the chance that carries its last byte. A
// chance carries chanceBytes of the waiting packets; unused bytes are lost.
func (b *bottleneck) crossingTime(at time.Duration, size int) time.Duration {
	if next := b.trace.firstChance(at + b.begin); next > b.chance {
		b.chance, b.left = next, chanceBytes
	}
	for size > b.left {
		size -= b.left
		b.chance, b.left = b.chance+1, chanceBytes
	}
	b.left -= size
	return b.trace.chanceTime(b.chance) - b.begin
}
