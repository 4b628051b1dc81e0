//go:build unix

package cputime

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestUsed: the CPU time is that in the program and that in the system for it.
func TestUsed(t *testing.T) {
	used := func() (user, system time.Duration) {
		var u unix.Rusage
		assert.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
	}
	user, system := used()
	for ; user == 0 || system == 0; user, system = used() { // until there is some of both
		_, _ = os.Stat("/")
	}
	now := Used()
	assert.GreaterOrEqual(t, now, user+system)
	user, system = used()
	assert.LessOrEqual(t, now, user+system)
}
