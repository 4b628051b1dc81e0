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

// neon returns the leaves for every arm64 CPU.
func neon() *kernels {
	k := generic()
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0NEON, rowsQ4_0NEON, rowsQ5_0NEON, rowsQ4_KNEON, rowsQ5_KNEON, rowsQ6_KNEON,
	}
	k.wide, k.fold = 16, foldNEON
	k.pack = [formats]func(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte){
		packQ8_0By16, packQ4_0By16, packQ5_0By16, packQ4_KBy16, packQ5_KBy16, packQ6_KBy16,
	}
	k.tile = [formats]tileLeaf{
		tile32NEON, tile32NEON, tile32NEON, tileKNEON, tileKNEON, tile6NEON,
	}
	k.rowsF32, k.rowsF16, k.rowsBF16, k.fourF32 = rowsF32NEON, rowsF16NEON, rowsBF16NEON, fourF32NEON
	k.gridF32, k.gridF16, k.gridBF16 = gridF32NEON, gridF16NEON, gridBF16NEON
	k.fromF16, k.fromBF16 = fromF16NEON, fromBF16NEON
	k.round = roundNEON
	k.read = readNEON
	k.peakBytes, k.peakFloats = peak{peakBytesNEON, 12 * 8}, peak{peakFloatsNEON, 12 * 4}
	return k
}

// dotprod returns neon with the integer products of CPUs that have SDOT: nearly all since 2018.
func dotprod() *kernels {
	k := neon()
	k.peakBytes = peak{peakBytesSDOT, 12 * 16}
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0SDOT, rowsQ4_0SDOT, rowsQ5_0SDOT, rowsQ4_KSDOT, rowsQ5_KSDOT, rowsQ6_KSDOT,
	}
	k.pack = [formats]func(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte){
		packQ8_0By4, packQ4_0By4, packQ5_0By4, packQ4_KBy4, packQ5_KBy4, packQ6_KBy4,
	}
	k.tile = [formats]tileLeaf{
		tile32SDOT, tile32SDOT, tile32SDOT, tileKSDOT, tileKSDOT, tile6SDOT,
	}
	return k
}

// i8mm returns dotprod with SMMLA, which multiplies matrices of two rows each, for several rows of activations: Apple's from the
// M2 on, Arm's from 2021 on.
func i8mm() *kernels {
	k := dotprod()
	k.peakBytes = peak{peakBytesSMMLA, 12 * 32}
	k.pack = [formats]func(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte){
		packQ8_0By8, packQ4_0By8, packQ5_0By8, packQ4_KBy8, packQ5_KBy8, packQ6_KBy8,
	}
	k.tile = [formats]tileLeaf{
		tile32SMMLA, tile32SMMLA, tile32SMMLA, tileKSMMLA, tileKSMMLA, tile6SMMLA,
	}
	return k
}
