//go:build !noasm

package cpu

// What becomes of the accumulators of generated tiles, in epilogue_amd64.s; the formula stands with the twin
// horizontalSumGeneric.

func epilogueAVX2(a *sumArgs)
func epilogueAVX512(a *sumArgs)
func horizontalSumAVX2(a *sumArgs)
