package link

import "time"

// Stats has the statistics of a [Link].
type Stats struct {
	Up, Down Counts // towards the target, and back
	Clients  int    // number of source addresses
	Refused  int64  // datagrams of clients without a socket: there are at most 1024
}

// Counts has the counts of one direction. Every packet is counted in one place:
//
//	Packets = Delivered + Lost + Dropped + Vanished + Failed + InFlight
//
// Bytes are those of the datagrams, without headers.
type Counts struct {
	Packets, Bytes            int64 // arrived
	Delivered, DeliveredBytes int64 // departed

	Lost     int64 // by chance
	Dropped  int64 // because the queue was full, or more than 64 MiB were under way
	Vanished int64 // in an outage: of a trace, or by [Link.Blackhole]
	Failed   int64 // the system refused to send

	InFlight int // packets under way now
	Queue    int // bytes with headers that wait for Rate or Capacity now
	MaxQueue int // maximum of Queue so far

	// time between due and actual departure, of all delivered packets
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
