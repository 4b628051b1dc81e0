package capacity

import (
	"context"
	"time"
)

// Trial is what real devices got, beside a simulation of the same devices with the same pauses and asks, in a window of
// the same length.
type Trial struct {
	Measured  Point   `json:"measured"`
	Simulated Point   `json:"simulated"`
	Within    bool    `json:"within_bound"` // of the measured 95th percentile
	RatioP50  float64 `json:"ratio_p50"`    // measured over simulated
	RatioP95  float64 `json:"ratio_p95"`
}

const (
	maxTrials      = 4   // of one mode
	trialPrecision = 0.1 // how far the number that trials find may lie below the true one, as a share
)

// Try looks for the largest number of real devices that stays within the bound, with run, which takes a number of
// devices and a window: from the number that the simulation found on, in 4 trials at most, each long enough for so many
// answers, to a tenth. Trials are added to the report. In a quarter of the time before each window nothing counts.
func (o *Options) Try(
	ctx context.Context, r *Report, answers int, run func(context.Context, int, Window) (Point, error),
) error {
	guess := max(r.Devices/r.Gateways, 1)
	if r.Devices == 0 {
		return nil
	}
	low, high := 0, MaxLive+1
	for n := min(guess, MaxLive); len(r.Measured) < maxTrials; {
		t, err := o.trial(ctx, n, answers, run)
		if err != nil {
			return err
		}
		r.Measured = append(r.Measured, t)
		if t.Within {
			low = max(low, n)
			r.MeasuredDevices = low
		} else {
			high = min(high, n)
		}
		if n = further(low, high); n == low || n >= high || n > MaxLive {
			return nil
		}
	}
	return nil
}

// further is the number of devices of the next trial: a quarter more while nothing was too much, a quarter less while
// everything was, and the middle of what is left, until that is less than a tenth.
func further(low, high int) int {
	switch {
	case low == 0:
		return high - max(1, high/4)
	case high > MaxLive:
		return min(low+max(1, low/4), MaxLive)
	case float64(high-low) <= max(1, trialPrecision*float64(low)):
		return low
	}
	return low + (high-low)/2
}

// trial measures and simulates the same.
func (o *Options) trial(
	ctx context.Context, devices, answers int, run func(context.Context, int, Window) (Point, error),
) (t Trial, err error) {
	steady, err := o.simulate(ctx, devices, 1)
	if err != nil {
		return t, err
	}
	length := time.Duration(float64(answers) / steady.PerSecond * float64(time.Second))
	window := Window{length / 4, length/4 + length}
	if t.Simulated, err = Simulate(ctx, &o.Workload, &o.Costs, o.Mode, devices, 1, window); err != nil {
		return t, err
	}
	if t.Measured, err = run(ctx, devices, window); err != nil {
		return t, err
	}
	t.Within = t.Measured.P95 <= float64(o.Bound)/float64(time.Millisecond)
	if t.Simulated.P50 > 0 {
		t.RatioP50, t.RatioP95 = t.Measured.P50/t.Simulated.P50, t.Measured.P95/t.Simulated.P95
	}
	return t, nil
}
