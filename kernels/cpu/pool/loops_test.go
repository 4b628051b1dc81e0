package pool

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sums is a program of loops of which each adds to the numbers of the one before, and says so if it finds others.
type sums struct {
	t     *testing.T
	p     *Pool
	n     int
	loops []Loop
	x     []atomic.Int64
	begun atomic.Int64                  // loops
	own   [][]int64                     // of each worker
	at    func(worker, loop, index int) // is called in the middle of Do
}

func newSums(t *testing.T, p *Pool, n int) *sums {
	s := &sums{t: t, p: p, n: n, x: make([]atomic.Int64, n), own: make([][]int64, p.Threads())}
	s.at = func(int, int, int) {}
	for i := range s.own {
		s.own[i] = make([]int64, n)
	}
	return s
}

// add adds a loop. With commit it may be redone.
func (s *sums) add(grain int, long, commit bool) {
	number := len(s.loops)
	var before atomic.Bool
	l := Loop{N: s.n, Grain: grain, Long: long}
	l.Before = []func(){func() {
		assert.False(s.t, before.Swap(true), "loop %d begins twice", number)
		s.begun.Add(1)
		for i := range s.x {
			assert.EqualValues(s.t, number, s.x[i].Load(), "loop %d begins before the last one ends", number)
		}
	}}
	l.Do = func(worker, lo, hi int) {
		for i := lo; i < hi; i++ {
			s.at(worker, number, i)
			s.own[worker][i] = s.x[i].Load() + 1
			if !commit {
				s.x[i].Add(1)
			}
		}
	}
	if commit {
		l.Commit = func(worker, lo, hi int) {
			for i := lo; i < hi; i++ {
				assert.EqualValues(s.t, number+1, s.own[worker][i])
				s.x[i].Add(1)
			}
		}
	}
	s.loops = append(s.loops, l)
}

func (s *sums) run() {
	s.p.RunLoops(s.loops, nil)
	for i := range s.x {
		require.EqualValues(s.t, len(s.loops), s.x[i].Load())
	}
}

// TestRunLoops: loops of every kind run in order, each piece once, whoever is put aside for how long.
func TestRunLoops(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		p := New(threads)
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 4))
			s := newSums(t, p, r.IntN(70))
			for range r.IntN(20) {
				s.add(r.IntN(9), r.IntN(2) > 0, r.IntN(3) > 0)
			}
			aside := r.IntN(threads)
			s.at = func(worker, loop, index int) {
				if worker != aside || threads == 1 || s.loops[loop].Commit == nil || (loop+index+int(seed))%37 > 0 {
					return
				}
				for s.begun.Load() < int64(min(loop+2+int(seed%3), len(s.loops))) {
					runtime.Gosched()
				}
			}
			p.Begin()
			s.run()
			p.End()
			p.Run(10, 1, func(_, _, _ int) {})
		}
		p.Close()
	}
}

// TestPutAside: a program ends although one worker, the caller or another, is put aside in a piece. What it computes
// when it comes back counts for nothing, even if the program runs again meanwhile; if the worker is not the caller.
func TestPutAside(t *testing.T) {
	for aside := range 2 {
		p := New(2)
		p.Begin()
		s := newSums(t, p, 40)
		for range 8 {
			s.add(3, true, true)
		}
		var once sync.Once
		back, isAside := make(chan struct{}), make(chan struct{})
		s.at = func(worker, loop, _ int) {
			if worker == aside && loop == 2 {
				once.Do(func() { close(isAside); <-back })
			}
			if worker != aside && loop == 2 {
				<-isAside // so that the other takes part
			}
		}
		if aside == 0 {
			s.loops = append(s.loops, Loop{Before: []func(){func() { close(back) }}}) // all loops have ended
			p.RunLoops(s.loops, nil)
			s.loops = s.loops[:8]
		} else {
			s.run()
			again := newSums(t, p, 40)
			for range 8 {
				again.add(1, false, true)
			}
			again.run()
			close(back)
		}
		p.Close()
		for i := range s.x {
			require.EqualValues(t, 8, s.x[i].Load(), "worker %d is put aside", aside)
		}
	}
}

// TestLate: a worker that was put aside between taking a piece and looking at its loop, which the others have redone
// and ended meanwhile, leaves the piece.
func TestLate(t *testing.T) {
	p := New(1)
	defer p.Close()
	ran := false
	next := &stage{Loop: Loop{N: 1, Grain: 1, Do: func(_, _, _ int) { ran = true }}}
	next.epoch.Store(8)
	for _, s := range []*stage{nil, next} {
		p.current.Store(s)
		p.shares[0].setPieces(7, 0, 1, false)
		assert.False(t, p.runPieces(0))
		assert.False(t, ran)
	}
	p.program.open.Store(2)
	p.shares[0].setPieces(8, 0, 1, false)
	assert.True(t, p.runPieces(0))
	assert.True(t, ran)
}

// TestStop: what is left when stop returns true is not run.
func TestStop(t *testing.T) {
	p := New(2)
	defer p.Close()
	var ran, asked atomic.Int32
	loops := make([]Loop, 5)
	for i := range loops {
		loops[i] = Loop{N: 4, Do: func(_, lo, hi int) { ran.Add(int32(hi - lo)) }}
	}
	p.RunLoops(loops, func() bool { return asked.Add(1) > 3 })
	assert.EqualValues(t, 3*4, ran.Load())
}

// TestManyPieces: a loop has at most as many pieces as a share can count.
func TestManyPieces(t *testing.T) {
	p := New(2)
	defer p.Close()
	var sum atomic.Int64
	p.Run(3*maxPieces+1, 1, func(_, lo, hi int) { sum.Add(int64(hi - lo)) })
	assert.EqualValues(t, 3*maxPieces+1, sum.Load())
}
