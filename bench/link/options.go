package link

import "time"

// Limits of a running link.
const (
	maxClients  = 1024     // sockets of one Link towards its target
	maxInFlight = 64 << 20 // bytes under way in one direction
)

// headerBytes is the size of the IPv4 and UDP headers of a datagram.
const headerBytes = 28

// Options describe a [Link]. With only Target set the link is transparent.
type Options struct {
	Target string // address and port to forward to, numeric; there is no default

	Seed     uint64    // of all random events; any number, including 0
	Up, Down Direction // towards the target, and back

	// recorded round trips, which are added to the delay of the way down, repeated; nil means none
	RTT        *RTTTrace
	TraceStart time.Duration // position in RTT and Capacity at the beginning; 0 means their beginning
}

// Direction describes one direction of a link. The zero value is transparent.
type Direction struct {
	Delay    time.Duration  // minimum time from one end to the other, at most an hour; 0 means none
	Loss     float64        // independent probability of loss of each packet, in [0, 1]; 0 means none
	Capacity *CapacityTrace // recorded chances to send, repeated; nil means no limit
	// maximum bytes waiting for the Capacity, including headers, at most 64 MiB; 0 means 256 KiB
	Queue int
}

func (d Direction) withDefaults() Direction {
	if d.Queue == 0 {
		d.Queue = 256 << 10
	}
	return d
}
