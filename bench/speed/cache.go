package speed

import (
	"github.com/pilotfish-ai/pilotfish/bench/result"
	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// surelyCached is what the cores of any CPU that a model is worth running on keep in their caches, in bytes. A cache
// that is said to be larger may be shared with other programs, and with other virtual machines.
const surelyCached = 8 << 20

// unknownCache is taken for the size of a cache that the CPU does not tell, in bytes.
const unknownCache = 256 << 20

// fitsCache reports whether so many bytes, read again and again, come from a cache of that size (0 if unknown) instead
// of from memory. share is the rate at which they were read over the bandwidth of memory: where they might fit, more
// than 1 proves it.
func fitsCache(bytes, cache int64, share float64) bool {
	if cache == 0 {
		cache = unknownCache
	}
	return bytes <= min(surelyCached, cache) || bytes <= cache && share > 1
}

// shareOfBound turns a rate over its bound into a share to report: absent where nothing was measured and where the
// bound is none, and at most 1, since measuring the bound has an error too.
func shareOfBound(share float64, fitsCache bool) *float64 {
	if share <= 0 || share > 1 && fitsCache {
		return nil
	}
	share = min(share, 1)
	return &share
}

// sameMemory is memory of the kind that the weights of e lie in, more than the caches hold: the weights themselves if
// the CPU reads them and they are that many, or else memory of its own, in huge pages if these do. free gives
// that back.
func sameMemory(e *engine.Engine, huge bool) (memory [][]byte, free func() error) {
	none := func() error { return nil }
	bytes := 0
	for _, t := range e.File().Tensors() {
		memory, bytes = append(memory, t.Data), bytes+len(t.Data)
	}
	if _, gpu := e.LastEncoded(); !gpu && bytes >= result.FarBytes() {
		return memory, none
	}
	if huge {
		if b, err := hugemem.Alloc(result.FarBytes()); err == nil {
			return [][]byte{result.Touched(b)}, func() error { return hugemem.Free(b) }
		}
	}
	return [][]byte{result.Touched(make([]byte, result.FarBytes()))}, none
}
