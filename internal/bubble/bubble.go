// Package bubble runs tests in virtual time, as testing/synctest does, with one precaution under the race detector.
//
// All timers of a bubble share one context of the detector, and whoever takes an expired timer uses it. Two threads
// that do so at once crash the detector itself: "ThreadSanitizer: CHECK failed", or a fault in its code
// (https://go.dev/issue/78156, open in Go 1.26). While one thread at a time runs Go it can't happen. Races are found
// nevertheless: the detector follows what must happen before what, and does not wait for two accesses to coincide.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// Test runs f in a bubble of its own, see [synctest.Test]. Under the race detector GOMAXPROCS is 1 while any bubble
// runs, for the whole process.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if racing.Enabled {
		alone.enter()
		defer alone.leave()
	}
	synctest.Test(t, f)
}

// alone is what keeps the process to one thread.
var alone single

// single counts the bubbles that run, tests may run in parallel.
type single struct {
	mu      sync.Mutex
	bubbles int
	before  int // GOMAXPROCS, to be restored
}

func (s *single) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bubbles == 0 {
		s.before = runtime.GOMAXPROCS(1)
	}
	s.bubbles++
}

func (s *single) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bubbles--
	if s.bubbles == 0 {
		runtime.GOMAXPROCS(s.before)
	}
}
