package soft

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// execution is the part of a device that runs dispatches, one after the other.
type execution struct {
	workers []*worker
	scratch pages // a dispatchC and its regions
	random  *rand.Rand
	shuffle bool
	level   []startedDispatch // the dispatches that Check has run since the last barrier
	counts  Counts
}

// startedDispatch is a dispatch of the current level, with its start time on the clock of the checks.
type startedDispatch struct {
	pipeline *pipeline
	clock    uint32
}

const (
	regionsAt   = 4096 // in scratch
	scratchSize = 16384
)

func (e *execution) initExecution(o Options) error {
	e.random = rand.New(rand.NewPCG(o.Seed, 0))
	e.shuffle = o.Seed != 0
	e.counts = newCounts()
	var err error
	e.scratch, err = mapPages(scratchSize)
	for range o.Threads {
		if err == nil {
			var w *worker
			if w, err = newWorker(o.Variant == Check); err == nil {
				e.workers = append(e.workers, w)
			}
		}
	}
	if err != nil {
		e.freeExecution()
	}
	return err
}

func (e *execution) freeExecution() {
	for _, w := range e.workers {
		w.freePages()
	}
	e.workers = nil
	e.scratch.unmapPages()
}

// runLevels runs the dispatches between two barriers in any order, and stops at the first fault.
func (d *Device) runLevels(levels [][]dispatch) error {
	for _, level := range levels {
		if d.shuffle {
			d.random.Shuffle(len(level), func(i, j int) { level[i], level[j] = level[j], level[i] })
		}
		d.level = d.level[:0]
		for i := range level {
			if err := d.runDispatch(&level[i], i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Device) runDispatch(q *dispatch, newLevel bool) error {
	p := q.pipeline
	p.activateConstants()
	c := d.describeDispatch(q)
	check := d.options.Variant == Check
	if check {
		c.check = 1
		if newLevel {
			c.newLevel = 1
		}
		if err := d.describeRegions(q, c); err != nil {
			return err
		}
		start := d.workers[0].cStruct().clock + 1 // the clock advances before the first access
		d.level = append(d.level, startedDispatch{p, start})
	}
	n := d.workerCount(q)
	var others sync.WaitGroup
	for _, w := range d.workers[1:n] {
		others.Go(func() { w.runThreadgroups(p.module, c) })
	}
	d.workers[0].runThreadgroups(p.module, c)
	others.Wait()
	runtime.KeepAlive(q)
	if check {
		d.countAccesses(q, c)
	}
	return d.collectFaults(q, d.workers[:n])
}

// workerCount returns the number of workers for a dispatch: waking one costs about as much as running a hundred
// threads.
func (d *Device) workerCount(q *dispatch) int {
	groups, threads := q.groups.X*q.groups.Y*q.groups.Z, q.threads.X*q.threads.Y*q.threads.Z
	return max(1, min(len(d.workers), groups, groups*threads/128))
}

// emptyDispatch returns an empty description of a dispatch, in memory that does not move.
func (e *execution) emptyDispatch(kernel int) *dispatchC {
	c := (*dispatchC)(unsafe.Pointer(unsafe.SliceData(e.scratch.used)))
	*c = dispatchC{kernel: uint32(kernel)}
	return c
}

func (d *Device) describeDispatch(q *dispatch) *dispatchC {
	c := d.emptyDispatch(q.pipeline.index)
	if d.shuffle {
		c.seed = d.random.Uint64() | 1
	}
	for i, s := range [...]int{q.groups.X, q.groups.Y, q.groups.Z} {
		c.grid[i] = uint32(s)
	}
	for i, s := range [...]int{q.threads.X, q.threads.Y, q.threads.Z} {
		c.group[i] = uint32(s)
	}
	for i, n := range q.memory {
		c.memory[i] = uint32(n)
	}
	for i, a := range q.arguments {
		if a.buffer != nil {
			c.buffers[q.pipeline.Params[i].Index] = addressOf(a.buffer.bytes) + uint64(a.offset)
		}
	}
	return c
}

// describeRegions describes the bindings of a dispatch to the checks: for each buffer, disjoint pieces from one bound
// offset to the next.
func (d *Device) describeRegions(q *dispatch, c *dispatchC) error {
	all := unsafe.Slice((*regionC)(unsafe.Pointer(unsafe.SliceData(d.scratch.used[regionsAt:]))), translate.MaxBuffers)
	n := 0
	for i, a := range q.arguments {
		if a.buffer == nil {
			continue
		}
		p := q.pipeline.Params[i]
		r := a.bindingRegion(c.buffers[p.Index], p)
		if k := slices.IndexFunc(all[:n], func(other regionC) bool { return other.start == r.start }); k < 0 {
			all[n] = r
			n++
		} else if p.Const {
			all[k].index = r.index
		} else {
			all[k].writeIndex, all[k].readOnly = r.writeIndex, r.readOnly
		}
	}
	for i := range all[:n] {
		all[i].end = all[i].limit
		for _, other := range all[:n] {
			if other.start > all[i].start && other.start < all[i].end {
				all[i].end = other.start
			}
		}
	}
	c.regionCount, c.regions = uint32(n), uint64(uintptr(unsafe.Pointer(&all[0])))
	return d.refreshClock()
}

func (a argument) bindingRegion(start uint64, p translate.Parameter) regionC {
	r := regionC{
		start: start, base: start, index: uint32(p.Index), writeIndex: uint32(p.Index), readOnly: boolToUint32(p.Const),
	}
	r.low, r.putLow = ^uint64(0), ^uint64(0)
	r.base, r.limit = addressOf(a.buffer.bytes), addressOf(a.buffer.bytes)+uint64(len(a.buffer.bytes))
	r.readOnly |= boolToUint32(a.buffer.wrapped)
	s := a.buffer.shadow
	r.cells, r.unwritten = addressOf(s.cells.used), addressOf(s.unwritten.used)
	r.seen, r.ever = addressOf(s.seen.used), addressOf(s.ever.used)
	r.put, r.everPut = addressOf(s.put.used), addressOf(s.everPut.used)
	return r
}

func boolToUint32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// refreshClock restarts the clock before it overflows: all shadows are cleared.
func (d *Device) refreshClock() error {
	w := d.workers[0]
	if w.cStruct().clock < 1<<31 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.buffers {
		if err := b.shadow.cells.zeroPages(); err != nil {
			return err
		}
	}
	w.cStruct().clock, w.cStruct().levelStart, w.cStruct().groupStart = 1, 1, 1
	return w.cells.zeroPages()
}
