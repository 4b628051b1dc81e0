//go:build !noasm

package cpu

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

// functions returns the table of an instruction set.
func functions(set string) *kernels {
	switch set {
	case isa.NEON:
		return neon()
	case isa.DotProd:
		return dotprod()
	case isa.I8MM:
		return i8mm()
	}
	return generic()
}

// right reports whether the table of an instruction set that this CPU has computes right: none is in doubt.
func right(*kernels) bool { return true }

// neon returns the microkernels for every arm64 CPU.
func neon() *kernels {
	k := generic()
	k.gemv = [formats]gemm{
		gemvQ8_0NEON, gemvQ4_0NEON, gemvQ5_0NEON, gemvQ4_KNEON, gemvQ5_KNEON, gemvQ6_KNEON,
	}
	k.panelOutputs, k.horizontalSum = 16, horizontalSumNEON
	k.pack = [formats]pack{
		packQ8_0By16, packQ4_0By16, packQ5_0By16, packQ4_KBy16, packQ5_KBy16, packQ6_KBy16,
	}
	k.tile = [formats]tile{
		tile32NEON, tile32NEON, tile32NEON, tileKNEON, tileKNEON, tile6NEON,
	}
	k.gemvF32, k.gemvF16, k.gemvBF16 = gemvF32NEON, gemvF16NEON, gemvBF16NEON
	k.gemmF32, k.gemmF16, k.gemmBF16 = gemmF32NEON, gemmF16NEON, gemmBF16NEON
	k.round = roundNEON
	k.read = readNEON
	k.peakBytes, k.peakFloats = peak{peakBytesNEON, 12 * 8}, peak{peakFloatsNEON, 12 * 4}
	return k
}

// dotprod returns neon with the integer products of CPUs that have SDOT: nearly all since 2018.
func dotprod() *kernels {
	k := neon()
	k.peakBytes = peak{peakBytesSDOT, 12 * 16}
	k.gemv = [formats]gemm{
		gemvQ8_0SDOT, gemvQ4_0SDOT, gemvQ5_0SDOT, gemvQ4_KSDOT, gemvQ5_KSDOT, gemvQ6_KSDOT,
	}
	k.pack = [formats]pack{
		packQ8_0By4, packQ4_0By4, packQ5_0By4, packQ4_KBy4, packQ5_KBy4, packQ6_KBy4,
	}
	k.tile = [formats]tile{
		tile32SDOT, tile32SDOT, tile32SDOT, tileKSDOT, tileKSDOT, tile6SDOT,
	}
	return k
}

// i8mm returns dotprod with SMMLA, which multiplies matrices of two rows each, for several tokens: Apple's from the M2
// on, Arm's from 2021 on.
func i8mm() *kernels {
	k := dotprod()
	k.peakBytes = peak{peakBytesSMMLA, 12 * 32}
	k.pack = [formats]pack{
		packQ8_0By8, packQ4_0By8, packQ5_0By8, packQ4_KBy8, packQ5_KBy8, packQ6_KBy8,
	}
	k.tile = [formats]tile{
		tile32SMMLA, tile32SMMLA, tile32SMMLA, tileKSMMLA, tileKSMMLA, tile6SMMLA,
	}
	return k
}
