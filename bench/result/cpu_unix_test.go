//go:build unix

package result

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestCPUTime: the CPU time is that in the program and that in the system for it.
func TestCPUTime(t *testing.T) {
	used := func() (user, system time.Duration) {
		var u unix.Rusage
		assert.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
	}
	user, system := used()
	for ; user == 0 || system == 0; user, system = used() { // until there is some of both
		_, _ = os.Stat("/")
	}
	now := CPUTime()
	assert.GreaterOrEqual(t, now, user+system)
	user, system = used()
	assert.LessOrEqual(t, now, user+system)
}
