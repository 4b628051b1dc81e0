package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// newClock returns a clock of this thread's processor time, which other work on the machine does not affect.
func newClock() func() time.Duration {
	runtime.LockOSThread()
	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // Linux always has it
		return time.Duration(t.Nano())
	}
}
