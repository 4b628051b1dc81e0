package result

import (
	"fmt"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/pilotfish-ai/pilotfish/internal/cputime"
)

// Quiet reports the other activity of the machine during a measurement. Shares are of the total time of all its logical
// CPUs, in 0..1, and absent if the system does not report them.
type Quiet struct {
	Seconds float64  `json:"seconds"`                // duration of the measurement
	CPU     float64  `json:"cpu_ms"`                 // used by this process
	Others  *float64 `json:"others_share,omitempty"` // CPU time of other processes and of interrupts
	Steal   *float64 `json:"steal_share,omitempty"`  // time that the hypervisor gave to other virtual machines
	Quiet   *bool    `json:"quiet,omitempty"`        // neither share is above its limit
}

// A machine is quiet if others are at most maxOthers and steal is at most maxSteal. One tick of the kernel's clock per
// CPU, the unit of these times, is always tolerated.
const (
	maxOthers = 0.02
	maxSteal  = 0.01
	clockTick = 0.01 // seconds
)

// cpuSeconds are the times of all CPUs of the machine, in total, and of this process, since both began, in seconds.
type cpuSeconds struct{ busy, steal, idle, own float64 }

// machineWatch is a measurement under way.
type machineWatch struct {
	begin time.Time
	at    *cpuSeconds // nil: the system does not report them
}

// readCPUTimes reads the times; nil if the system does not report them.
func readCPUTimes() *cpuSeconds {
	all, err := cpu.Times(false)
	if err != nil || len(all) != 1 || cputime.Used() == 0 {
		return nil
	}
	now := sumCPUTimes(all[0])
	now.own = cputime.Used().Seconds()
	return &now
}

// sumCPUTimes sums up the times of the CPUs. The time of guests is included in user and nice.
func sumCPUTimes(t cpu.TimesStat) cpuSeconds {
	return cpuSeconds{busy: t.User + t.Nice + t.System + t.Irq + t.Softirq, steal: t.Steal, idle: t.Idle + t.Iowait}
}

// WatchMachine begins to watch.
func WatchMachine() machineWatch { return machineWatch{time.Now(), readCPUTimes()} }

// End returns the activity since then.
func (w machineWatch) End() Quiet {
	q := Quiet{Seconds: time.Since(w.begin).Seconds()}
	if now := readCPUTimes(); w.at != nil && now != nil {
		q.setActivity(*w.at, *now)
	}
	return q
}

func (q *Quiet) setActivity(before, after cpuSeconds) {
	own := max(after.own-before.own, 0)
	q.CPU = 1000 * own
	busy, steal := after.busy-before.busy, max(after.steal-before.steal, 0)
	whole := busy + steal + after.idle - before.idle
	if whole <= 0 || busy < 0 {
		return // shorter than a tick
	}
	others := max(busy-own, 0)
	ticks := clockTick * max(whole/max(q.Seconds, clockTick), 1) // one per CPU
	share, stolen := min(others/whole, 1), min(steal/whole, 1)
	quiet := others <= max(maxOthers*whole, ticks) && steal <= max(maxSteal*whole, ticks)
	q.Others, q.Steal, q.Quiet = &share, &stolen, &quiet
}

// String returns "quiet", or the disturbance.
func (q Quiet) String() string {
	switch {
	case q.Quiet == nil:
		return "unknown: this system does not tell what other processes did"
	case *q.Quiet:
		return "quiet"
	}
	var by []string
	if *q.Others > maxOthers {
		by = append(by, fmt.Sprintf("other processes took %.0f%% of the CPUs' time", 100**q.Others))
	}
	if *q.Steal > maxSteal {
		by = append(by, fmt.Sprintf("other virtual machines took %.0f%%", 100**q.Steal))
	}
	return "not quiet: " + strings.Join(by, ", ")
}
