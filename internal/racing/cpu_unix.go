//go:build unix

package racing

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time that the process has used, for bounds of work that hold on a busy machine, too.
func CPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
