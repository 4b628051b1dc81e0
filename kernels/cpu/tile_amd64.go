//go:build !noasm

package cpu

// Leaves in tile_avx2_amd64.s, tile_avxvnni_amd64.s, tile_vnni_amd64.s, pack_avx2_amd64.s and pack_vnni_amd64.s; the formulas stand with their
// twins tileGeneric, foldGeneric and packGeneric. The sums are those of the rows leaves, in the same order: the two return the same bits.

//go:noescape
func tileQ8_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileQ4_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileQ5_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileQ4_KAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileQ5_KAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileQ6_KAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile32AVXVNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileKAVXVNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile6AVXVNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile32VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileKVNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile6VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile32x2VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileKx2VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile6x2VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func settleAVX2(dst []float32, stride int, acc []float32, rows int, add bool)

//go:noescape
func settleAVX512(dst []float32, stride int, acc []float32, rows int, add bool)

//go:noescape
func foldAVX2(out, acc []float32)

//go:noescape
func packQ8_0AVX2(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ4_0AVX2(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ5_0AVX2(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ4_KAVX2(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ5_KAVX2(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ6_KAVX2(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ8_0VNNI(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ4_0VNNI(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ5_0VNNI(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ4_KVNNI(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ5_KVNNI(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)

//go:noescape
func packQ6_KVNNI(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte)
