package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/bench/result"
)

const (
	// MaxDevices is the maximum number of simulated devices.
	MaxDevices = 100_000
	// A simulated percentile is computed from as many answers as have manyTokens, from minAnswers to maxAnswers, and at
	// least perDevice for each device on average.
	manyTokens, minAnswers, maxAnswers, perDevice = 1_000_000, 1000, 10_000, 3
	// precision is the maximum relative error by which a found capacity may be below the true one.
	precision = 0.005
)

// Options configure a search.
type Options struct {
	Workload Workload
	Costs    Costs
	Mode     Mode
	Bound    time.Duration // of the 95th percentile of the time of an answer; above 0
	Gateways int           // each with a large model of its own; at least 1
	Devices  []int         // additional numbers of devices to simulate; each 1 to MaxDevices
}

// Report is the result for a mode. Its JSON format is stable.
type Report struct {
	Mode Mode `json:"mode"`
	// maximum number of devices of all gateways for which p95_ms is at most bound_ms; 0: see why_none
	Devices int `json:"devices"`
	// devices divided by the threads of all large models
	PerCore float64 `json:"devices_per_core"`
	// devices is the maximum that is simulated, and still within the bound
	AtLeast  bool    `json:"at_least,omitempty"`
	WhyNone  string  `json:"why_none,omitempty"`
	BoundMS  float64 `json:"bound_ms"`
	Gateways int     `json:"gateways"`
	Threads  int     `json:"threads"` // of the large model of each gateway
	// one device at each gateway
	Unloaded Point   `json:"unloaded"`
	At       *Point  `json:"at_capacity,omitempty"` // absent if devices is 0
	Points   []Point `json:"points,omitempty"`      // for the additional numbers of devices
	Measured []Trial `json:"measured,omitempty"`    // real devices against the model
	// maximum number of real devices within the bound; 0: none was, or none were tried
	MeasuredDevices int      `json:"measured_devices,omitempty"`
	Workload        Workload `json:"workload"`
	Costs           Costs    `json:"costs"`
}

// Search finds the capacity of a mode by simulation.
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

// check returns an error for invalid options.
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

// find sets the capacity. Gateways only differ by chance, so it searches with one of them, and then simulates all.
func (o *Options) find(ctx context.Context, r *Report) error {
	limit := MaxDevices / o.Gateways
	each, err := largest(limit, precision, func(n int) (bool, error) {
		p, err := o.simulate(ctx, n, 1)
		return err == nil && p.within(r.BoundMS), err
	})
	if err != nil {
		return err
	}
	for ; each > 0; each -= max(1, int(float64(each)*precision)) {
		p, err := o.simulate(ctx, each*o.Gateways, o.Gateways)
		if err != nil {
			return err
		}
		if p.within(r.BoundMS) {
			r.Devices, r.At, r.AtLeast = p.Devices, &p, each == limit
			return nil
		}
	}
	r.WhyNone = "the 95th percentile of one device at each gateway is at the bound"
	return nil
}

// largest returns the largest n up to limit for which ok is true, if it is true for all smaller ones; 0 if there is
// none. The result is exact, or lower by at most a share.
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

// next returns the next number to try between low and high: twice the last one while all were ok, and then the middle.
func next(low, high, limit int) int {
	if high > limit {
		return min(max(2*low, 1), limit)
	}
	return low + (high-low)/2
}

// simulate simulates long enough for the percentiles. The window begins after the time of a pause and some answers, or
// one that takes as long as the bound. It is longer for devices with short pauses, which mostly wait for each other.
func (o *Options) simulate(ctx context.Context, devices, gateways int) (Point, error) {
	answers := min(max(manyTokens/o.Workload.Tokens, minAnswers), maxAnswers)
	alone := o.alone()
	each := float64(answers) / float64(devices)
	warm := o.Workload.Think + max(10*alone, o.Bound)
	run := func(each float64, cycle time.Duration) (Point, error) {
		length := max(1, time.Duration(each*float64(cycle)))
		return simulate(ctx, &o.Workload, &o.Costs, o.Mode, devices, gateways, Window{warm, warm + length})
	}
	usual, took := o.Workload.Think+alone, o.Bound
	p, err := run(max(each, perDevice), usual)
	if p.Answers > 0 {
		took = time.Duration(p.P95 * float64(time.Millisecond))
	}
	if cycle := o.Workload.Think + took; err == nil && cycle > 2*usual {
		return run(max(each, 1), cycle)
	}
	return p, err
}

// alone returns the approximate time of an answer of a single device that asks for each token.
func (o *Options) alone() time.Duration {
	w, c := &o.Workload, &o.Costs
	prompt := time.Duration(float64(w.Prompt) / serviceRows * float64(c.Time(serviceRows, 1)))
	each := c.Time(1, 1)
	if o.Mode != Cloud {
		each = w.passes(1) + time.Duration(w.Budget*float64(each+w.RTT+c.ask()))
	}
	return w.RTT + prompt + time.Duration(w.Tokens)*each
}
