package cpu

import (
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

// ReadBandwidth returns the bytes per second at which threads workers read memory, from first byte to last, with the
// widest loads of the variant in use: the bound of decoding, which reads every weight once. It is the mean of several
// passes, as the rate of a generation is one of its tokens: on a machine that others use, the best pass would tell
// what nobody gets for long. A first pass counts for nothing (it brings the pages in). memory, which may lie in
// several parts, is far larger than the caches for the figure to mean memory; the time taken is that of reading it at
// least 4 times and for at least 200 ms.
func ReadBandwidth(threads int, memory ...[]byte) float64 {
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
	k := kernelsInUse()
	sums := make([]uint64, workers.Threads()*8) // one cache line each
	pass := func(worker, lo, hi int) {
		for _, p := range pieces[lo:hi] {
			sums[worker*8] |= k.read(p)
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
