//go:build !noasm

package cpu

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

// functions returns the table of an instruction set.
func functions(set string) *kernels {
	switch set {
	case isa.AVX2:
		return avx2()
	case isa.AVXVNNI:
		return avxvnni()
	case isa.AVX512VNNI:
		return avx512vnni()
	case isa.AMX:
		return amx()
	}
	return generic()
}

// right reports whether the table of an instruction set that this CPU has computes right.
func right(k *kernels) bool { return k.name != isa.AMX || sameTiles(k, avx512vnni()) }

// avx2 returns the microkernels for CPUs with AVX2, FMA and F16C.
func avx2() *kernels {
	k := generic()
	k.gemv = [formats]gemm{
		gemvQ8_0AVX2, gemvQ4_0AVX2, gemvQ5_0AVX2, gemvQ4_KAVX2, gemvQ5_KAVX2, gemvQ6_KAVX2,
	}
	k.smallGEMMs = [formats][]smallGEMM{
		q8_0: {{gemm8Q8_0AVX2, 8, 2, 16}}, // one token leaves little to share: one output at a time is faster
		q4_0: {{gemv8Q4_0AVX2, 8, 1, 1}, {gemm8Q4_0AVX2, 8, 2, 16}},
		q5_0: {{gemm8Q5_0AVX2, 8, 1, 16}},
		q4_K: {{gemm8Q4_KAVX2, 8, 2, 16}},
		q5_K: {{gemm8Q5_KAVX2, 8, 2, 16}},
		q6_K: {{gemm8Q6_KAVX2, 8, 2, 16}},
	}
	k.panelOutputs, k.horizontalSum, k.epilogue = 8, horizontalSumAVX2, epilogueAVX2
	k.tile = [formats]tile{
		tileQ8_0AVX2, tileQ4_0AVX2, tileQ5_0AVX2, tileQ4_KAVX2, tileQ5_KAVX2, tileQ6_KAVX2,
	}
	k.pack = [formats]pack{
		packQ8_0AVX2, packQ4_0AVX2, packQ5_0AVX2, packQ4_KAVX2, packQ5_KAVX2, packQ6_KAVX2,
	}
	k.gemvF32, k.gemvF16, k.gemvBF16, k.gemm1F32 = gemvF32AVX2, gemvF16AVX2, gemvBF16AVX2, gemm1F32AVX2
	k.gemmF32, k.gemmF16, k.gemmBF16 = gemmF32AVX2, gemmF16AVX2, gemmBF16AVX2
	k.gemm8Tokens, k.gemm8F32, k.gemm8F16, k.gemm8BF16 = 6, gemm8F32AVX2, gemm8F16AVX2, gemm8BF16AVX2
	k.fromF16, k.fromBF16 = fromF16AVX2, fromBF16AVX2
	k.round = roundAVX2
	k.read = readAVX2
	k.peakBytes, k.peakFloats = peak{peakBytesAVX2, 12 * 32}, peak{peakFloatsAVX2, 12 * 8}
	return k
}

// avxvnni returns avx2 with the integer products of AVX-VNNI.
func avxvnni() *kernels {
	k := avx2()
	k.peakBytes = peak{peakBytesAVXVNNI, 12 * 32}
	k.gemv = [formats]gemm{
		gemvQ8_0AVXVNNI, gemvQ4_0AVXVNNI, gemvQ5_0AVXVNNI, gemvQ4_KAVXVNNI, gemvQ5_KAVXVNNI, gemvQ6_KAVXVNNI,
	}
	k.smallGEMMs = [formats][]smallGEMM{
		q8_0: {{gemm8Q8_0AVXVNNI, 8, 2, 16}},
		q4_0: {{gemv8Q4_0AVXVNNI, 8, 1, 1}, {gemm8Q4_0AVXVNNI, 8, 2, 16}},
		q5_0: {{gemm8Q5_0AVXVNNI, 8, 1, 16}},
		q4_K: {{gemv8Q4_KAVXVNNI, 8, 1, 1}, {gemm8Q4_KAVXVNNI, 8, 2, 16}},
		q5_K: {{gemm8Q5_KAVXVNNI, 8, 2, 16}},
		q6_K: {{gemm8Q6_KAVXVNNI, 8, 2, 16}},
	}
	k.tile = [formats]tile{
		tile32AVXVNNI, tile32AVXVNNI, tile32AVXVNNI, tileKAVXVNNI, tileKAVXVNNI, tile6AVXVNNI,
	}
	return k
}

// avx512vnni returns avx2 with the integer products of AVX-512 VNNI: on 256 bits for one output and one token, on 512
// bits for several of either.
func avx512vnni() *kernels {
	k := avx2()
	k.gemv = [formats]gemm{
		gemvQ8_0VNNI, gemvQ4_0VNNI, gemvQ5_0VNNI, gemvQ4_KVNNI, gemvQ5_KVNNI, gemvQ6_KVNNI,
	}
	k.peakBytes, k.peakFloats = peak{peakBytesVNNI, 12 * 64}, peak{peakFloatsAVX512, 12 * 16}
	k.smallGEMMs = [formats][]smallGEMM{
		q8_0: {{gemm4Q8_0VNNI, 4, 2, 8}}, // one token is as fast by gemv
		q4_0: {{gemm4Q4_0VNNI, 4, 1, 8}},
		q5_0: {{gemm4Q5_0VNNI, 4, 1, 8}},
		q4_K: {{gemm4Q4_KVNNI, 4, 1, 8}},
		q5_K: {{gemm4Q5_KVNNI, 4, 1, 8}},
		q6_K: {{gemm4Q6_KVNNI, 4, 1, 8}},
	}
	k.interleave = interleaveVNNI
	k.panelOutputs, k.epilogue = 16, epilogueAVX512
	k.pack = [formats]pack{
		packQ8_0VNNI, packQ4_0VNNI, packQ5_0VNNI, packQ4_KVNNI, packQ5_KVNNI, packQ6_KVNNI,
	}
	k.gemmF32, k.gemmF16, k.gemmBF16 = gemmF32AVX512, gemmF16AVX512, gemmBF16AVX512
	k.gemm8Tokens, k.gemm8F32, k.gemm8F16, k.gemm8BF16 = 8, gemm8F32AVX512, gemm8F16AVX512, gemm8BF16AVX512
	k.cacheBytes = 320 << 10 // who has AVX-512 has a second-level cache of 512 KiB or more
	k.tile = [formats]tile{
		tile32VNNI, tile32VNNI, tile32VNNI, tileKVNNI, tileKVNNI, tile6VNNI,
	}
	k.twoPanels = [formats]tile{
		tile32x2VNNI, tile32x2VNNI, tile32x2VNNI, tileKx2VNNI, tileKx2VNNI, tile6x2VNNI,
	}
	return k
}
