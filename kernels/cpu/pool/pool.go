package pool

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool is a fixed set of workers that share loops. It belongs to one goroutine at a time: that goroutine is worker 0,
// the others are started by [New] and end with [Pool.Close].
//
// Between [Pool.Begin] and [Pool.End], that is during one forward pass, an idle worker polls for the next loop without
// sleeping, so that a loop starts within a fraction of a microsecond. Outside a pass it sleeps and costs nothing. A
// worker that finds no work for long sleeps within a pass too.
type Pool struct {
	workers []*worker // all but worker 0
	joined  sync.WaitGroup
	busy    atomic.Bool // a Run is in progress
	pass    atomic.Bool // between Begin and End
	closed  atomic.Bool

	// The loop in progress. It is written while no share has a piece and open is zero, and read by workers that have
	// taken a piece and not yet finished it.
	f        func(worker, lo, hi int)
	n, grain int

	shares []share      // one for each worker
	open   atomic.Int64 // pieces that are not finished
	_      [56]byte
}

// share is a run of pieces that its worker takes from first to last, so that it reads memory sequentially. A worker
// that has finished its own share takes pieces from the end of another one. A share is one word, which is updated with
// every piece, and has its own cache line.
type share struct {
	word atomic.Uint64 // long<<63 | from<<32 | to
	_    [56]byte
}

// setPieces sets lo to hi. If long, the share's owner takes half of the rest at a time.
func (s *share) setPieces(lo, hi int, long bool) {
	w := uint64(lo)<<32 | uint64(hi)
	if long {
		w |= 1 << 63
	}
	s.word.Store(w)
}

// unpackPieces returns the remaining pieces of the word w; from equals to if there are none.
func unpackPieces(w uint64) (from, to uint64, long bool) {
	return w >> 32 & math.MaxInt32, w & math.MaxInt32, w>>63 != 0
}

// takeFirst takes the first piece, or half of the rest, rounded up: those from lo to hi, none if these are equal.
func (s *share) takeFirst() (lo, hi int) {
	for {
		w := s.word.Load()
		from, to, long := unpackPieces(w)
		n := min(1, to-from)
		if long {
			n = (to - from + 1) / 2
		}
		if n == 0 || s.word.CompareAndSwap(w, w+n<<32) {
			return int(from), int(from + n)
		}
	}
}

func (s *share) takeLast() (lo, hi int) {
	for {
		w := s.word.Load()
		from, to, _ := unpackPieces(w)
		n := min(1, to-from)
		if n == 0 || s.word.CompareAndSwap(w, w-n) {
			return int(to - n), int(to)
		}
	}
}

// worker is one goroutine of a pool.
type worker struct {
	asleep atomic.Bool   // it waits for wake, or will soon; another goroutine that clears it must send to wake
	wake   chan struct{} // capacity 1
}

const (
	pauseRounds = 8    // pause instructions between two polls for work: 0.1 to 0.4 µs
	yieldAfter  = 16   // polls without work after which each further one lets other goroutines run first
	sleepAfter  = 3000 // polls without work before a worker sleeps within a pass: about a millisecond
)

// New starts a pool of threads workers, including the caller; less than one counts as one.
func New(threads int) *Pool {
	p := &Pool{shares: make([]share, max(1, threads))}
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.joined.Add(1)
		go p.runWorker(w, i)
	}
	return p
}

// Threads returns the number of workers, including the caller.
func (p *Pool) Threads() int { return len(p.workers) + 1 }

// Close ends the workers and waits for them. The pool must not be used afterwards; a second Close does nothing.
func (p *Pool) Close() {
	p.closed.Store(true)
	p.pass.Store(false)
	p.wakeAll()
	p.joined.Wait()
}

// Begin begins a pass: the workers wake and stay awake until [Pool.End].
func (p *Pool) Begin() {
	p.pass.Store(true)
	p.wakeAll()
}

// End ends the pass: the workers go to sleep.
func (p *Pool) End() { p.pass.Store(false) }

