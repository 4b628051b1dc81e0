package cpu

import (
	"time"

	"github.com/pilotfish-ai/pilotfish/kernels/cpu/pool"
)

// peak is the multiply instruction alone, on registers.
type peak struct {
	run  func(n int) uint64 // runs n rounds; the result has no meaning
	macs int                // multiply-adds of a round
}

// Peak returns the multiply-adds per second that the given number of threads reach together, with the instructions of
// the variant in use that multiply bytes, and with those that multiply float32 numbers. This bounds the speed of
// prompts, which use every weight many times. Nothing is loaded, summed up or scaled, so no product of matrices reaches
// it. Each number is the best of several passes, 0.1 s in all.
func Peak(threads int) (bytes, floats float64) {
	workers := pool.New(threads)
	defer workers.Close()
	k := kernelsInUse()
	return k.peakBytes.measureRate(workers), k.peakFloats.measureRate(workers)
}

// measureRate returns the multiply-adds per second of p.
func (p peak) measureRate(workers *pool.Pool) float64 {
	const rounds, pieces = 1 << 12, 16 // a piece takes some ten microseconds
	workers.Begin()
	defer workers.End()
	sinks := make([]uint64, workers.Threads()*8) // one cache line each
	var best float64
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		begin := time.Now()
		workers.Run(pieces*workers.Threads(), 1, func(worker, _, _ int) { sinks[worker*8] += p.run(rounds) })
		done := float64(p.macs) * rounds * float64(pieces*workers.Threads())
		best = max(best, done/max(time.Since(begin).Seconds(), 1e-9))
	}
	return best
}

func peakBytesGeneric(n int) uint64 {
	a, b, c, d := int32(1), int32(2), int32(3), int32(4)
	for i := range int32(n) {
		x := int32(int8(i))
		a, b, c, d = a+x*3, b+x*5, c+x*7, d+x*9
	}
	return uint64(a + b + c + d)
}

func peakFloatsGeneric(n int) uint64 {
	a, b, c, d := float32(1), float32(2), float32(3), float32(4)
	for i := range n {
		x := float32(i)
		a, b, c, d = a+x*3, b+x*5, c+x*7, d+x*9
	}
	return uint64(a + b + c + d)
}
