package cpu

import (
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

// ReadBandwidth returns the bytes per second at which the given number of threads read memory, from first byte to last,
// with the widest loads of the variant in use. It bounds the speed of decoding, which reads every weight once. It is
// the mean of several passes, because a generation runs at the mean rate of its tokens: on a shared machine, the best
// pass would be a rate that lasts for an instant only. The first pass is not counted: it brings the pages in. memory
// may consist of several parts. Its total must be far larger than the caches, or the result is not that of memory. A
// call reads memory at least 4 times and for at least 200 ms.
func ReadBandwidth(threads int, memory ...[]byte) float64 {
	return measureBandwidth(kernelsInUse().read, threads, memory)
}

func measureBandwidth(read func(p []byte) uint64, threads int, memory [][]byte) float64 {
	const piece = 1 << 20
	var pieces [][]byte
	bytes := 0
	for _, part := range memory {
		bytes += len(part)
		pieces = slices.AppendSeq(pieces, slices.Chunk(part, piece))
	}
	if bytes == 0 {
		return 0
	}
	workers := pool.New(threads)
	defer workers.Close()
	workers.Begin()
	defer workers.End()
	sums := make([]uint64, workers.Threads()*8) // one cache line each
	pass := func(worker, lo, hi int) {
		for _, p := range pieces[lo:hi] {
			sums[worker*8] |= read(p)
		}
	}
	workers.Run(len(pieces), 1, pass)
	passes, start := 0, time.Now()
	for passes < 3 || time.Since(start) < 200*time.Millisecond {
		workers.Run(len(pieces), 1, pass)
		passes++
	}
	return float64(passes) * float64(bytes) / max(time.Since(start).Seconds(), 1e-9)
}
