//go:build !noasm

package cpu

import "slices"

// amxRows is the fewest rows of activations that AMX takes. By the figures that Intel gives, a block of a panel costs VNNI 6 cycles for each
// row, and AMX no more than 16 for all of up to 16 rows, or 1.5 to 3 a row for the vector units; but configuring the tiles costs
// 250 once a call. With 1024 columns four rows are as fast either way, and six are faster by half.
const amxRows = 6

const _ uint = 16 - together // rows of a tile

// amx returns avx512vnni with AMX's products of signed bytes for several rows of activations.
//
// Tile state is like any other register to a thread that has it: the kernel saves it when it takes the CPU away, and in the frame of
// a signal, for which Go's signal stacks of 32 KiB have room. It is never there while Go code runs: Go's scheduler does not
// stop inside assembly, and a leaf configures the tiles when it begins and releases them before it returns.
func amx() *kernels {
	k := avx512vnni()
	k.twoTiles = [formats]tileLeaf{}
	k.peakBytes = peak{peakBytesAMX, 4 * 16 * 16 * 64}
	for f, leaf := range [formats]tileLeaf{tile32AMX, tile32AMX, tile32AMX, tileKAMX, tileKAMX, tile6AMX} {
		for i := range k.groups[f] {
			k.groups[f][i].most = min(k.groups[f][i].most, amxRows-1)
		}
		k.tile[f] = leaf
	}
	k.fewTile, k.tileRows = avx512vnni().tile, amxRows
	return k
}

// sameTiles reports whether two variants with panels of 16 rows give the same bits for one panel of each format. Their numbers are small, so
// that sums are exact. AMX is asked before it is trusted, as wrong results would not show.
func sameTiles(a, b *kernels) bool {
	const cols, rows, wide = 256, 16, 16
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(i*37%255 - 127)
	}
	q, d, s, h := make([]int8, rows*cols), make([]float32, rows*cols/32), make([]float32, rows*cols/32), make([]int16, rows*cols/16)
	a.round(q, d, s, h, x)
	w, ds, mins := make([]int8, wide*cols), make([]float32, wide*cols/16), make([]float32, wide*cols/32)
	for i := range ds {
		ds[i], mins[i/2] = float32(i/32%4+1), float32(i%3)
	}
	for f := range formats {
		for i := range w {
			w[i] = int8(i * 11 % 16)
			if f != q4_K && f != q5_K {
				w[i] -= 8
			}
		}
		sums := [2][]float32{make([]float32, f.lanes()*rows*wide), make([]float32, f.lanes()*rows*wide)}
		for i, k := range [2]*kernels{a, b} {
			k.tileOf(f, rows)(sums[i], w, ds, mins, q, d, s, h, rows, cols, nil)
		}
		if !slices.Equal(sums[0], sums[1]) {
			return false
		}
	}
	return true
}

// Leaves in amx_amd64.s for up to 16 rows of activations; they return the same bits as those of tile_vnni_amd64.s.

//go:noescape
func tile32AMX(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tileKAMX(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func tile6AMX(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)

//go:noescape
func peakBytesAMX(n int) uint64
