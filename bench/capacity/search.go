package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

const (
	// MaxDevices is the largest number of devices that is simulated.
	MaxDevices = 100_000
	// A simulated percentile rests on as many answers as have manyTokens, from minAnswers to maxAnswers, and on
	// perDevice of each device on average.
	manyTokens, minAnswers, maxAnswers, perDevice = 1_000_000, 1000, 10_000, 3
	// precision is how far a capacity that is searched for may lie below the true one, as a share.
	precision = 0.005
)

// Options say what is searched for.
type Options struct {
	Workload Workload
	Costs    Costs
	Mode     Mode
	Bound    time.Duration // of the 95th percentile of the time of an answer; above 0
	Gateways int           // each with a large model of its own; at least 1
	Devices  []int         // numbers of devices to simulate besides; each 1 to MaxDevices
}

// Report is what is found for a mode. Its JSON is a contract.
type Report struct {
	Mode Mode `json:"mode"`
	// the largest number of devices of all gateways at which p95_ms is at most bound_ms; 0: see why_none
	Devices int `json:"devices"`
	// devices over the threads of all large models
	PerCore float64 `json:"devices_per_core"`
	// devices is the largest number that is simulated, and still within the bound
	AtLeast  bool    `json:"at_least,omitempty"`
	WhyNone  string  `json:"why_none,omitempty"`
	BoundMS  float64 `json:"bound_ms"`
	Gateways int     `json:"gateways"`
	Threads  int     `json:"threads"` // of the large model of each gateway
	// one device at each gateway
	Unloaded Point   `json:"unloaded"`
	At       *Point  `json:"at_capacity,omitempty"` // absent of no devices
	Points   []Point `json:"points,omitempty"`      // of the numbers of devices that were asked for
	Measured []Trial `json:"measured,omitempty"`    // real devices against the model
	// the largest number of real devices within the bound; 0: none was, or none were tried
	MeasuredDevices int      `json:"measured_devices,omitempty"`
	Workload        Workload `json:"workload"`
	Costs           Costs    `json:"costs"`
}

// Search simulates to find the capacity of a mode.
func Search(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Report{Mode: o.Mode, BoundMS: result.Milliseconds(o.Bound), Gateways: o.Gateways, Threads: o.Costs.Threads,
		Workload: o.Workload, Costs: o.Costs}
	var err error
	if r.Unloaded, err = o.simulate(ctx, o.Gateways, o.Gateways); err != nil {
		return nil, err
	}
	if r.Unloaded.P95 > r.BoundMS {
		r.WhyNone = fmt.Sprintf("the 95th percentile of one device alone is %.0f ms, above the bound of %.0f ms",
			r.Unloaded.P95, r.BoundMS)
	} else if err := o.find(ctx, r); err != nil {
		return nil, err
	}
	r.PerCore = float64(r.Devices) / float64(o.Gateways*o.Costs.Threads)
	for _, n := range o.Devices {
		p, err := o.simulate(ctx, n, o.Gateways)
		if err != nil {
			return nil, err
		}
		r.Points = append(r.Points, p)
	}
	return r, nil
}

// check refuses what has no sense.
func (o *Options) check() error {
	if err := errors.Join(o.Workload.Validate(), o.Costs.Validate()); err != nil {
		return err
	}
	if o.Bound <= 0 {
		return fmt.Errorf("bound is %v: give a time above 0", o.Bound)
	}
	if o.Gateways < 1 || o.Gateways > MaxDevices {
		return fmt.Errorf("%d gateways: give 1 to %d", o.Gateways, MaxDevices)
	}
	for _, n := range o.Devices {
		if n < 1 || n > MaxDevices {
			return fmt.Errorf("%d devices: give 1 to %d", n, MaxDevices)
		}
	}
	return nil
}

// find sets the capacity. Gateways do not differ but for chance: one of them is searched, and then all are simulated.
func (o *Options) find(ctx context.Context, r *Report) error {
	limit := MaxDevices / o.Gateways
	each, err := largest(limit, precision, func(n int) (bool, error) {
		p, err := o.simulate(ctx, n, 1)
		return err == nil && p.P95 <= r.BoundMS, err
	})
	if err != nil {
		return err
	}
	for ; each > 0; each -= max(1, int(float64(each)*precision)) {
		p, err := o.simulate(ctx, each*o.Gateways, o.Gateways)
		if err != nil {
			return err
		}
		if p.P95 <= r.BoundMS {
			r.Devices, r.At, r.AtLeast = p.Devices, &p, each == limit
			return nil
		}
	}
	r.WhyNone = "the 95th percentile of one device at each gateway is at the bound"
	return nil
}

// largest is the largest n up to limit that is ok, where all smaller ones are; 0 if none is. It is exact, or lower by
// at most a share.
func largest(limit int, share float64, ok func(n int) (bool, error)) (int, error) {
	low, high := 0, limit+1 // low is ok, high is not
	for high-low > max(1, int(float64(low)*share)) {
		n := next(low, high, limit)
		good, err := ok(n)
		if err != nil {
			return 0, err
		}
		if good {
			low = n
		} else {
			high = n
		}
	}
	return low, nil
}

// next is where to look next between low and high: twice as far while nothing was too much, and then in the middle.
func next(low, high, limit int) int {
	if high > limit {
		return min(max(2*low, 1), limit)
	}
	return low + (high-low)/2
}

// simulate simulates for as long as the percentiles need. Before the window that counts, devices have the time for a
// pause and some answers.
func (o *Options) simulate(ctx context.Context, devices, gateways int) (Point, error) {
	answers := min(max(manyTokens/o.Workload.Tokens, minAnswers), maxAnswers)
	alone := o.alone()
	each := max(float64(answers)/float64(devices), perDevice)
	warm := o.Workload.Think + 10*alone
	length := max(1, time.Duration(each*float64(o.Workload.Think+alone)))
	return Simulate(ctx, &o.Workload, &o.Costs, o.Mode, devices, gateways, Window{warm, warm + length})
}

// alone is the time of an answer of one device alone, about: each token is asked for.
func (o *Options) alone() time.Duration {
	w, c := &o.Workload, &o.Costs
	prompt := time.Duration(float64(w.Prompt) / serviceRows * float64(c.Time(serviceRows, 1)))
	each := c.Time(1, 1)
	if o.Mode != Cloud {
		each = w.passes(1) + time.Duration(w.Budget*float64(each+w.RTT+c.ask()))
	}
	return w.RTT + prompt + time.Duration(w.Tokens)*each
}
