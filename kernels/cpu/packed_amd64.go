//go:build !noasm

package cpu

// What becomes of the accumulators of generated tiles, in epilogue_amd64.s; the formula stands with the twin
// horizontalSumGeneric.

//go:noescape
func epilogueAVX2(dst []float32, stride int, acc []float32, tokens int, add bool)

//go:noescape
func epilogueAVX512(dst []float32, stride int, acc []float32, tokens int, add bool)

//go:noescape
func horizontalSumAVX2(out, acc []float32)
