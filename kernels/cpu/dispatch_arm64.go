//go:build !noasm

package cpu

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

func kernelsFor(set string) *kernels {
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

// computesCorrectly is true: no instruction set here needs a test.
func computesCorrectly(*kernels) bool { return true }

// neon returns the microkernels for every arm64 CPU.
func neon() *kernels {
	k := generic()
	k.quantisedNEON()
	k.panelOutputs = 16
	k.floatNEON()
	k.read = readNEON
	k.peakBytes, k.peakFloats = peak{peakBytesNEON, 12 * 8}, peak{peakFloatsNEON, 12 * 4}
	return k
}

// dotprod returns neon with the integer products of CPUs that have SDOT: nearly all since 2018.
func dotprod() *kernels {
	k := neon()
	k.quantisedSDOT()
	k.peakBytes = peak{peakBytesSDOT, 12 * 16}
	return k
}

// i8mm returns dotprod with SMMLA, which multiplies matrices of two rows each, for several tokens: Apple's from the M2
// on, Arm's from 2021 on.
func i8mm() *kernels {
	k := dotprod()
	k.quantisedSMMLA()
	k.peakBytes = peak{peakBytesSMMLA, 12 * 32}
	return k
}
