package cpu

import "time"

// ReadBandwidth returns the bytes per second at which threads workers read p, from first byte to last, with the widest loads of the
// variant in use: the bound of decoding, which reads every weight once. It is the best of several passes, the first of which counts
// for nothing (it brings the pages in). p is far larger than the caches for the figure to mean memory, such as a mapped model;
// the time taken is that of reading it at least 4 times and for at least 200 ms.
func ReadBandwidth(threads int, p []byte) float64 {
	if len(p) == 0 {
		return 0
	}
	pool := NewPool(threads)
	defer pool.Close()
	pool.Begin()
	defer pool.End()
	k := kernelsInUse()
	sums := make([]uint64, pool.Threads()*8) // one cache line each
	pass := func(worker, lo, hi int) { sums[worker*8] |= k.read(p[lo:hi]) }
	const piece = 1 << 20
	pool.Run(len(p), piece, pass)
	var best float64
	for i, total := 0, time.Duration(0); i < 3 || total < 200*time.Millisecond; i++ {
		start := time.Now()
		pool.Run(len(p), piece, pass)
		took := time.Since(start)
		total += took
		best = max(best, float64(len(p))/max(took.Seconds(), 1e-9))
	}
	return best
}
