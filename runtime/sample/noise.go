package sample

import (
	"math"
	"math/bits"
)

// noise is the random number of one token at one position: 52 random bits that stand for u = (noise+½)/2⁵² in (0, 1). A
// counter-based generator draws it, so that the same arguments always give the same noise, on every machine.
type noise uint64

func noiseOf(seed, pos, id uint64) noise { return noise(philox(id, pos, seed) >> 12) }

func (n noise) gumbel() float64 {
	u := (float64(n) + 0.5) / (1 << 52)
	return -math.Log(-math.Log(u))
}

// upperBound returns an upper bound of gumbel without a logarithm: -ln u ≥ 1-u ≥ 2^(b-53), where b is the bit length of
// 2⁵²-1-n.
func (n noise) upperBound() float64 {
	return float64(53-bits.Len64(1<<52-1-uint64(n))) * math.Ln2
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

// Noise returns the number that is added to the logit divided by the temperature of a token at a position of the text,
// before the best token is taken.
func Noise(seed uint64, pos int, id int32) float64 {
	return noiseOf(seed, uint64(pos), uint64(id)).gumbel()
}
