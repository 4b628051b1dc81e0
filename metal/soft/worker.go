package soft

import (
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// Sizes of translate/msl/runtime.h, in bytes, and a number of faults.
const (
	regionSize = 128 << 20 // of a worker, with its stacks
	arenaSize  = 256 << 10 // threadgroup memory with gaps between variables
	cellSize   = 12        // of the shadow of one byte
	linesSize  = 64 << 20  // counts of transactions
	maxReports = 32        // of a worker in a dispatch
)

// The structs below have the layout of those in translate/msl/runtime.h, which explains them. layoutOfC is compared
// with it whenever a library is loaded.

type dispatchC struct {
	kernel      uint32
	check       uint32
	seed        uint64
	buffers     [translate.MaxBuffers + 1]uint64
	memory      [translate.MaxBuffers + 1]uint32
	grid, group [4]uint32
	next, stop  uint32
	newLevel    uint32
	regionCount uint32
	regions     uint64
}

type regionC struct {
	start, end, limit                                                                    uint64
	base                                                                                 uint64
	cells, unwritten                                                                     uint64
	seen, ever, put, everPut                                                             uint64
	index, writeIndex                                                                    uint32
	readOnly, _                                                                          uint32
	read, unique, written, writtenUnique, lines, ideal, fetched, everUnique, everWritten uint64
	low, high, putLow, putHigh                                                           uint64
}

type reportC struct {
	kind, at          uint32
	file              uint64
	pc                uint64
	buffer            int32
	size, write       uint32
	thread, group     uint32
	other, otherClock uint32
	otherAt           uint32
	otherFile         uint64
	offset            int64
	variable, detail  uint64
}

type workerC struct {
	dispatch, thunk, mainStack                           uint64
	random                                               uint64
	shuffled, dirty, ready, checking                     uint32
	threads, simdgroups                                  uint32
	runnable                                             uint32
	waiting, returned                                    uint32
	aborted                                              uint32
	barrierOp, barrierAt                                 uint32
	barrierFile                                          uint64
	shape                                                [4]uint32
	grid, group                                          [4]uint32
	groupPosition                                        [4]uint32
	groupLinear, groupCount                              uint32
	clock, levelStart, groupStart                        uint32
	barrier                                              [2]uint32
	pieces, reportCount, lastRegion                      uint32
	arena                                                uint64
	memory, buffers                                      [translate.MaxBuffers + 1]uint64
	arenaCells, lines, linesSize, moduleStart, moduleEnd uint64
	conditions                                           [translate.MaxConditions]bool
	reports                                              [maxReports]reportC
}

// worker is the memory of an OS thread that runs threadgroups.
type worker struct {
	region, arena, cells, lines pages
}

// newWorker maps a worker's memory, with that of the checks if check is set.
func newWorker(check bool) (*worker, error) {
	w := &worker{}
	var err error
	if w.region, err = mapAligned(regionSize); err != nil {
		return nil, err
	}
	if w.arena, err = mapPages(arenaSize); err == nil && check {
		if w.cells, err = mapPages(arenaSize * cellSize); err == nil {
			w.lines, err = mapPages(linesSize)
		}
	}
	if err != nil {
		w.freePages()
		return nil, err
	}
	c := w.cStruct()
	c.arena, c.arenaCells = addressOf(w.arena.used), addressOf(w.cells.used)
	c.lines, c.linesSize = addressOf(w.lines.used), linesSize
	c.clock = 1
	return w, nil
}

func (w *worker) cStruct() *workerC {
	return (*workerC)(unsafe.Pointer(unsafe.SliceData(w.region.used)))
}

func (w *worker) freePages() {
	w.region.unmapPages()
	w.arena.unmapPages()
	w.cells.unmapPages()
	w.lines.unmapPages()
}

// runThreadgroups runs threadgroups of a dispatch until none is left, and returns the number of faults.
func (w *worker) runThreadgroups(m *module, d *dispatchC) int {
	return m.callEntry(addressOf(w.region.used), uint64(uintptr(unsafe.Pointer(d))))
}

func (w *worker) copyReports() []reportC {
	c := w.cStruct()
	return append([]reportC(nil), c.reports[:min(c.reportCount, maxReports)]...)
}

func layoutOfC() []uint64 {
	var (
		d dispatchC
		r regionC
		p reportC
		w workerC
	)
	var all []uint64
	for _, n := range [...]uintptr{
		unsafe.Sizeof(d), unsafe.Sizeof(r), unsafe.Sizeof(p), cellSize, unsafe.Offsetof(d.regions),
		unsafe.Offsetof(r.putHigh), unsafe.Offsetof(p.detail), unsafe.Offsetof(w.clock), unsafe.Offsetof(w.arena),
		unsafe.Offsetof(w.lines), unsafe.Offsetof(w.conditions), unsafe.Offsetof(w.reports),
		regionSize, arenaSize, linesSize, 0,
	} {
		all = append(all, uint64(n))
	}
	return all
}
