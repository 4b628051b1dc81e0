//go:build !noasm

package vector

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

// operationsFor ignores the sets of integer products, which make no difference here.
func operationsFor(set string) *operations {
	if set == isa.Generic {
		return generic()
	}
	return neon()
}

// neon returns the operations for every arm64 CPU.
func neon() *operations {
	softmax := func(x []float32) (top, sum float32) { return softmaxBy(expNEON, x) }
	return &operations{
		elementwise: elementwise{
			exp: expNEON, swiGLU: swiGLUNEON, rmsNorm: rmsNormNEON, rope: ropeNEON, toF16: toF16NEON,
			fromF16: fromF16NEON, gate: gateNEON, scale: scaleNEON, productSum: productSumNEON,
		},
		reductions: reductions{softmax: softmax, sumExp: sumExpNEON, above: aboveNEON},
		attention: attention{
			scoresF32: scoresF32NEON, scoresF16: scoresF16NEON,
			mixF32: mixF32NEON, mixF16: mixF16NEON, pairMixF32: pairMixF32NEON, axpyF32: axpyF32NEON,
		},
	}
}
