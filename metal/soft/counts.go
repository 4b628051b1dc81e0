package soft

import (
	"errors"
	"maps"
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

func newCounts() Counts {
	return Counts{Buffers: map[metal.Buffer]Count{}, Bindings: map[Binding]Count{}}
}

// Counts returns what kernels have read and written. Only the variant Check counts. It waits for committed command
// buffers.
func (d *Device) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.running {
		d.idle.Wait()
	}
	c := d.counts
	c.Buffers, c.Bindings = maps.Clone(c.Buffers), maps.Clone(c.Bindings)
	return c
}

// ResetCounts resets the counts. It waits for committed command buffers.
func (d *Device) ResetCounts() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.running {
		d.idle.Wait()
	}
	d.counts = newCounts()
	for b := range d.buffers {
		if b.shadow != nil {
			err = errors.Join(err, b.shadow.ever.zeroPages(), b.shadow.everPut.zeroPages())
		}
	}
	return err
}

func (d *Device) countAccesses(q *dispatch, c *dispatchC) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Dispatches++
	all := d.counts
	binding := func(index int) Binding { return Binding{q.pipeline.Name(), index} }
	regions := (*regionC)(unsafe.Pointer(unsafe.SliceData(d.scratch.used[regionsAt:])))
	for _, r := range unsafe.Slice(regions, c.regionCount) {
		reads := Count{Read: int64(r.read), ReadUnique: int64(r.unique), Fetched: int64(r.fetched),
			Lines: int64(r.lines), Ideal: int64(r.ideal)}
		writes := Count{Written: int64(r.written), WrittenUnique: int64(r.writtenUnique)}
		addCount(all.Bindings, binding(int(r.index)), reads)
		addCount(all.Bindings, binding(int(r.writeIndex)), writes)
		reads.ReadUnique, writes.WrittenUnique = int64(r.everUnique), int64(r.everWritten)
		for i, a := range q.arguments {
			if a.buffer != nil && q.pipeline.Params[i].Index == int(r.index) {
				addCount(all.Buffers, metal.Buffer(a.buffer), reads)
				addCount(all.Buffers, metal.Buffer(a.buffer), writes)
			}
		}
	}
	seen := map[*buffer]bool{}
	for i, a := range q.arguments {
		if a.buffer == nil {
			continue
		}
		addCount(all.Bindings, binding(q.pipeline.Params[i].Index), Count{Dispatches: 1})
		if !seen[a.buffer] {
			seen[a.buffer] = true
			addCount(all.Buffers, metal.Buffer(a.buffer), Count{Dispatches: 1})
		}
	}
}

func addCount[K comparable](all map[K]Count, key K, n Count) {
	c := all[key]
	c.Dispatches += n.Dispatches
	c.Read += n.Read
	c.ReadUnique += n.ReadUnique
	c.Written += n.Written
	c.WrittenUnique += n.WrittenUnique
	c.Fetched += n.Fetched
	c.Lines += n.Lines
	c.Ideal += n.Ideal
	all[key] = c
}
