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

	RTT    *RTTTrace // recorded round trips, which are added to the delay of the way down; nil means none
	RTTEnd TraceEnd  // what happens after the end of RTT; the zero value is Loop
	// rows of RTT above this are an outage in which packets are dropped; 0 means they are late, as recorded
	RTTOutage  time.Duration
	TraceStart time.Duration // position in RTT and Capacity at the beginning, 0 to a year; 0 means their beginning
}

// Direction describes one direction of a link. The zero value is transparent.
type Direction struct {
	Delay      time.Duration // minimum time from one end to the other, at most an hour; 0 means none
	Jitter     time.Duration // random additional time, see JitterKind, at most an hour; 0 means none
	JitterKind Distribution  // distribution of the additional time; the zero value is Uniform

	Loss  float64 // independent probability of loss of each packet, in [0, 1]; 0 means none
	Burst Burst   // losses in bursts, in addition to Loss; the zero value means none

	// probability of each packet, in [0, 1], to be held back so that others overtake it; 0 means none
	Reorder   float64
	ReorderBy time.Duration // how long it is held back, at most an hour; 0 means 10ms
	Duplicate float64       // probability of each packet, in [0, 1], to arrive twice; 0 means none

	// bytes per second, including headers, at most 2⁴⁰; 0 means no limit; not together with Capacity
	Rate     int64
	Capacity *CapacityTrace // recorded chances to send instead of a Rate, repeated; nil means none
	// maximum bytes waiting for Rate or Capacity, including headers, at most 64 MiB; 0 means 256 KiB
	Queue int
}

// Distribution is the distribution of a jitter J.
type Distribution uint8

const (
	Uniform     Distribution = iota // in [0, J), mean J/2
	Exponential                     // with mean J, cut at 10·J: most packets on time, few very late, as on Wi-Fi
)

// TraceEnd determines what happens after the end of a trace.
type TraceEnd uint8

const (
	Loop  TraceEnd = iota // repeat from the beginning
	Clamp                 // keep the last row
)

// Burst is the model of Gilbert and Elliott: a Markov chain with a good and a bad state that takes one step per packet.
// The share of packets in the bad state is ToBad/(ToBad+ToGood), and it lasts for 1/ToGood packets on average.
type Burst struct {
	ToBad    float64 // probability per packet, in [0, 1], to go from good to bad; 0 means no bursts
	ToGood   float64 // probability per packet, in (0, 1], to go from bad to good; required if ToBad is set
	LossBad  float64 // probability of loss in the bad state, in [0, 1]; 0 means 1
	LossGood float64 // probability of loss in the good state, in [0, 1]; 0 means none
}

// filled returns d with its defaults.
func (d Direction) filled() Direction {
	if d.ReorderBy == 0 {
		d.ReorderBy = 10 * time.Millisecond
	}
	if d.Queue == 0 {
		d.Queue = 256 << 10
	}
	if d.Burst.LossBad == 0 {
		d.Burst.LossBad = 1
	}
	return d
}

// check returns an error for invalid options, except addresses.
func (o Options) check() error {
	return errors.Join(
		o.Up.check("Up"), o.Down.check("Down"),
		within("RTTOutage", o.RTTOutage, 0, maxDelay),
		within("TraceStart", o.TraceStart, 0, maxStart),
		within("RTTEnd", o.RTTEnd, Loop, Clamp),
		o.RTT.check(),
	)
}

// check returns an error for an invalid direction with that name.
func (d Direction) check(name string) error {
	name += "."
	err := errors.Join(
		within(name+"Delay", d.Delay, 0, maxDelay),
		within(name+"Jitter", d.Jitter, 0, maxDelay),
		within(name+"JitterKind", d.JitterKind, Uniform, Exponential),
		within(name+"Loss", d.Loss, 0, 1),
		within(name+"Burst.ToBad", d.Burst.ToBad, 0, 1),
		within(name+"Burst.ToGood", d.Burst.ToGood, 0, 1),
		within(name+"Burst.LossBad", d.Burst.LossBad, 0, 1),
		within(name+"Burst.LossGood", d.Burst.LossGood, 0, 1),
		within(name+"Reorder", d.Reorder, 0, 1),
		within(name+"ReorderBy", d.ReorderBy, 0, maxDelay),
		within(name+"Duplicate", d.Duplicate, 0, 1),
		within(name+"Rate", d.Rate, 0, maxRate),
		within(name+"Queue", d.Queue, 0, maxQueue),
	)
	if d.Burst.ToBad > 0 && d.Burst.ToGood == 0 {
		err = errors.Join(err, fmt.Errorf("%w: %sBurst.ToGood: must be set if ToBad is set", ErrOption, name))
	}
	if d.Rate != 0 && d.Capacity != nil {
		err = errors.Join(err, fmt.Errorf("%w: %sRate and %sCapacity: set only one of them", ErrOption, name, name))
	}
	if d.Capacity != nil && len(d.Capacity.chances) == 0 {
		err = errors.Join(err, fmt.Errorf("%w: %sCapacity: was not read from a trace", ErrOption, name))
	}
	return err
}

// within returns an error unless v is in [low, high].
func within[T ~int64 | ~int | ~uint8 | ~float64](name string, v, low, high T) error {
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
