//go:build !noasm

package cpu

// Microkernels for packed weights, in pack_arm64.s, tile_neon_arm64.s, tile_sdot_arm64.s and tile_smmla_arm64.s; the
// formulas stand with their twins packGeneric, tileGeneric and horizontalSumGeneric. The sums are those of gemv, in the
// same order: the two return the same bits.

//go:noescape
func tile32NEON(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tileKNEON(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile6NEON(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile32SDOT(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tileKSDOT(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile6SDOT(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile32SMMLA(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tileKSMMLA(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile6SMMLA(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func horizontalSumNEON(out, acc []float32)

//go:noescape
func packQ8_0By4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ8_0By8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ8_0By16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ4_0By4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ4_0By8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ4_0By16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_0By4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_0By8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_0By16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ4_KBy4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ4_KBy8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ4_KBy16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_KBy4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_KBy8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_KBy16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ6_KBy4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ6_KBy8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ6_KBy16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
