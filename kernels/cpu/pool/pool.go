package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
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

	current atomic.Pointer[stage] // the loop in progress
	redo    atomic.Pointer[stage] // the last one with a Commit
	program program
	one     stage           // of Run
	pieces  []atomic.Uint32 // of a loop with Commit: 2·epoch, or 2·epoch + 1 of those that are committed

	shares []share // one for each worker
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
func (p *Pool) Run(n, grain int, f func(worker, lo, hi int)) {
	p.runOne(Loop{N: n, Grain: grain, Do: f})
}

// RunLong is like [Pool.Run], but a worker takes half of the rest of its own range at a time, in whole grains. It is
// for loops in which each call costs something beyond the cost of its indexes, such as loops that read memory
// sequentially.
func (p *Pool) RunLong(n, grain int, f func(worker, lo, hi int)) {
	p.runOne(Loop{N: n, Grain: grain, Long: true, Do: f})
}

func (p *Pool) runOne(l Loop) {
	defer p.occupy()()
	if len(p.workers) == 0 || l.N <= l.Grain {
		grain := max(1, l.Grain)
		if l.Long {
			grain = l.N
		}
		for lo := 0; lo < l.N; lo += grain {
			l.Do(0, lo, min(lo+grain, l.N))
		}
		return
	}
	p.one.Loop = l
	p.runStages(unsafe.Slice(&p.one, 1), nil)
	p.one.Loop = Loop{}
}

// occupy begins a Run, and returns what ends it.
func (p *Pool) occupy() (end func()) {
	if p.busy.Swap(true) {
		panic("pool: Run within Run, or from two goroutines")
	}
	return p.vacate
}

func (p *Pool) vacate() { p.busy.Store(false) }

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
		if p.runPieces(number) || p.redoPieces(number, idle) {
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
