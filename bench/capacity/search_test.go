package capacity

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// options returns the options of a search.
func options(mode Mode) Options {
	return Options{Workload: usual(), Costs: linear(20, 3, 1), Mode: mode, Bound: 4 * time.Second, Gateways: 1}
}

// TestLargest: the search finds the last number that is ok with few trials.
func TestLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		limit, share := 1+r.IntN(2000), r.Float64()/10
		last, looks := r.IntN(limit+1), 0
		got, err := largest(limit, share, func(n int) (bool, error) {
			looks++
			assert.True(t, n >= 1 && n <= limit)
			return n <= last, nil
		})
		require.NoError(t, err)
		assert.LessOrEqual(t, got, last)
		assert.GreaterOrEqual(t, float64(got), float64(last)-share*float64(last))
		assert.LessOrEqual(t, looks, 24)
	}
	failed := errors.New("failed")
	_, err := largest(5, 0, func(int) (bool, error) { return true, failed })
	assert.ErrorIs(t, err, failed)
}

// TestSearch: the bound holds at the number that is found, and not with a tenth more devices.
func TestSearch(t *testing.T) {
	racing.Spare(t)
	for _, mode := range Modes() {
		o := options(mode)
		o.Devices = []int{1, 7}
		r, err := Search(t.Context(), o)
		require.NoError(t, err)
		assert.Positive(t, r.Devices)
		assert.False(t, r.AtLeast)
		assert.Empty(t, r.WhyNone)
		require.NotNil(t, r.At)
		assert.Equal(t, r.Devices, r.At.Devices)
		assert.LessOrEqual(t, r.At.P95, r.BoundMS)
		assert.InDelta(t, float64(r.Devices)/2, r.PerCore, 1e-9, "2 threads")
		more, err := o.simulate(t.Context(), r.Devices+max(2, r.Devices/10), 1)
		require.NoError(t, err)
		assert.Greater(t, more.P95, r.BoundMS, mode)
		assert.GreaterOrEqual(t, r.At.Answers, minAnswers)
		require.Len(t, r.Points, 2)
		assert.Equal(t, []int{1, 7}, []int{r.Points[0].Devices, r.Points[1].Devices})
		assert.Equal(t, r.Unloaded, r.Points[0])
		again, err := Search(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, r, again, "the same each time")
	}
}

// TestShortPauses: devices with short pauses mostly wait for each other, so that the bound limits their number to the
// answers in that time.
func TestShortPauses(t *testing.T) {
	racing.Spare(t)
	o := options(Cloud)
	o.Workload = Workload{Prompt: 1, Tokens: 1, Think: time.Millisecond, EdgeTPS: 1000}
	o.Costs = Costs{Threads: 1, Passes: []Pass{{1, 40, 40}, {128, 400, 400}}}
	o.Bound, o.Devices = 10*time.Second, []int{4000}
	r, err := Search(t.Context(), o)
	require.NoError(t, err)
	answers := 128 / 0.4 // a second
	assert.InEpsilon(t, answers*o.Bound.Seconds(), r.Devices, 0.1)
	assert.InEpsilon(t, answers, r.At.PerSecond, 0.05)
	assert.Greater(t, r.Points[0].P95, r.BoundMS)
}

// TestSearchGateways: several gateways serve about as many devices each as a single one, and no fewer with a higher
// bound.
func TestSearchGateways(t *testing.T) {
	racing.Spare(t)
	for _, mode := range Modes() {
		o := options(mode)
		one, err := Search(t.Context(), o)
		require.NoError(t, err)
		o.Gateways, o.Devices = 4, []int{9}
		four, err := Search(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, []int{4, 4, 4}, []int{four.Gateways, four.Unloaded.Gateways, four.At.Gateways})
		assert.Equal(t, []int{4, four.Devices}, []int{four.Unloaded.Devices, four.At.Devices})
		assert.Equal(t, []int{9, 4}, []int{four.Points[0].Devices, four.Points[0].Gateways})
		assert.InEpsilon(t, 4*one.Devices, four.Devices, 0.1, mode)
		assert.InEpsilon(t, one.PerCore, four.PerCore, 0.1, mode)
		assert.LessOrEqual(t, four.At.P95, four.BoundMS)
		o.Gateways, o.Bound = 1, 8*time.Second
		later, err := Search(t.Context(), o)
		require.NoError(t, err)
		assert.Greater(t, later.Devices, one.Devices, mode)
	}
}

// TestNone: if a single device exceeds the bound, the result is no devices, and the report says why.
func TestNone(t *testing.T) {
	racing.Spare(t)
	for _, mode := range Modes() {
		o := options(mode)
		o.Bound = 200 * time.Millisecond
		r, err := Search(t.Context(), o)
		require.NoError(t, err)
		assert.Zero(t, r.Devices)
		assert.Zero(t, r.PerCore)
		assert.Nil(t, r.At)
		assert.Contains(t, r.WhyNone, "one device alone")
		assert.Contains(t, r.WhyNone, "200 ms")
		require.NoError(t, o.Try(t.Context(), r, 10, nil), "there is nothing to measure")
		assert.Empty(t, r.Measured)
	}
}

// TestAtLeast: if the max number of simulated devices still meets the bound, the report says so.
func TestAtLeast(t *testing.T) {
	racing.Spare(t)
	o := options(Routed)
	o.Workload.Budget = 0 // no token is escalated
	o.Gateways = 3
	r, err := Search(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, MaxDevices/3*3, r.Devices)
	assert.True(t, r.AtLeast)
}

