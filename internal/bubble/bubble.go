// Package bubble runs tests in virtual time, like testing/synctest, with a workaround for the race detector.
//
// All timers of a bubble share one context of the detector, which is used when a goroutine receives from an expired
// timer. If two threads do this at once, the detector itself crashes: "ThreadSanitizer: CHECK failed", or a fault in
// its code (https://go.dev/issue/78156, open in Go 1.26). This cannot happen while only one thread at a time runs Go
// code. Races are still found, because the detector uses the happens-before order and does not depend on simultaneous
// accesses.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// Test runs f in a new bubble, see [synctest.Test]. Under the race detector GOMAXPROCS is 1 while any bubble runs, for
// the whole process.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if racing.Enabled {
		alone.limitThreads()
		defer alone.restoreThreads()
	}
	synctest.Test(t, f)
}

// alone limits the process to one thread.
var alone threadLimiter

// threadLimiter counts the running bubbles, since tests may run in parallel.
type threadLimiter struct {
	mu      sync.Mutex
	bubbles int
	before  int // old value of GOMAXPROCS
}

func (s *threadLimiter) limitThreads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bubbles == 0 {
		s.before = runtime.GOMAXPROCS(1)
	}
	s.bubbles++
}

func (s *threadLimiter) restoreThreads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bubbles--
	if s.bubbles == 0 {
		runtime.GOMAXPROCS(s.before)
	}
}
