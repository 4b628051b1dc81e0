//go:build !noasm

package cpu

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

func kernelsFor(set string) *kernels {
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

func computesCorrectly(k *kernels) bool { return k.name != isa.AMX || sameTiles(k, avx512vnni()) }

// avx2 returns the microkernels for CPUs with AVX2, FMA and F16C.
func avx2() *kernels {
	k := generic()
	k.quantisedAVX2()
	k.panelOutputs, k.horizontalSum = 8, nil // epilogue is used instead
	k.gemm8Tokens = 6
	k.floatAVX2()
	k.read = readAVX2
	k.peakBytes, k.peakFloats = peak{peakBytesAVX2, 12 * 32}, peak{peakFloatsAVX2, 12 * 8}
	return k
}

// avxvnni returns avx2 with the integer products of AVX-VNNI.
func avxvnni() *kernels {
	k := avx2()
	k.peakBytes = peak{peakBytesAVXVNNI, 12 * 32}
	k.quantisedAVXVNNI()
	return k
}

// avx512vnni returns avx2 with the integer products of AVX-512 VNNI: on 256 bits for one output and one token, on 512
// bits for several of either.
func avx512vnni() *kernels {
	k := avx2()
	k.quantisedVNNI()
	k.peakBytes, k.peakFloats = peak{peakBytesVNNI, 12 * 64}, peak{peakFloatsAVX512, 12 * 16}
	k.panelOutputs, k.interleaved = 16, true
	k.gemm8Tokens = 8
	k.floatAVX512()
	k.cacheBytes = 320 << 10 // every CPU with AVX-512 has a second-level cache of at least 512 KiB
	return k
}
