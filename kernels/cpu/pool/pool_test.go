package pool

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

func TestRunCoversEverythingOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 3, 8} {
		p := New(threads)
		require.Equal(t, max(1, threads), p.Threads())
		for round := range 200 {
			if round%10 == 0 {
				p.Begin()
			}
			n, grain := round*7%97, round%13
			whole, run, limit := max(1, grain), p.Run, max(1, grain)
			if round%2 == 1 {
				run, limit = p.RunLong, n
			}
			seen := make([]atomic.Int32, n)
			inUse := make([]atomic.Int32, p.Threads())
			run(n, grain, func(worker, lo, hi int) {
				require.EqualValues(t, 1, inUse[worker].Add(1))
				require.True(t, lo < hi && hi-lo <= limit)
				require.True(t, lo%whole == 0 && (hi%whole == 0 || hi == n))
				for i := lo; i < hi; i++ {
					seen[i].Add(1)
				}
				inUse[worker].Add(-1)
			})
			for i := range seen {
				require.EqualValues(t, 1, seen[i].Load(), "index %d of %d", i, n)
			}
			if round%10 == 5 {
				p.End()
			}
		}
		p.Close()
		p.Close()
	}
}

// TestRunLongHalves: a worker takes half of the rest each time, until others take from the end: there are few calls,
// and the last ones are short.
func TestRunLongHalves(t *testing.T) {
	var s share
	s.setPieces(9, 3, 14, true)
	var sizes []int
	for p := s.takeFirst(); p.lo < p.hi; p = s.takeFirst() {
		sizes = append(sizes, p.hi-p.lo)
	}
	require.Equal(t, []int{6, 3, 1, 1}, sizes)

	s.setPieces(maxEpoch, 3, maxPieces, true)
	require.Equal(t, taken{maxEpoch, maxPieces - 1, maxPieces}, s.takeLast())
	s.setPieces(9, 3, 14, true)
	require.Equal(t, taken{9, 13, 14}, s.takeLast(), "one at a time of the share of another worker")
	require.Equal(t, taken{9, 3, 8}, s.takeFirst())

	alone := New(1)
	defer alone.Close()
	calls := 0
	alone.RunLong(100, 7, func(_, lo, hi int) { calls++ })
	require.Equal(t, 1, calls)
}

// TestRunOrdersMemory: writes of the loops are visible when Run returns, and earlier writes of the caller are visible
// to the workers: the race detector checks this.
func TestRunOrdersMemory(t *testing.T) {
	p := New(4)
	defer p.Close()
	x, y := make([]int, 1000), make([]int, 1000)
	double := func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			y[i] = 2 * x[i]
		}
	}
	for round := range 100 {
		if round%2 == 0 {
			p.Begin()
		}
		for i := range x {
			x[i] = round + i
		}
		p.Run(len(x), 10, double)
		for i := range x {
			if y[i] != 2*(round+i) {
				require.Equal(t, 2*(round+i), y[i])
			}
		}
		p.End()
	}
}

// eventually waits for a state that other goroutines will reach.
func eventually(t *testing.T, reached func() bool) {
	t.Helper()
	for start := time.Now(); !reached(); time.Sleep(time.Millisecond) {
		require.Less(t, time.Since(start), 30*time.Second)
	}
}

func TestWorkersSleepOutsideAPass(t *testing.T) {
	p := New(4)
	defer p.Close()
	eventually(t, func() bool { return p.sleepingCount() == 3 })

	eventually(t, func() bool { // an idle worker eventually sleeps even during a pass
		p.End()
		p.Begin()
		return p.sleepingCount() == 0
	})
	var ran atomic.Int32
	p.Run(100, 1, func(_, _, _ int) { ran.Add(1) })
	p.End()
	require.EqualValues(t, 100, ran.Load())
	eventually(t, func() bool { return p.sleepingCount() == 3 })

	p.Run(100, 1, func(_, _, _ int) { ran.Add(1) })
	require.EqualValues(t, 200, ran.Load())
	eventually(t, func() bool { return p.sleepingCount() == 3 })

	// Asleep means blocked: the clock of the bubble advances only if every goroutine in it is blocked.
	bubble.Test(t, func(*testing.T) {
		p := New(3)
		time.Sleep(time.Hour)
		p.Run(10, 1, func(_, _, _ int) {})
		time.Sleep(time.Hour)
		p.Begin()
		p.End()
		time.Sleep(time.Hour)
		p.Close()
	})
}

