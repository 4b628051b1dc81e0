package link

import "time"

// Stats is what a [Link] did so far.
type Stats struct {
	Up, Down Counts // towards the target, and back
	Clients  int    // addresses that datagrams came from
	Refused  int64  // datagrams of a client that there was no socket for: there are at most 1024
}

// Counts is what one direction did so far. Every packet is in one place:
//
//	Packets + Duplicated = Delivered + Lost + Dropped + Vanished + Failed + InFlight
//
// Bytes are those of the datagrams, without headers.
type Counts struct {
	Packets, Bytes            int64 // that came
	Delivered, DeliveredBytes int64 // that departed, copies included
	Duplicated                int64 // copies
	Reordered                 int64 // that departed after one that came later; counted in Delivered as well

	Lost     int64 // by chance
	Dropped  int64 // because the queue was full, or more than 64 MiB under way
	Vanished int64 // in an outage: of a trace, or by [Link.Blackhole]
	Failed   int64 // that the system refused to send

	InFlight int // packets under way now
	Queue    int // bytes with headers that wait for Rate or Capacity now
	MaxQueue int // the most that did

	// between the moment a packet was due and its departure, of all that were delivered
	LateTotal, LateMax time.Duration
}

// ending counts a packet that does not depart.
func (c *Counts) ending(e end) {
	switch e {
	case lost:
		c.Lost++
	case tailDrop:
		c.Dropped++
	case vanished:
		c.Vanished++
	}
}

// late counts the lateness of a packet.
func (c *Counts) late(by time.Duration) {
	c.LateTotal += by
	c.LateMax = max(c.LateMax, by)
}
