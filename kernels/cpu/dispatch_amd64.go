//go:build !noasm

package cpu

import "github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"

// functions returns the table of an instruction set.
func functions(set string) *kernels {
	switch set {
	case isa.AVX2:
		return avx2()
	case isa.AVXVNNI:
		return avxvnni()
	case isa.AVX512VNNI:
		return avx512vnni()
	case isa.AMX:
		return amx()
	}
	return generic()
}

// right reports whether the table of an instruction set that this CPU has computes right.
func right(k *kernels) bool { return k.name != isa.AMX || sameTiles(k, avx512vnni()) }

// avx2 returns the leaves for CPUs with AVX2, FMA and F16C.
func avx2() *kernels {
	k := generic()
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0AVX2, rowsQ4_0AVX2, rowsQ5_0AVX2, rowsQ4_KAVX2, rowsQ5_KAVX2, rowsQ6_KAVX2,
	}
	k.groups = [formats][]group{
		q8_0: {{octsQ8_0AVX2, 8, 2, 16}}, // one row of weights at a time is faster where one of activations leaves little to share
		q4_0: {{octQ4_0AVX2, 8, 1, 1}, {octsQ4_0AVX2, 8, 2, 16}},
		q5_0: {{octsQ5_0AVX2, 8, 1, 16}},
		q4_K: {{octsQ4_KAVX2, 8, 2, 16}},
		q5_K: {{octsQ5_KAVX2, 8, 2, 16}},
		q6_K: {{octsQ6_KAVX2, 8, 2, 16}},
	}
	k.wide, k.fold, k.settle = 8, foldAVX2, settleAVX2
	k.tile = [formats]tileLeaf{
		tileQ8_0AVX2, tileQ4_0AVX2, tileQ5_0AVX2, tileQ4_KAVX2, tileQ5_KAVX2, tileQ6_KAVX2,
	}
	k.pack = [formats]func(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte){
		packQ8_0AVX2, packQ4_0AVX2, packQ5_0AVX2, packQ4_KAVX2, packQ5_KAVX2, packQ6_KAVX2,
	}
	k.rowsF32, k.rowsF16, k.rowsBF16, k.fourF32 = rowsF32AVX2, rowsF16AVX2, rowsBF16AVX2, fourF32AVX2
	k.gridF32, k.gridF16, k.gridBF16 = gridF32AVX2, gridF16AVX2, gridBF16AVX2
	k.grid8Rows, k.grid8F32, k.grid8F16, k.grid8BF16 = 6, grid8F32AVX2, grid8F16AVX2, grid8BF16AVX2
	k.fromF16, k.fromBF16 = fromF16AVX2, fromBF16AVX2
	k.round = roundAVX2
	k.read = readAVX2
	k.peakBytes, k.peakFloats = peak{peakBytesAVX2, 12 * 32}, peak{peakFloatsAVX2, 12 * 8}
	return k
}

// avxvnni returns avx2 with the integer products of AVX-VNNI.
func avxvnni() *kernels {
	k := avx2()
	k.peakBytes = peak{peakBytesAVXVNNI, 12 * 32}
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0AVXVNNI, rowsQ4_0AVXVNNI, rowsQ5_0AVXVNNI, rowsQ4_KAVXVNNI, rowsQ5_KAVXVNNI, rowsQ6_KAVXVNNI,
	}
	k.groups = [formats][]group{
		q8_0: {{octsQ8_0AVXVNNI, 8, 2, 16}},
		q4_0: {{octQ4_0AVXVNNI, 8, 1, 1}, {octsQ4_0AVXVNNI, 8, 2, 16}},
		q5_0: {{octsQ5_0AVXVNNI, 8, 1, 16}},
		q4_K: {{octQ4_KAVXVNNI, 8, 1, 1}, {octsQ4_KAVXVNNI, 8, 2, 16}},
		q5_K: {{octsQ5_KAVXVNNI, 8, 2, 16}},
		q6_K: {{octsQ6_KAVXVNNI, 8, 2, 16}},
	}
	k.tile = [formats]tileLeaf{
		tile32AVXVNNI, tile32AVXVNNI, tile32AVXVNNI, tileKAVXVNNI, tileKAVXVNNI, tile6AVXVNNI,
	}
	return k
}

// avx512vnni returns avx2 with the integer products of AVX-512 VNNI: on 256 bits for one row of weights and one of activations, on 512 bits for
// several of either.
func avx512vnni() *kernels {
	k := avx2()
	k.rows = [formats]func(dst []float32, w []byte, q []int8, d, s []float32, h []int16){
		rowsQ8_0VNNI, rowsQ4_0VNNI, rowsQ5_0VNNI, rowsQ4_KVNNI, rowsQ5_KVNNI, rowsQ6_KVNNI,
	}
	k.peakBytes, k.peakFloats = peak{peakBytesVNNI, 12 * 64}, peak{peakFloatsAVX512, 12 * 16}
	k.groups = [formats][]group{
		q8_0: {{quadQ8_0VNNI, 4, 2, 8}}, // one row is as fast by itself
		q4_0: {{quadQ4_0VNNI, 4, 1, 8}},
		q5_0: {{quadQ5_0VNNI, 4, 1, 8}},
		q4_K: {{quadQ4_KVNNI, 4, 1, 8}},
		q5_K: {{quadQ5_KVNNI, 4, 1, 8}},
		q6_K: {{quadQ6_KVNNI, 4, 1, 8}},
	}
	k.spread = spreadVNNI
	k.wide, k.settle = 16, settleAVX512
	k.pack = [formats]func(w []int8, ds, mins []float32, src []byte, stride int, ahead []byte){
		packQ8_0VNNI, packQ4_0VNNI, packQ5_0VNNI, packQ4_KVNNI, packQ5_KVNNI, packQ6_KVNNI,
	}
	k.gridF32, k.gridF16, k.gridBF16 = gridF32AVX512, gridF16AVX512, gridBF16AVX512
	k.grid8Rows, k.grid8F32, k.grid8F16, k.grid8BF16 = 8, grid8F32AVX512, grid8F16AVX512, grid8BF16AVX512
	k.waitBytes = 320 << 10 // who has AVX-512 has a second-level cache of 512 KiB or more
	k.tile = [formats]tileLeaf{
		tile32VNNI, tile32VNNI, tile32VNNI, tileKVNNI, tileKVNNI, tile6VNNI,
	}
	k.twoTiles = [formats]tileLeaf{
		tile32x2VNNI, tile32x2VNNI, tile32x2VNNI, tileKx2VNNI, tileKx2VNNI, tile6x2VNNI,
	}
	return k
}