// Run calls f(worker, lo, hi) for ranges that together are [0, n), each of grain indexes except the last, on all
// workers including the caller, and returns when all calls have returned. Worker numbers are 0 to Threads-1, and no two
// calls use the same number at once. Each worker begins with its own consecutive ranges, and then takes ranges left by
// other workers. f must not use the pool. A grain below one counts as one.
func (p *Pool) Run(n, grain int, f func(worker, lo, hi int)) { p.runLoop(n, grain, false, f) }

// RunLong is like [Pool.Run], but a worker takes half of the rest of its own range at a time, in whole grains. It is
// for loops in which each call costs something beyond the cost of its indexes, such as loops that read memory
// sequentially.
func (p *Pool) RunLong(n, grain int, f func(worker, lo, hi int)) { p.runLoop(n, grain, true, f) }

func (p *Pool) runLoop(n, grain int, long bool, f func(worker, lo, hi int)) {
	grain = max(grain, 1)
	if p.busy.Swap(true) {
		panic("pool: Run within Run, or from two goroutines")
	}
	defer p.busy.Store(false)
	if len(p.workers) == 0 || n <= grain {
		if long {
			grain = n
		}
		for lo := 0; lo < n; lo += grain {
			f(0, lo, min(lo+grain, n))
		}
		return
	}
	p.f, p.n, p.grain = f, n, grain
	p.dividePieces((n+grain-1)/grain, long)
	p.wakeAll()
	p.runPieces(0)
	for i := 0; p.open.Load() > 0; i++ {
		pauseOrYield(i)
	}
	p.f = nil
}

func (p *Pool) dividePieces(pieces int, long bool) {
	p.open.Store(int64(pieces))
	for i := range p.shares {
		from, to := i*pieces/len(p.shares), (i+1)*pieces/len(p.shares)
		p.shares[i].setPieces(from, to, long)
	}
}

// runPieces calls f for pieces of the loop in progress until none is left, and reports whether it called f. The loop
// does not wait for a worker that arrives too late to take a piece: if the operating system runs another process on
// that worker's processor, the other workers do the work.
func (p *Pool) runPieces(worker int) (any bool) {
	for {
		lo, hi := p.shares[worker].takeFirst()
		for i := 1; lo == hi && i < len(p.shares); i++ {
			lo, hi = p.shares[(worker+i)%len(p.shares)].takeLast()
		}
		if lo == hi {
			return any
		}
		any = true
		p.f(worker, lo*p.grain, min(hi*p.grain, p.n))
		p.open.Add(int64(lo - hi))
	}
}

func (p *Pool) hasPieces() bool {
	for i := range p.shares {
		if from, to, _ := unpackPieces(p.shares[i].word.Load()); from < to {
			return true
		}
	}
	return false
}

func (p *Pool) runWorker(w *worker, number int) {
	defer p.joined.Done()
	for idle := 0; ; idle++ {
		if p.runPieces(number) {
			idle = -1
			continue
		}
		if p.closed.Load() {
			return
		}
		if p.pass.Load() && idle < sleepAfter {
			pauseOrYield(idle)
			continue
		}
		w.sleepUnless(func() bool { return p.mustStayAwake(idle) })
		idle = -1
	}
}

// mustStayAwake reports whether a worker that has polled idle times without work must not sleep now.
func (p *Pool) mustStayAwake(idle int) bool {
	return p.hasPieces() || p.closed.Load() || idle < sleepAfter && p.pass.Load()
}

// sleepUnless waits until w is woken. It returns at once if reason holds after w is marked as asleep for all other
// goroutines.
func (w *worker) sleepUnless(reason func() bool) {
	w.asleep.Store(true)
	if reason() && w.asleep.Swap(false) {
		return
	}
	<-w.wake
}

func (p *Pool) wakeAll() {
	for _, w := range p.workers {
		if w.asleep.Load() && w.asleep.Swap(false) {
			w.wake <- struct{}{}
		}
	}
}

func (p *Pool) sleepingCount() int {
	n := 0
	for _, w := range p.workers {
		if w.asleep.Load() {
			n++
		}
	}
	return n
}

// pauseOrYield waits a moment, for the i-th time in a row: at first it only pauses the processor, later it also lets
// other goroutines run.
func pauseOrYield(i int) {
	pause(pauseRounds)
	if i >= yieldAfter {
		runtime.Gosched()
	}
}
