package link

// Stats has the statistics of a [Link].
type Stats struct {
	Up, Down Counts // towards the target, and back
}

// Counts has the counts of one direction. Every packet is counted in one place:
//
//	Packets = Delivered + Lost + Dropped + Vanished + Failed + InFlight
//
// Bytes are those of the datagrams, without headers.
type Counts struct {
	Packets, Bytes int64 // arrived
	Delivered      int64 // departed

	Lost     int64 // by chance
	Dropped  int64 // because the queue was full, or more than 64 MiB were under way
	Vanished int64 // in an outage: of a trace, or by [Link.Blackhole]
	Failed   int64 // the system refused to send

	InFlight int // packets under way now
}

func (c *Counts) countEnd(e packetEnd) {
	switch e {
	case lost:
		c.Lost++
	case tailDrop:
		c.Dropped++
	case vanished:
		c.Vanished++
	}
}
