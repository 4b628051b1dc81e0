//go:build !noasm

package cpu

import "github.com/klauspost/cpuid/v2"

// variants returns what this CPU offers, plain Go first, the best last. Every arm64 CPU that Go runs on has NEON.
func variants() []*kernels {
	all := []*kernels{generic(), neon()}
	if cpuid.CPU.Supports(cpuid.ASIMDDP) {
		all = append(all, dotprod())
	}
	return all
}

// neon returns the leaves for every arm64 CPU. Rounding and exponentials, which are little work beside the products, stay in Go.
func neon() *kernels {
	k := generic()
	k.name = "neon"
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0NEON, rowsQ4_0NEON, rowsQ5_0NEON, rowsQ4_KNEON, rowsQ5_KNEON, rowsQ6_KNEON,
	}
	k.unpack = [formats]func(w []int8, ds, mins []float32, src []byte){
		unpackQ8_0NEON, unpackQ4_0NEON, unpackQ5_0NEON, unpackQ4_KNEON, unpackQ5_KNEON, unpackQ6_KNEON,
	}
	k.wide, k.panel = 0, panelNEON
	k.rowsF32, k.rowsF16, k.rowsBF16, k.fourF32 = rowsF32NEON, rowsF16NEON, rowsBF16NEON, fourF32NEON
	k.gridF32 = nil
	k.fromF16, k.fromBF16 = fromF16NEON, fromBF16NEON
	k.axpyF32 = axpyF32NEON
	k.scoresF32, k.scoresF16, k.mixF32, k.mixF16 = scoresF32NEON, scoresF16NEON, mixF32NEON, mixF16NEON
	k.read = readNEON
	return k
}

// dotprod returns neon with the integer products of CPUs that have SDOT: nearly all since 2018.
func dotprod() *kernels {
	k := neon()
	k.name = "dotprod"
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0SDOT, rowsQ4_0SDOT, rowsQ5_0SDOT, rowsQ4_KSDOT, rowsQ5_KSDOT, rowsQ6_KSDOT,
	}
	k.panel = panelSDOT
	return k
}
