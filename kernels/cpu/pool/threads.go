package pool

import "runtime"

// Threads returns how many workers serve a model best on this machine: one for each fast physical core that this
// process may use. The limit of the control group and the affinity mask count (the Go runtime heeds both in
// GOMAXPROCS); the second thread of a core adds nothing where memory is the bound, and one slow core holds up all
// others at the end of each loop. At least 1.
func Threads() int {
	n := runtime.GOMAXPROCS(0)
	if fast := fastCores(); fast > 0 {
		n = min(n, fast)
	}
	return n
}
