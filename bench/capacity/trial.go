package capacity

import (
	"context"
	"time"
)

// Trial is the result of real devices, with a simulation of the same devices with the same pauses and asks, in a window
// of the same length.
type Trial struct {
	Measured  Point   `json:"measured"`
	Simulated Point   `json:"simulated"`
	Within    bool    `json:"within_bound"` // of the measured 95th percentile; false without answers
	RatioP50  float64 `json:"ratio_p50"`    // measured over simulated
	RatioP95  float64 `json:"ratio_p95"`
}

const (
	maxTrials      = 4   // per mode
	trialPrecision = 0.1 // maximum relative error by which the result may be below the true number
)

// Try looks for the largest number of real devices within the bound. run measures a number of devices in a window. The
// first number is the result of the simulation; there are 4 trials at most, with a precision of a tenth, and each
// window is long enough for the given number of answers. Each window follows a warm-up of a quarter of its time. Trials
// are added to the report.
func (o *Options) Try(
	ctx context.Context, r *Report, answers int, run func(context.Context, int, Window) (Point, error),
) error {
	guess := max(r.Devices/r.Gateways, 1)
	if r.Devices == 0 {
		return nil
	}
	low, high := 0, maxLive+1
	for n := min(guess, maxLive); len(r.Measured) < maxTrials; {
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
		if n = further(low, high); n == low || n >= high || n > maxLive {
			return nil
		}
	}
	return nil
}

// further returns the number of devices of the next trial: a quarter more while all trials were within the bound, a
// quarter less while none was, and then the middle, until the interval is smaller than a tenth.
func further(low, high int) int {
	switch {
	case low == 0:
		return high - max(1, high/4)
	case high > maxLive:
		return min(low+max(1, low/4), maxLive)
	case float64(high-low) <= max(1, trialPrecision*float64(low)):
		return low
	}
	return low + (high-low)/2
}

// trial measures and simulates the same devices.
func (o *Options) trial(
	ctx context.Context, devices, answers int, run func(context.Context, int, Window) (Point, error),
) (t Trial, err error) {
	steady, err := o.simulate(ctx, devices, 1)
	if err != nil {
		return t, err
	}
	length := time.Duration(float64(answers) / steady.PerSecond * float64(time.Second))
	window := Window{length / 4, length/4 + length}
	if t.Simulated, err = simulate(ctx, &o.Workload, &o.Costs, o.Mode, devices, 1, window); err != nil {
		return t, err
	}
	if t.Measured, err = run(ctx, devices, window); err != nil {
		return t, err
	}
	t.Within = t.Measured.Answers > 0 && t.Measured.P95 <= float64(o.Bound)/float64(time.Millisecond)
	if t.Simulated.P50 > 0 {
		t.RatioP50, t.RatioP95 = t.Measured.P50/t.Simulated.P50, t.Measured.P95/t.Simulated.P95
	}
	return t, nil
}
