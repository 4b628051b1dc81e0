//go:build !noasm

package cpu

import "slices"

// amxTokens is the minimum number of tokens for which AMX multiplies a panel. By Intel's figures, a block of a panel
// takes VNNI 6 cycles for each token, and AMX 16 for all of up to 16 tokens, beside 3 a token for the vector units; but
// configuring the tiles takes 250 cycles once a call. Up to 8 tokens in all are computed by gemm4, which needs no
// panel: with 8 tokens it takes 0.7 of the time.
const amxTokens = 6

const _ uint = 16 - tileTokens // rows of a tile

// amx returns avx512vnni with AMX's products of signed bytes for several tokens.
//
// Tile state is like any other register of a thread: the kernel saves it when it schedules another thread, and in the
// frame of a signal, for which Go's signal stacks of 32 KiB have room. It is never present while Go code runs: Go's
// scheduler does not stop a thread inside assembly, and a microkernel configures the tiles when it begins and releases
// them before it returns.
func amx() *kernels {
	k := avx512vnni()
	k.twoPanels, k.inPasses = [formats]tile{}, true
	k.peakBytes = peak{peakBytesAMX, 4 * 16 * 16 * 64}
	k.fewTile, k.tileLeast = k.tile, amxTokens
	k.quantisedAMX()
	return k
}

// sameTiles reports whether two instruction sets with panels of 16 rows give the same bits for one panel of each
// format. The numbers in the test are small, so that sums are exact. AMX is tested before it is used, because wrong
// results would not be noticed.
func sameTiles(a, b *kernels) bool {
	const cols, tokens, outputs = 256, 16, 16
	x := make([]float32, tokens*cols)
	for i := range x {
		x[i] = float32(i*37%255 - 127)
	}
	const n = tokens * cols
	acts := activations{q: make([]int8, n), d: make([]float32, n/32), s: make([]float32, n/32), h: make([]int16, n/16)}
	a.round(&actsArgs{x: &x[0], q: &acts.q[0], d: &acts.d[0], s: &acts.s[0], h: &acts.h[0], n: n})
	acts.tiled = tiledScales(acts.d, acts.s, tokens)
	w, ds, mins := make([]int8, outputs*cols), make([]float32, outputs*cols/16), make([]float32, outputs*cols/32)
	args := &tileArgs{w: &w[0], wBytes: len(w), ds: &ds[0], dsBytes: 4 * len(ds)}
	args.mins, args.minsBytes = &mins[0], 4*len(mins)
	args.setActs(acts, tokens, cols)
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
		work := tileWork{panels: 1, groups: 1, n: cols, accumulators: f.accumulatorCount(), tokens: tokens}
		args.setPasses(tilePasses{}.appendPasses(work))
		size := f.accumulatorCount() * tokens * outputs
		sums := [2][]float32{make([]float32, size), make([]float32, size)}
		for i, k := range [2]*kernels{a, b} {
			args.setAcc(sums[i])
			k.tileOf(f, tokens)(args)
		}
		if !slices.Equal(sums[0], sums[1]) {
			return false
		}
	}
	return true
}
