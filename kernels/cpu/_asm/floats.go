package main

import (
	"math"
	"slices"
)

// floats lists the microkernels for float weights. Those of one token use no more registers for sums than AVX2 has: a
// different number would give different bits.
var floats = []file{
	{"gemv_float", avx2{}, "floatAVX2", forEachType("gemv", "AVX2", floatType.writeGEMV)},
	{"gemm_float_avx2", avx2{}, "floatAVX2", slices.Concat(
		forEachType("gemm", "AVX2", gemmFloat{
			rows: 4, tokens: 4, tileRows: 2, tileTokens: 4, whole: 2048, part: 2048,
		}.writeKernel),
		forEachType("gemm8", "AVX2", gemmFloat{
			rows: 8, tokens: 6, tileRows: 2, tileTokens: 6, whole: 3584, part: 2432, prefetchesTokens: true,
		}.writeKernel),
	)},
	{"gemm_float_avx512", vnni{}, "floatAVX512", slices.Concat(
		forEachType("gemm", "AVX512", gemmFloat{
			rows: 4, tokens: 4, tileRows: 4, tileTokens: 4, whole: math.MaxInt32,
		}.writeKernel),
		forEachType("gemm8", "AVX512", gemmFloat{
			rows: 8, tokens: 8, tileRows: 4, tileTokens: 4, whole: 4096, part: 2048,
		}.writeKernel),
	)},
}

// forEachType returns a shape of microkernel for each type of weights; field is that of the table, without the type.
func forEachType(field, set string, write func(floatType, *Kernel)) (all []microkernel) {
	for _, t := range []floatType{typeF32, typeF16, typeBF16} {
		all = append(all, microkernel{
			name: field + t.name + set, args: "floatArgs", fields: []string{field + t.name},
			write: func(k *Kernel) { write(t, k) },
		})
	}
	return all
}
