package result

import (
	"runtime"
	"testing"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
)

// TestQuiet: the load of other processes is the busy time of the CPUs minus that of this process, as a share of the
// total.
func TestQuiet(t *testing.T) {
	begin := cpuSeconds{busy: 1000, steal: 5, idle: 500, own: 3}
	for _, c := range []struct {
		name              string
		busy, steal, idle float64 // meanwhile, of two CPUs
		own               float64
		seconds           float64
		others, stolen    float64
		quiet             bool
		said              string
	}{
		{"alone", 10, 0, 10, 9.9, 10, 0.005, 0, true, "quiet"},
		{"another program", 15, 0, 5, 10, 10, 0.25, 0, false, "not quiet: other processes took 25% of the CPUs' time"},
		{"a busy host", 10, 2, 8, 10, 10, 0, 0.1, false, "not quiet: other virtual machines took 10%"},
		{"both", 15, 2, 3, 10, 10, 0.25, 0.1, false,
			"not quiet: other processes took 25% of the CPUs' time, other virtual machines took 10%"},
		{"just quiet", 10.38, 0.18, 9.44, 10, 10, 0.019, 0.009, true, "quiet"},
		{"just not", 10.42, 0, 9.58, 10, 10, 0.021, 0, false, "not quiet: other processes took 2% of the CPUs' time"},
		{"a tick of each CPU", 0.118, 0, 0.082, 0.1, 0.1, 0.09, 0, true, "quiet"},
		{"a tick of each that was stolen", 0.1, 0.018, 0.082, 0.1, 0.1, 0, 0.09, true, "quiet"},
		{"more than that", 0.13, 0, 0.07, 0.1, 0.1, 0.15, 0, false,
			"not quiet: other processes took 15% of the CPUs' time"},
		{"a counter that goes back", 10, -1, 10, 9.9, 10, 0.005, 0, true, "quiet"},
		{"idle time that goes back", 15, 0, -5, 1, 10, 1, 0, false,
			"not quiet: other processes took 100% of the CPUs' time"},
		{"ticks lag behind", 9, 0, 11, 9.5, 10, 0, 0, true, "quiet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := Quiet{Seconds: c.seconds}
			q.setActivity(begin,
				cpuSeconds{begin.busy + c.busy, begin.steal + c.steal, begin.idle + c.idle, begin.own + c.own})
			require.NotNil(t, q.Quiet)
			assert.InDelta(t, c.others, *q.Others, 1e-9)
			assert.InDelta(t, c.stolen, *q.Steal, 1e-9)
			assert.InDelta(t, 1000*c.own, q.CPU, 1e-6)
			assert.Equal(t, c.quiet, *q.Quiet)
			assert.Equal(t, c.said, q.String())
		})
	}
	q := Quiet{Seconds: 0.001}
	q.setActivity(begin, begin)
	assert.Nil(t, q.Quiet, "no tick has passed")
	assert.Contains(t, q.String(), "unknown")
}

// TestSecondsOf: each kind of time counts once.
func TestSecondsOf(t *testing.T) {
	s := sumCPUTimes(cpu.TimesStat{User: 1, Nice: 2, System: 4, Irq: 8, Softirq: 16, Steal: 32, Idle: 64,
		Iowait: 128, Guest: 256, GuestNice: 512})
	assert.Equal(t, cpuSeconds{busy: 31, steal: 32, idle: 192}, s)
}

// TestWatch: this process is watched where the system allows it.
func TestWatch(t *testing.T) {
	w := WatchMachine()
	sum := 0.
	for range 20_000_000 {
		sum += 1.5
	}
	q := w.End()
	assert.Positive(t, sum)
	assert.Positive(t, q.Seconds)
	if cputime.Used() > 0 {
		assert.Positive(t, q.CPU)
		assert.LessOrEqual(t, q.CPU/1000, q.Seconds*float64(runtime.NumCPU())+clockTick, "seconds")
	}
}
