//go:build !noasm

package cpu

// Microkernels for packed weights, in pack_avx2_amd64.s, pack_vnni_amd64.s, tile_avx2_amd64.s, tile_avxvnni_amd64.s and
// tile_vnni_amd64.s; the formulas stand with their twins packGeneric, tileGeneric and horizontalSumGeneric. The sums
// are those of gemv, in the same order: the two return the same bits.

//go:noescape
func epilogueAVX2(dst []float32, stride int, acc []float32, tokens int, add bool)

//go:noescape
func epilogueAVX512(dst []float32, stride int, acc []float32, tokens int, add bool)

//go:noescape
func horizontalSumAVX2(out, acc []float32)
