package sample

import (
	"math"
	"math/bits"
)

// gumbel returns standard Gumbel noise -ln(-ln u) for one token at one position, with u in (0, 1) drawn by a
// counter-based generator: the same arguments always give the same noise, on every machine.
func gumbel(seed, pos, id uint64) float64 {
	u := (float64(philox(id, pos, seed)>>11) + 0.5) / (1 << 53)
	return -math.Log(-math.Log(u))
}

// philox is the generator Philox2x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): ten
// rounds that mix a counter of two words under a key. It returns the first word of the result.
func philox(lo, hi, key uint64) uint64 {
	const (
		multiplier = 0xD2B74407B1CE6E93
		weyl       = 0x9E3779B97F4A7C15 // golden ratio, added to the key in each round
	)
	for range 10 {
		h, l := bits.Mul64(multiplier, lo)
		lo, hi = h^key^hi, l
		key += weyl
	}
	return lo
}
