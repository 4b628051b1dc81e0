package speed

import (
	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
	"github.com/pilotfish-ai/pilotfish/internal/record"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// surelyCached is a size in bytes that fits into the caches of any CPU that is fast enough to run a model. A larger
// reported cache may be shared with other programs, and with other virtual machines.
const surelyCached = 8 << 20

// unknownCache is the assumed size of a cache that the CPU does not report, in bytes.
const unknownCache = 256 << 20

// fitsCache reports whether this number of bytes, read repeatedly, comes from a cache of the given size (0 if unknown)
// instead of from memory. share is the ratio of their read rate to the bandwidth of memory: if they might fit, a share
// above 1 proves that they do.
func fitsCache(bytes, cache int64, share float64) bool {
	if cache == 0 {
		cache = unknownCache
	}
	return bytes <= min(surelyCached, cache) || bytes <= cache && share > 1
}

// shareOfBound converts a rate over its bound to a reported share. It is absent if nothing was measured or the bound
// does not apply, and at most 1, since the measurement of the bound has an error too.
func shareOfBound(share float64, fitsCache bool) *float64 {
	if share <= 0 || share > 1 && fitsCache {
		return nil
	}
	share = min(share, 1)
	return &share
}

// bandwidthMemory returns memory of the kind that contains the weights of e, larger than the caches: the weights
// themselves if the CPU reads them and they are large enough, or else new memory, in huge pages if the weights are.
// free releases the new memory.
func bandwidthMemory(e *engine.Engine, huge bool) (memory [][]byte, free func() error) {
	none := func() error { return nil }
	bytes := 0
	for _, t := range e.File().Tensors() {
		memory, bytes = append(memory, t.Data), bytes+len(t.Data)
	}
	if _, gpu := e.LastEncoded(); !gpu && bytes >= record.FarBytes() {
		return memory, none
	}
	if huge {
		if b, err := hugemem.Alloc(record.FarBytes()); err == nil {
			return [][]byte{record.Touched(b)}, func() error { return hugemem.Free(b) }
		}
	}
	return [][]byte{record.Touched(make([]byte, record.FarBytes()))}, none
}
