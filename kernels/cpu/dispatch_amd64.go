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
	k.gemv = [formats]gemv{q8_0: gemvQ8_0AVX2, q5_0: gemvQ5_0AVX2, q6_K: gemvQ6_KAVX2}
	k.smallGEMMs = [formats][]smallGEMM{
		q8_0: {{gemm8Q8_0AVX2, 8, 2, 16}}, // one token leaves little to share: one output at a time is faster
		q5_0: {{gemm8Q5_0AVX2, 8, 1, 16}},
		q6_K: {{gemm8Q6_KAVX2, 8, 2, 16}},
	}
	k.panelOutputs, k.horizontalSum, k.epilogue = 8, horizontalSumAVX2, epilogueAVX2
	k.tile = [formats]tile{q8_0: tileQ8_0AVX2, q5_0: tileQ5_0AVX2, q6_K: tileQ6_KAVX2}
	k.pack = [formats]pack{q8_0: packQ8_0AVX2, q5_0: packQ5_0AVX2, q6_K: packQ6_KAVX2}
	k.quantisedAVX2()
	k.gemm8Tokens = 6
	k.floatAVX2()
	k.round = roundAVX2
	k.read = readAVX2
	k.peakBytes, k.peakFloats = peak{peakBytesAVX2, 12 * 32}, peak{peakFloatsAVX2, 12 * 8}
	return k
}

// avxvnni returns avx2 with the integer products of AVX-VNNI.
func avxvnni() *kernels {
	k := avx2()
	k.peakBytes = peak{peakBytesAVXVNNI, 12 * 32}
	k.gemv = [formats]gemv{
		gemvQ8_0AVXVNNI, gemvQ4_0AVXVNNI, gemvQ5_0AVXVNNI, gemvQ4_KAVXVNNI, gemvQ5_KAVXVNNI, gemvQ6_KAVXVNNI,
	}
	k.smallGEMMs = [formats][]smallGEMM{
		q8_0: {{gemm8Q8_0AVXVNNI, 8, 2, 16}},
		q5_0: {{gemm8Q5_0AVXVNNI, 8, 1, 16}},
		q4_K: {{gemv8Q4_KAVXVNNI, 8, 1, 1}, {gemm8Q4_KAVXVNNI, 8, 2, 16}},
		q6_K: {{gemm8Q6_KAVXVNNI, 8, 2, 16}},
	}
	k.tile = [formats]tile{
		q8_0: tile32AVXVNNI, q5_0: tile32AVXVNNI, q4_K: tileKAVXVNNI, q6_K: tile6AVXVNNI,
	}
	k.quantisedAVXVNNI()
	return k
}

// avx512vnni returns avx2 with the integer products of AVX-512 VNNI: on 256 bits for one output and one token, on 512
// bits for several of either.
func avx512vnni() *kernels {
	k := avx2()
	k.gemv = [formats]gemv{
		gemvQ8_0VNNI, gemvQ4_0VNNI, gemvQ5_0VNNI, gemvQ4_KVNNI, gemvQ5_KVNNI, gemvQ6_KVNNI,
	}
	k.peakBytes, k.peakFloats = peak{peakBytesVNNI, 12 * 64}, peak{peakFloatsAVX512, 12 * 16}
	k.smallGEMMs = [formats][]smallGEMM{
		q8_0: {{gemm4Q8_0VNNI, 4, 2, 8}}, // one token is as fast by gemv
		q5_0: {{gemm4Q5_0VNNI, 4, 1, 8}},
		q6_K: {{gemm4Q6_KVNNI, 4, 1, 8}},
	}
	k.interleave = interleaveVNNI
	k.panelOutputs, k.epilogue = 16, epilogueAVX512
	k.pack = [formats]pack{q8_0: packQ8_0VNNI, q5_0: packQ5_0VNNI, q6_K: packQ6_KVNNI}
	k.gemm8Tokens = 8
	k.floatAVX512()
	k.cacheBytes = 320 << 10 // who has AVX-512 has a second-level cache of 512 KiB or more
	k.tile = [formats]tile{
		q8_0: tile32VNNI, q5_0: tile32VNNI, q5_K: tileKVNNI, q6_K: tile6VNNI,
	}
	k.twoPanels = [formats]tile{
		q8_0: tile32x2VNNI, q5_0: tile32x2VNNI, q5_K: tileKx2VNNI, q6_K: tile6x2VNNI,
	}
	k.quantisedVNNI()
	return k
}
