package link

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"
)

// Limits that prevent overflow of sums of times and bytes.
const (
	maxDelay    = time.Hour
	maxQueue    = 64 << 20
	maxRate     = 1 << 40
	maxStart    = 365 * 24 * time.Hour
	maxClients  = 1024     // sockets of one Link towards its target
	maxInFlight = 64 << 20 // bytes under way in one direction
)

// headerBytes is the size of the IPv4 and UDP headers of a datagram.
const headerBytes = 28

// ErrOption is the cause of every error of [New] because of its options.
var ErrOption = errors.New("bad option")

// Options describe a [Link]. With only Target set the link is transparent.
type Options struct {
	Listen string // address and port to listen on, numeric, of loopback; "" means 127.0.0.1 and any free port
	Target string // address and port to forward to, numeric, of loopback; there is no default

	Seed     uint64    // of all random events; any number, including 0
	Up, Down Direction // towards the target, and back

	// recorded round trips, which are added to the delay of the way down, repeated; nil means none
	RTT        *RTTTrace
	TraceStart time.Duration // position in RTT and Capacity at the beginning, 0 to a year; 0 means their beginning
}

// Direction describes one direction of a link. The zero value is transparent.
type Direction struct {
	Delay time.Duration // minimum time from one end to the other, at most an hour; 0 means none
	Loss  float64       // independent probability of loss of each packet, in [0, 1]; 0 means none
	// bytes per second, including headers, at most 2⁴⁰; 0 means no limit; not together with Capacity
	Rate     int64
	Capacity *CapacityTrace // recorded chances to send instead of a Rate, repeated; nil means none
	// maximum bytes waiting for Rate or Capacity, including headers, at most 64 MiB; 0 means 256 KiB
	Queue int
}

// filled returns d with its defaults.
func (d Direction) filled() Direction {
	if d.Queue == 0 {
		d.Queue = 256 << 10
	}
	return d
}

// check returns an error for invalid options, except addresses.
func (o Options) check() error {
	return errors.Join(
		o.Up.check("Up"), o.Down.check("Down"),
		within("TraceStart", o.TraceStart, 0, maxStart),
		o.RTT.check(),
	)
}

// check returns an error for an invalid direction with that name.
func (d Direction) check(name string) error {
	name += "."
	err := errors.Join(
		within(name+"Delay", d.Delay, 0, maxDelay),
		within(name+"Loss", d.Loss, 0, 1),
		within(name+"Rate", d.Rate, 0, maxRate),
		within(name+"Queue", d.Queue, 0, maxQueue),
	)
	if d.Rate != 0 && d.Capacity != nil {
		err = errors.Join(err, fmt.Errorf("%w: %sRate and %sCapacity: set only one of them", ErrOption, name, name))
	}
	if d.Capacity != nil && len(d.Capacity.chances) == 0 {
		err = errors.Join(err, fmt.Errorf("%w: %sCapacity: was not read from a trace", ErrOption, name))
	}
	return err
}

// within returns an error unless v is in [low, high].
func within[T ~int64 | ~int | ~float64](name string, v, low, high T) error {
	if v >= low && v <= high && !math.IsNaN(float64(v)) {
		return nil
	}
	return fmt.Errorf("%w: %s: %v is not in [%v, %v]", ErrOption, name, v, low, high)
}

// loopback parses an address of this machine.
func loopback(name, s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: %s: %w", ErrOption, name, err)
	case !a.Addr().Unmap().IsLoopback():
		return a, fmt.Errorf("%w: %s: %s is not of loopback", ErrOption, name, s)
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}
