package main

import (
	"fmt"
	"math"
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

// floats is the microkernels for float weights. Those of one token have no more registers to sum in than AVX2 has:
// others would return other bits.
var floats = []file{
	{"gemv_float", avx2{}, "floatAVX2", floatKernels(func(t floatType) []microkernel {
		return []microkernel{{
			name: "gemv" + t.name + "AVX2", write: t.gemv, signature: floatGEMVSignature, fields: []string{"gemv" + t.name},
		}}
	})},
	{"gemm_float_avx2", avx2{}, "floatAVX2", floatKernels(func(t floatType) []microkernel {
		four := gemmFloat{weights: t, rows: 4, tokens: 4, tileRows: 2, tileTokens: 4, whole: 2048, part: 2048}
		eight := gemmFloat{
			weights: t, rows: 8, tokens: 6, tileRows: 2, tileTokens: 6, whole: 3584, part: 2432, prefetchesTokens: true,
		}
		return []microkernel{
			{name: "gemm" + t.name + "AVX2", write: four.write, signature: floatGEMM4, fields: []string{"gemm" + t.name}},
			{name: "gemm8" + t.name + "AVX2", write: eight.write, signature: floatGEMM8(6), fields: []string{"gemm8" + t.name}},
		}
	})},
	{"gemm_float_avx512", vnni{}, "floatAVX512", floatKernels(func(t floatType) []microkernel {
		four := gemmFloat{weights: t, rows: 4, tokens: 4, tileRows: 4, tileTokens: 4, whole: math.MaxInt32}
		eight := gemmFloat{weights: t, rows: 8, tokens: 8, tileRows: 4, tileTokens: 4, whole: 4096, part: 2048}
		return []microkernel{
			{name: "gemm" + t.name + "AVX512", write: four.write, signature: floatGEMM4, fields: []string{"gemm" + t.name}},
			{name: "gemm8" + t.name + "AVX512", write: eight.write, signature: floatGEMM8(8), fields: []string{"gemm8" + t.name}},
		}
	})},
}

// floatKernels is the microkernels of all types.
func floatKernels(of func(floatType) []microkernel) (all []microkernel) {
	for _, t := range []floatType{typeF32, typeF16, typeBF16} {
		all = append(all, of(t)...)
	}
	return all
}
