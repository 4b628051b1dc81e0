package soft

import (
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// Count counts the accesses of kernels to a buffer, in bytes after clang's optimisation and before any cache.
type Count struct {
	Dispatches    int
	Read          int64 // by all threads
	ReadUnique    int64 // bytes read at least once
	Written       int64
	WrittenUnique int64
	// Fetched is like Read, but a byte that several threads of a simdgroup load at once counts once.
	Fetched int64
	// Lines counts the lines of 128 bytes that the threads of a simdgroup touch with one load, for all loads. Ideal is
	// the number of lines if the needed bytes were contiguous.
	Lines, Ideal int64
}

// Binding is a parameter of a kernel.
type Binding struct {
	Pipeline string // name of the kernel
	Index    int    // [[buffer(Index)]]
}

// Counts holds the counts since the device was opened or ResetCounts was called.
type Counts struct {
	Dispatches int
	// Buffers counts by buffer. Unique bytes count once for all dispatches.
	Buffers map[metal.Buffer]Count
	// Bindings counts by parameter. Unique bytes count once for each dispatch. If a buffer is bound at several offsets,
	// a byte belongs to the last offset before it; if one offset is bound twice, reads belong to the constant parameter
	// and writes to the other.
	Bindings map[Binding]Count
}

// tally holds the counts so far.
type tally struct {
	dispatches int
	buffers    map[*buffer]Count
	bindings   map[Binding]Count
}

func (t *tally) clear() {
	*t = tally{buffers: map[*buffer]Count{}, bindings: map[Binding]Count{}}
}

// Counts returns what kernels have read and written. Only the variant Check counts. It waits for committed command
// buffers.
func (d *Device) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.running {
		d.idle.Wait()
	}
	c := Counts{Dispatches: d.tally.dispatches, Buffers: map[metal.Buffer]Count{}, Bindings: map[Binding]Count{}}
	for b, n := range d.tally.buffers {
		c.Buffers[b] = n
	}
	for b, n := range d.tally.bindings {
		c.Bindings[b] = n
	}
	return c
}

// ResetCounts resets the counts. It waits for committed command buffers.
func (d *Device) ResetCounts() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.running {
		d.idle.Wait()
	}
	d.tally.clear()
	for b := range d.buffers {
		if b.shadow == nil {
			continue
		}
		if err := b.shadow.ever.clear(); err != nil {
			return err
		}
		if err := b.shadow.everPut.clear(); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) count(q *dispatch, c *dispatchC) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tally.dispatches++
	for _, r := range d.regionsOf(c) {
		reads := Count{Read: int64(r.read), ReadUnique: int64(r.unique), Fetched: int64(r.fetched),
			Lines: int64(r.lines), Ideal: int64(r.ideal)}
		writes := Count{Written: int64(r.written), WrittenUnique: int64(r.writtenUnique)}
		d.tally.bind(q.pipeline, int(r.index), reads)
		d.tally.bind(q.pipeline, int(r.writeIndex), writes)
		for i, a := range q.arguments {
			if a.buffer != nil && q.pipeline.Params[i].Index == int(r.index) {
				n := d.tally.buffers[a.buffer]
				n.add(reads)
				n.add(writes)
				n.ReadUnique += int64(r.everUnique) - int64(r.unique)
				n.WrittenUnique += int64(r.everWritten) - int64(r.writtenUnique)
				d.tally.buffers[a.buffer] = n
			}
		}
	}
	seen := map[*buffer]bool{}
	for i, a := range q.arguments {
		if a.buffer == nil {
			continue
		}
		key := Binding{q.pipeline.Name(), q.pipeline.Params[i].Index}
		n := d.tally.bindings[key]
		n.Dispatches++
		d.tally.bindings[key] = n
		if a.buffer != nil && !seen[a.buffer] {
			seen[a.buffer] = true
			n := d.tally.buffers[a.buffer]
			n.Dispatches++
			d.tally.buffers[a.buffer] = n
		}
	}
}

func (t *tally) bind(p *pipeline, index int, n Count) {
	key := Binding{p.Name(), index}
	sum := t.bindings[key]
	sum.add(n)
	t.bindings[key] = sum
}

func (c *Count) add(n Count) {
	c.Read += n.Read
	c.ReadUnique += n.ReadUnique
	c.Written += n.Written
	c.WrittenUnique += n.WrittenUnique
	c.Fetched += n.Fetched
	c.Lines += n.Lines
	c.Ideal += n.Ideal
}

func (d *Device) regionsOf(c *dispatchC) []regionC {
	return unsafe.Slice((*regionC)(unsafe.Pointer(unsafe.SliceData(d.scratch.used[regionsAt:]))), c.regionCount)
}
