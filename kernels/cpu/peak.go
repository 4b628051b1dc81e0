package cpu

import "time"

// peak is the instruction that multiplies, alone and from registers.
type peak struct {
	run  func(n int) uint64 // n rounds; what it returns means nothing
	macs int                // multiply-adds of a round
}

// Peak returns the multiply-adds per second that threads workers reach together with the instructions of the variant in use that
// multiply bytes, and float32 numbers: the bound of prompts, which use every weight many times. Nothing is loaded, summed up or scaled, so no
// product of matrices reaches it. Each is the best of several passes, 0.1 s in all.
func Peak(threads int) (bytes, floats float64) {
	pool := NewPool(threads)
	defer pool.Close()
	k := kernelsInUse()
	return pool.peak(k.peakBytes), pool.peak(k.peakFloats)
}

func (p *Pool) peak(of peak) float64 {
	const rounds, pieces = 1 << 12, 16 // a piece takes some ten microseconds
	p.Begin()
	defer p.End()
	sinks := make([]uint64, p.Threads()*8) // one cache line each
	var best float64
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
		begin := time.Now()
		p.Run(pieces*p.Threads(), 1, func(worker, _, _ int) { sinks[worker*8] += of.run(rounds) })
		done := float64(of.macs) * rounds * float64(pieces*p.Threads())
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
