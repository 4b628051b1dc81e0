package speed

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/pilotfish-ai/pilotfish/internal/hugemem"
	"github.com/pilotfish-ai/pilotfish/runtime/engine"
)

// minFar is the least memory that the bandwidth is measured with, and maxFar the most, in bytes.
const (
	minFar = 256 << 20
	maxFar = 512 << 20
)

// surelyCached is what the cores of any CPU that a model is worth running on keep in their caches, in bytes. A cache
// that is said to be larger may be shared with other programs, and with other virtual machines.
const surelyCached = 8 << 20

// cacheBytes is the size of the last cache before memory, 0 where the CPU does not tell.
func cacheBytes() int64 { return int64(max(cpuid.CPU.Cache.L3, cpuid.CPU.Cache.L2, 0)) }

// fitsCache reports whether so many bytes, read again and again, come from a cache of that size (0 if unknown) instead
// of from memory. share is the rate at which they were read over the bandwidth of memory: where they might fit, more
// than 1 proves it.
func fitsCache(bytes, cache int64, share float64) bool {
	if cache == 0 {
		cache = minFar
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

// farMemory is the size of a memory of which the caches hold only a part, in bytes.
func farMemory() int { return int(min(max(minFar, 2*cacheBytes()), maxFar)) }

// sameMemory is memory of the kind that the weights of e lie in, more than the caches hold: the weights themselves if
// the CPU reads them and they are that many, or else memory of its own, in huge pages if these do. free gives
// that back.
func sameMemory(e *engine.Engine, huge bool) (memory [][]byte, free func() error) {
	none := func() error { return nil }
	bytes := 0
	for _, t := range e.File().Tensors() {
		memory, bytes = append(memory, t.Data), bytes+len(t.Data)
	}
	if _, gpu := e.LastEncoded(); !gpu && bytes >= farMemory() {
		return memory, none
	}
	if huge {
		if b, err := hugemem.Alloc(farMemory()); err == nil {
			return [][]byte{touched(b)}, func() error { return hugemem.Free(b) }
		}
	}
	return [][]byte{touched(make([]byte, farMemory()))}, none
}

// touched writes to every page of b, which it returns: pages that were not written may all be one page of zeros.
func touched(b []byte) []byte {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}