// TestNoWakeUpIsLost: a worker that is about to sleep when a loop starts must take part: a lost wake-up hangs here.
func TestNoWakeUpIsLost(t *testing.T) {
	p := New(3)
	defer p.Close()
	var ran atomic.Int64
	f := func(_, lo, hi int) { ran.Add(int64(hi - lo)) }
	for i := range 20000 {
		if i%3 == 0 {
			p.Begin()
			p.End()
		}
		p.Run(6, 1, f)
	}
	require.EqualValues(t, 6*20000, ran.Load())
}

// TestSleepWithReason: a worker that has announced its sleep and finds a reason to stay awake continues. If another
// goroutine has already decided to wake it, it receives that wake-up, so that none is left for the next time.
func TestSleepWithReason(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &worker{wake: make(chan struct{}, 1)}
		p := &Pool{workers: []*worker{w}}
		w.sleepUnless(func() bool {
			assert.True(t, w.asleep.Load())
			return true
		})
		assert.False(t, w.asleep.Load(), "no wake-up is needed")
		w.sleepUnless(func() bool {
			p.wakeAll()
			return true
		})
		assert.Empty(t, w.wake, "the wake-up of wakeAll is received")
		go w.sleepUnless(func() bool { return false })
		synctest.Wait()
		assert.Equal(t, 1, p.sleepingCount())
		p.wakeAll()
		synctest.Wait()
		assert.Zero(t, p.sleepingCount())
	})
}

// TestWokenWorkersSeeWhy: what a worker is woken for is in place before the first worker is woken. Otherwise it would
// look too early and sleep again: after Close for ever. The second worker here receives its wake-up late, so that the
// waker stops between the two.
func TestWokenWorkersSeeWhy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := &Pool{shares: make([]share, 3)}
		for _, capacity := range []int{1, 0} {
			p.workers = append(p.workers, &worker{wake: make(chan struct{}, capacity)})
		}
		first, second := p.workers[0], p.workers[1]
		for _, c := range []struct {
			name string
			wake func()
			why  func() bool
		}{
			{"Begin", p.Begin, p.pass.Load},
			{"Run", func() { p.Run(9, 2, func(_, _, _ int) {}) }, func() bool {
				return p.hasPieces() && p.current.Load().N == 9 && p.program.open.Load() == 5
			}},
			{"Close", p.Close, func() bool { return p.closed.Load() && p.mustStayAwake(sleepAfter) }},
		} {
			first.asleep.Store(true)
			second.asleep.Store(true)
			done := make(chan struct{})
			go func() { c.wake(); close(done) }()
			<-first.wake
			synctest.Wait()
			assert.True(t, c.why(), c.name)
			<-second.wake
			<-done
		}
	})
}

func TestAForgottenPassEndsInSleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := New(3)
		defer p.Close()
		p.Begin()
		time.Sleep(time.Hour) // it ends only if all workers are blocked
		assert.Equal(t, 2, p.sleepingCount())
		var ran atomic.Int32
		p.Run(10, 1, func(_, _, _ int) { ran.Add(1) })
		require.EqualValues(t, 10, ran.Load())
	})
}

func TestRunDoesNotAllocate(t *testing.T) {
	p := New(3)
	defer p.Close()
	f := func(_, _, _ int) {}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.Begin()
		p.Run(10, 2, f)
		p.End()
		p.Run(10, 2, f)
	}))
}

func TestRunWithinRunPanics(t *testing.T) {
	p := New(1)
	defer p.Close()
	require.Panics(t, func() { p.Run(1, 1, func(_, _, _ int) { p.Run(1, 1, func(_, _, _ int) {}) }) })
	p.Run(1, 1, func(_, _, _ int) {})
}