// TestSearchRefused: invalid options are refused by name, and the limits themselves are allowed.
func TestSearchRefused(t *testing.T) {
	most := options(Cloud)
	most.Gateways, most.Devices, most.Bound = MaxDevices, []int{1, MaxDevices}, 1
	assert.NoError(t, most.check())
	for want, spoil := range map[string]func(*Options){
		"bound is 0s":                  func(o *Options) { o.Bound = 0 },
		"0 gateways: give 1 to 100000": func(o *Options) { o.Gateways = 0 },
		"100001 gateways":              func(o *Options) { o.Gateways = MaxDevices + 1 },
		"0 devices: give 1 to 100000":  func(o *Options) { o.Devices = []int{5, 0} },
		"100001 devices":               func(o *Options) { o.Devices = []int{MaxDevices + 1} },
		"prompt_tokens":                func(o *Options) { o.Workload.Prompt = -1 },
		"costs.threads":                func(o *Options) { o.Costs.Threads = 0 },
	} {
		o := options(Cloud)
		spoil(&o)
		_, err := Search(t.Context(), o)
		assert.ErrorContains(t, err, want)
	}
}

// TestTry: trials begin at the number of the simulation, move in the direction of their outcome, and end. Each is
// paired with a simulation over the same window.
func TestTry(t *testing.T) {
	racing.Spare(t)
	o := options(Routed)
	found, err := Search(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, []any{o.Costs.Threads, o.Gateways, o.Bound.Seconds() * 1e3, o.Workload, o.Costs},
		[]any{found.Threads, found.Gateways, found.BoundMS, found.Workload, found.Costs})
	for _, factor := range []float64{0.5, 1, 1.5} { // the true capacity, relative to the simulated one
		r := *found
		var tried []int
		run := func(_ context.Context, n int, w Window) (Point, error) {
			tried = append(tried, n)
			assert.InEpsilon(t, 4, float64(w.End-w.Warm)/float64(w.Warm), 0.01)
			p := Point{Devices: n, Answers: 50, P50: 100, P95: r.BoundMS + 1}
			if float64(n) <= factor*float64(r.Devices) {
				p.P95 = r.BoundMS
			}
			return p, nil
		}
		require.NoError(t, o.Try(t.Context(), &r, 50, run))
		assert.Equal(t, r.Devices, tried[0])
		assert.LessOrEqual(t, len(tried), maxTrials)
		require.Len(t, r.Measured, len(tried))
		most := 0
		for _, n := range tried {
			if float64(n) <= factor*float64(r.Devices) {
				most = max(most, n)
			}
		}
		assert.Equal(t, most, r.MeasuredDevices)
		for i, trial := range r.Measured {
			assert.Equal(t, tried[i], trial.Measured.Devices)
			assert.Equal(t, tried[i], trial.Simulated.Devices)
			assert.Equal(t, float64(tried[i]) <= factor*float64(r.Devices), trial.Within)
			assert.InDelta(t, 100/trial.Simulated.P50, trial.RatioP50, 1e-9)
			assert.InDelta(t, trial.Measured.P95/trial.Simulated.P95, trial.RatioP95, 1e-9)
			assert.InDelta(t, 50, trial.Simulated.Answers, 25)
		}
		for i := range tried[1:] {
			assert.NotEqual(t, tried[i], tried[i+1])
			assert.Equal(t, r.Measured[0].Within, tried[1] > tried[0], "the second trial is on the side of the outcome")
		}
	}
	o.Workload.Budget = 0 // such devices are simulated fast
	for _, c := range []struct{ devices, gateways, limit, first, measured, tries int }{
		{40, 4, 1 << 30, 10, 18, 4}, // 10, 12, 15, 18: one large model is measured
		{3, 4, 1 << 30, 1, 4, 4},
		{3, 1, 2, 3, 2, 2},
		{1, 1, 0, 1, 0, 1}, // there are no fewer devices
		{50_000, 1, 1 << 30, maxLive, maxLive, 1},
		{50_000, 1, 0, maxLive, 0, 4},
		{50_000, 1, 990, maxLive, 937, 4}, // 1000, 750, 875, 937
	} {
		r, first := Report{Devices: c.devices, Gateways: c.gateways, BoundMS: found.BoundMS}, 0
		require.NoError(t, o.Try(t.Context(), &r, 50, func(_ context.Context, n int, _ Window) (Point, error) {
			if first == 0 {
				first = n
			}
			p := Point{Answers: 1, P95: r.BoundMS}
			if n > c.limit {
				p.P95++
			}
			return p, nil
		}))
		assert.Equal(t, []int{c.first, c.measured, c.tries}, []int{first, r.MeasuredDevices, len(r.Measured)}, c)
	}
	none := func(context.Context, int, Window) (Point, error) { return Point{}, nil }
	r := *found
	require.NoError(t, o.Try(t.Context(), &r, 50, none))
	assert.False(t, r.Measured[0].Within, "without answers nothing is known")
	assert.Zero(t, r.MeasuredDevices)
	failed := errors.New("failed")
	r = *found
	run := func(context.Context, int, Window) (Point, error) { return Point{}, failed }
	assert.ErrorIs(t, o.Try(t.Context(), &r, 50, run), failed)
}
