package pool

import "sync/atomic"

// Loop is one of the loops that [Pool.RunLoops] runs.
type Loop struct {
	Before []func() // called first, by one worker
	N      int
	Grain  int
	Long   bool // as in [Pool.RunLong]
	// Do is the function of [Pool.Run].
	Do func(worker, lo, hi int)
	// Commit, if it is not nil, stores what Do has computed for a grain. Do then writes only to memory of its worker,
	// and may be called more than once for the same range, even after the loop: its worker was put aside by the
	// operating system meanwhile. What it reads may have changed then; Commit is not called for what it computes.
	Commit func(worker, lo, hi int)
}

// stage is a loop that is run.
type stage struct {
	Loop
	epoch atomic.Uint32   // of no other loop
	done  []atomic.Uint32 // [pieces] those of the pool, if there is a Commit
}

// program is the loops of a RunLoops. The worker that finishes a loop begins the next one.
type program struct {
	stages []stage
	next   int
	stop   func() bool
	epoch  uint32
	open   atomic.Int64 // pieces of the loop in progress that are not finished
	ended  atomic.Bool
}

// RunLoops runs loops one after the other. Whichever worker finishes a loop begins the next one: while the operating
// system runs another process on a worker's processor, even the caller's, the other workers go on. Before each loop
// stop is called, if it is not nil; if it returns true, the rest is not run.
func (p *Pool) RunLoops(loops []Loop, stop func() bool) {
	defer p.occupy()()
	stages := make([]stage, len(loops))
	for i, l := range loops {
		stages[i].Loop = l
	}
	p.runStages(stages, stop)
}

// redoAfter is the number of polls without work after which a worker computes what another has taken: some tenths of a
// millisecond. On a quiet machine no piece takes so long; a worker that is put aside comes back milliseconds later.
const redoAfter = 400

func (p *Pool) runStages(stages []stage, stop func() bool) {
	r := &p.program
	r.stages, r.next, r.stop = stages, 0, stop
	r.ended.Store(false)
	p.beginNext()
	for i := 0; !r.ended.Load(); i++ {
		if p.runPieces(0) || p.redoPieces(0, i) {
			i = -1
			continue
		}
		pauseOrYield(i)
	}
	r.stages, r.stop = nil, nil
}

// beginNext begins the next loop that has pieces, or ends the program.
func (p *Pool) beginNext() {
	r := &p.program
	for r.next < len(r.stages) && (r.stop == nil || !r.stop()) {
		s := &r.stages[r.next]
		r.next++
		for _, f := range s.Before {
			f()
		}
		if s.N > 0 {
			p.begin(s)
			return
		}
	}
	p.current.Store(nil)
	p.redo.Store(nil)
	r.ended.Store(true)
}

// begin makes the pieces of a loop known to the workers. They may finish it as soon as all shares are set, or it may be
// redone: nothing but that the workers wake is left to do then.
func (p *Pool) begin(s *stage) {
	r := &p.program
	s.Grain = max(1, s.Grain, (s.N+maxPieces-1)/maxPieces)
	pieces := (s.N + s.Grain - 1) / s.Grain
	r.epoch = r.epoch%maxEpoch + 1
	epoch := r.epoch
	if s.Commit != nil {
		if len(p.pieces) < pieces {
			p.pieces = make([]atomic.Uint32, 2*pieces)
		}
		s.done = p.pieces[:pieces]
		for i := range s.done {
			s.done[i].Store(2 * epoch)
		}
	}
	long, redo := s.Long, s.Commit != nil
	r.open.Store(int64(pieces))
	s.epoch.Store(epoch)
	p.current.Store(s)
	for i := range p.shares {
		from, to := i*pieces/len(p.shares), (i+1)*pieces/len(p.shares)
		p.shares[i].setPieces(epoch, from, to, long)
	}
	if redo {
		p.redo.Store(s)
	}
	p.wakeAll()
}

// runPieces runs pieces until none is left that no worker has taken, and reports whether there was one. A loop does not
// wait for a worker that arrives too late to take a piece.
func (p *Pool) runPieces(worker int) (any bool) {
	for {
		t := p.shares[worker].takeFirst()
		for i := 1; t.lo == t.hi && i < len(p.shares); i++ {
			t = p.shares[(worker+i)%len(p.shares)].takeLast()
		}
		if t.lo == t.hi {
			return any
		}
		// Until here the worker may have been put aside, and the piece redone by another.
		if s := p.current.Load(); s != nil && s.epoch.Load() == t.epoch {
			any = true
			p.runTaken(s, worker, t)
		}
	}
}

func (p *Pool) runTaken(s *stage, worker int, t taken) {
	s.Do(worker, t.lo*s.Grain, min(t.hi*s.Grain, s.N))
	finished := 0
	for i := t.lo; i < t.hi; i++ {
		if s.Commit == nil {
			finished++
		} else if s.done[i].CompareAndSwap(2*t.epoch, 2*t.epoch+1) {
			s.Commit(worker, i*s.Grain, min((i+1)*s.Grain, s.N))
			finished++
		}
	}
	if finished > 0 && p.program.open.Add(-int64(finished)) == 0 {
		p.beginNext()
	}
}

// redoPieces computes the pieces that other workers have taken and not committed yet, if the loop allows it and the
// worker has polled idle times without work: the others may have been put aside. It reports whether there was one.
func (p *Pool) redoPieces(worker, idle int) (any bool) {
	if idle < redoAfter {
		return false
	}
	s := p.redo.Load()
	if s == nil {
		return false
	}
	epoch := s.epoch.Load()
	for i := range s.done {
		if s.done[i].Load() == 2*epoch {
			any = true
			p.runTaken(s, worker, taken{epoch, i, i + 1})
		}
	}
	return any
}
