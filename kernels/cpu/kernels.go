package cpu

import "github.com/pilotfish-ai/pilotfish/gguf/block"

// kernels is the microkernels of one instruction set. MatMul checks shapes and cuts the work before one is called, so a
// microkernel may assume lengths that fit and at least one element. Each has its twin in generic.go, where its formula
// stands.
type kernels struct {
	name string // of the instruction set, as in package isa
	storedKernels
	packedKernels
	floatKernels
	boundKernels
}

// storedKernels multiply quantised weights as they are stored, with one token or a few.
type storedKernels struct {
	gemv       [formats]gemv                                          // one token, one output after the other
	smallGEMMs [formats][]smallGEMM                                   // a few tokens, some outputs at a time
	round      func(q []int8, d, s []float32, h []int16, x []float32) // activations to 8 bits, see [Acts]

	// interleave sets P of a token ([Acts]) from Q of whole blocks, the from-th and following; nil if smallGEMMs take
	// Q.
	interleave func(to, q []int8, from int)
}

// activations are those of some tokens, rounded, as in [Acts].
type activations struct {
	q    []int8 // Q, or P for a smallGEMM of an instruction set that has interleave
	d, s []float32
	h    []int16
}

// gemv sets dst[o] = Σᵢ w[o,i]·x[i] for len(dst) rows of w, which lie behind each other.
type gemv func(dst []float32, w []byte, x activations)

// smallGEMM is a microkernel that multiplies some outputs at a time with a few tokens.
type smallGEMM struct {
	multiply    smallGEMMFunc
	outputs     int // at a time: 4 or 8
	least, most int // tokens
}

// smallGEMMFunc sets dst[t·stride+o], with the bits of gemv, for a multiple of [smallGEMM].outputs rows of a multiple
// of four blocks, and tokens of n activations each.
type smallGEMMFunc func(dst []float32, stride int, w []byte, x activations, tokens, n int)

// packedKernels multiply quantised weights with many tokens. pack unpacks and interleaves some rows of a weight: a
// panel. tile, a register tile, adds the products of a panel with some tokens to accumulators, of which horizontalSum
// or epilogue makes outputs.
type packedKernels struct {
	panelOutputs int // rows of a panel
	pack         [formats]pack
	tile         [formats]tile
	fewTile      [formats]tile // takes the place of tile for fewer tokens than tileLeast
	tileLeast    int
	twoPanels    [formats]tile // of two panels behind each other, as are their accumulators; nil if nothing is gained

	// horizontalSum sets out[i] to the sum of the accumulators of each result, epilogue puts such sums at dst, or adds
	// them, and leaves zeros; it may be nil.
	horizontalSum func(out, acc []float32)
	epilogue      func(dst []float32, stride int, acc []float32, tokens int, add bool)
}

// pack makes a panel of rows that begin stride bytes apart: weights as signed bytes, scales and minima, as packGeneric
// does, or in an order that suits tile better. Of two scales of a block that are equal it need set only the first. It
// prefetches the given memory meanwhile.
type pack func(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

// tile adds to acc the products of a panel with up to [tileTokens] tokens of n activations, see tileGeneric, and
// prefetches the given memory meanwhile.
type tile func(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

// floatKernels multiply float weights with activations in float32.
type floatKernels struct {
	gemvF32, gemvF16, gemvBF16 floatGEMV

	// Four outputs and four tokens, for a multiple of 16 columns. Nil: converted to float32 first.
	gemmF32, gemmF16, gemmBF16 floatGEMM

	// Eight outputs and gemm8Tokens tokens, likewise, or nil.
	gemm8Tokens                   int
	gemm8F32, gemm8F16, gemm8BF16 floatGEMM8
	cacheBytes                    int // of weights that stay in a second-level cache while tokens pass
}

// floatGEMV sets dst[o] = Σᵢ w[o,i]·x[i] for len(dst) rows of w that begin stride bytes apart.
type floatGEMV func(dst []float32, w []byte, stride int, x []float32)

// floatGEMM sets dst[4t+o] = Σᵢ w[o,i]·x[t,i] for four rows of w and four tokens, which lie behind each other.
type floatGEMM func(dst *[16]float32, w []byte, x []float32)

// floatGEMM8 sets dst[t·stride+o] = Σᵢ w[o,i]·x[t,i] for eight rows of w and the tokens of x, or adds it. Meanwhile it
// prefetches as much memory as the rows of w take, which begins prefetch bytes after they do.
type floatGEMM8 func(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

// boundKernels measure what a machine can do at most.
type boundKernels struct {
	read                  func(p []byte) uint64
	peakBytes, peakFloats peak
}

// tileOf returns what multiplies a panel in format f with so many tokens.
func (k *kernels) tileOf(f format, tokens int) tile {
	if tokens < k.tileLeast {
		return k.fewTile[f]
	}
	return k.tile[f]
}

// smallGEMMOf returns what multiplies weights in format f, as they are stored, with t tokens of n activations, or nil.
func (k *kernels) smallGEMMOf(f format, t, n int) *smallGEMM {
	if f < 0 || n%(4*actBlock) != 0 {
		return nil
	}
	for i := range k.smallGEMMs[f] {
		if g := &k.smallGEMMs[f][i]; g.least <= t && t <= g.most {
			return g
		}
	}
	return nil
}

// gemvOf returns what reads float weights of type w with one token, nil if there is none.
func (k *kernels) gemvOf(w block.Type) floatGEMV {
	switch w {
	case block.F32:
		return k.gemvF32
	case block.F16:
		return k.gemvF16
	case block.BF16:
		return k.gemvBF16
	}
	return nil
}

// gemmOf returns what reads four and eight rows of float weights of type w, nil if there is none.
func (k *kernels) gemmOf(w block.Type) (floatGEMM, floatGEMM8) {
	switch w {
	case block.F32:
		return k.gemmF32, k.gemm8F32
	case block.F16:
		return k.gemmF16, k.gemm8F16
	case block.BF16:
		return k.gemmBF16, k.gemm8BF16
	}
	return nil, nil
}
