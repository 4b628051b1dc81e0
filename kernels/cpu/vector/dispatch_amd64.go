//go:build !noasm

package vector

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

// operationsFor ignores the sets of integer products, which make no difference here.
func operationsFor(set string) *operations {
	switch set {
	case isa.AVX2, isa.AVXVNNI:
		return avx2()
	case isa.AVX512VNNI, isa.AMX:
		return avx512()
	}
	return generic()
}

// avx2 returns the operations for CPUs with AVX2, FMA and F16C.
func avx2() *operations {
	return &operations{
		elementwise: elementwise{
			exp: expAVX2, swiGLU: swiGLUAVX2, rmsNorm: rmsNormAVX2, rope: ropeAVX2, toF16: toF16AVX2,
			fromF16: fromF16AVX2, gate: gateAVX2, scale: scaleAVX2, productSum: productSumAVX2,
		},
		reductions: reductions{softmax: softmaxAVX2, sumExp: sumExpAVX2, above: aboveAVX2},
		attention: attention{
			scoresF32: scoresF32AVX2, scoresF16: scoresF16AVX2,
			mixF32: mixF32AVX2, mixF16: mixF16AVX2, pairMixF32: pairMixF32AVX2, axpyF32: axpyF32AVX2,
		},
	}
}

// avx512 returns avx2 with registers of 512 bits where that helps.
func avx512() *operations {
	k := avx2()
	k.scoresF32, k.scoresF16, k.mixF32, k.mixF16 = scoresF32AVX512, scoresF16AVX512, mixF32AVX512, mixF16AVX512
	k.pairScoresF16, k.pairMixF16, k.pairMixF32 = pairScoresF16AVX512, pairMixF16AVX512, pairMixF32AVX512
	k.softmax, k.swiGLU, k.sumExp = softmaxAVX512, swiGLUAVX512, sumExpAVX512
	return k
}
