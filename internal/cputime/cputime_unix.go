//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Used returns the CPU time that the process has used.
func Used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
