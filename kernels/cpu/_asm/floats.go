package main

import (
	"fmt"
	"math"
	"slices"
)

var (
	floatGEMVSignature = signature{
		"floatArgs", "dst []float32, w []byte, stride int, x []float32",
		"dst: dst*, rows: len(dst), w: w*, rowBytes: stride, x: x*, n: len(x)",
	}
	floatGEMM4 = signature{
		"floatArgs", "dst *[16]float32, w []byte, x []float32",
		"dst: &dst[0], stride: 4, w: w*, rowBytes: len(w) / 4, x: x*, n: len(x) / 4, prefetch: len(w)",
	}
)

// floatGEMM8 is of microkernels for eight rows and so many tokens.
func floatGEMM8(tokens int) signature {
	return signature{
		"floatArgs", "dst []float32, stride int, w []byte, x []float32, prefetch int, add bool",
		fmt.Sprintf("dst: dst*, stride: stride, w: w*, rowBytes: len(w) / 8, x: x*, n: len(x) / %d, "+
			"prefetch: prefetch, add: add", tokens),
	}
}

// floats is the microkernels for float weights. Those of one token sum up in no more registers than AVX2 has for them:
// others would return other bits.
var floats = []file{
	{"gemv_float", avx2{}, "floatAVX2", ofEachType("gemv", "AVX2", floatGEMVSignature, floatType.gemv)},
	{"gemm_float_avx2", avx2{}, "floatAVX2", slices.Concat(
		ofEachType("gemm", "AVX2", floatGEMM4, gemmFloat{
			rows: 4, tokens: 4, tileRows: 2, tileTokens: 4, whole: 2048, part: 2048,
		}.write),
		ofEachType("gemm8", "AVX2", floatGEMM8(6), gemmFloat{
			rows: 8, tokens: 6, tileRows: 2, tileTokens: 6, whole: 3584, part: 2432, prefetchesTokens: true,
		}.write),
	)},
	{"gemm_float_avx512", vnni{}, "floatAVX512", slices.Concat(
		ofEachType("gemm", "AVX512", floatGEMM4, gemmFloat{
			rows: 4, tokens: 4, tileRows: 4, tileTokens: 4, whole: math.MaxInt32,
		}.write),
		ofEachType("gemm8", "AVX512", floatGEMM8(8), gemmFloat{
			rows: 8, tokens: 8, tileRows: 4, tileTokens: 4, whole: 4096, part: 2048,
		}.write),
	)},
}

// ofEachType is a shape of microkernel for each type of weights; field is that of the table, without the type.
func ofEachType(field, set string, s signature, write func(floatType, *Kernel)) (all []microkernel) {
	for _, t := range []floatType{typeF32, typeF16, typeBF16} {
		all = append(all, microkernel{
			name: field + t.name + set, signature: s, fields: []string{field + t.name},
			write: func(k *Kernel) { write(t, k) },
		})
	}
	return all
}
