package pool

import "runtime"

// Threads returns the best number of workers for a model on this machine: one for each fast physical core that this
// process may use, at least 1. It considers the limit of the control group and the affinity mask (the Go runtime
// includes both in GOMAXPROCS). The second thread of a core adds nothing if memory is the limit, and one slow core
// delays all others at the end of each loop.
func Threads() int { return limitThreads(runtime.GOMAXPROCS(0), fastCores()) }

// limitThreads returns n, or the number of fast cores if that is less and known: above 0.
func limitThreads(n, fast int) int {
	if fast > 0 {
		n = min(n, fast)
	}
	return n
}
