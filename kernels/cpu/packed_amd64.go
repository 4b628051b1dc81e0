//go:build !noasm

package cpu

// Microkernels for packed weights, in pack_avx2_amd64.s, pack_vnni_amd64.s, tile_avx2_amd64.s, tile_avxvnni_amd64.s and
// tile_vnni_amd64.s; the formulas stand with their twins packGeneric, tileGeneric and horizontalSumGeneric. The sums
// are those of gemv, in the same order: the two return the same bits.

//go:noescape
func tileQ8_0AVX2(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tileQ5_0AVX2(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tileQ6_KAVX2(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile6AVXVNNI(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile6VNNI(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func tile6x2VNNI(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte)

//go:noescape
func epilogueAVX2(dst []float32, stride int, acc []float32, tokens int, add bool)

//go:noescape
func epilogueAVX512(dst []float32, stride int, acc []float32, tokens int, add bool)

//go:noescape
func horizontalSumAVX2(out, acc []float32)

//go:noescape
func packQ8_0AVX2(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_0AVX2(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ6_KAVX2(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ8_0VNNI(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ5_0VNNI(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)

//go:noescape
func packQ6_KVNNI(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
