package cpu

import (
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
)

// Scratch is one worker's working memory for [MatMul]. The zero value is ready; it grows to what the matrices need and is
// reused. Two workers must not share one.
type Scratch struct {
	panels      []panel     // of quantised weights
	w, ds, mins []uint32    // of all panels
	acc         []float32   // [lanes, T, wide] sums of a panel and some rows of activations
	f           []float32   // [tile, cols] dequantised weights
	out, sums   []float32   // results of a tile; of one exact row
	four        [4]float32  // results of a leaf for four rows of activations
	grid        [16]float32 // results of a grid
}

const (
	tileBytes  = 24 << 10 // of weights turned to float32: leaves room in a first-level cache for four rows of activations
	floatBytes = 32 << 10 // of float weights that a grid reads as they are stored
	leafBytes  = 64 << 10 // of weights that one call of assembly reads: a few microseconds, as a leaf cannot be preempted
)

// MatMul sets dst[t·stride+o] = Σᵢ m[o,i]·x[t,i] for lo ≤ o < hi and every row t of x, or adds to it if add is true.
// x is [T, m.Cols], rounded if m is [Matrix.Quantised]; dst holds (T-1)·stride+hi values and must not overlap x. Sums are in
// float32. sc is the caller's own, one per worker.
func MatMul(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	kernelsInUse().matMul(dst, stride, m, lo, hi, x, add, sc)
}

func (k *kernels) matMul(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	if x.N != m.Cols {
		panic("cpu: MatMul of shapes that differ")
	}
	if lo >= hi || x.T == 0 {
		return
	}
	if m.Cols == 0 {
		for t := range x.T {
			put(dst[t*stride+lo:t*stride+hi], nil, add)
		}
		return
	}
	f := formatOf(m.Type)
	switch k.wayOf(m.Type, m.Rows, m.Cols, x.T) {
	case byGroups:
		k.quantisedGroups(dst, stride, m, f, k.groupOf(f, x.T, m.Cols), lo, hi, x, add, sc)
	case byRows:
		k.quantisedFew(dst, stride, m, f, lo, hi, x, add, sc)
	case byTiles:
		k.quantisedTiles(dst, stride, m, f, lo, hi, x, add, sc)
	case byFloatRows:
		k.floatOne(dst, m, k.floatLeaf(m.Type), lo, hi, x, add, sc)
	default:
		k.floatMany(dst, stride, m, lo, hi, x, add, sc)
	}
}

// way is how a product is computed: which of the functions below does it.
type way int

const (
	byGroups    way = iota // quantisedGroups
	byRows                 // quantisedFew
	byTiles                // quantisedTiles
	byFloatRows            // floatOne
	byGrids                // floatMany
)

// wayOf returns the way for a weight of some type, [rows, cols], and t rows of activations.
func (k *kernels) wayOf(w block.Type, rows, cols, t int) way {
	f := formatOf(w)
	switch {
	case k.groupOf(f, t, cols) != nil:
		return byGroups
	case f >= 0 && (t == 1 || rows < k.wide):
		return byRows
	case f >= 0:
		return byTiles
	case t == 1 && k.floatLeaf(w) != nil:
		return byFloatRows
	}
	return byGrids
}

// put stores v in dst or adds it; a nil v is zeros.
func put(dst, v []float32, add bool) {
	switch {
	case add:
		for i, v := range v {
			dst[i] += v
		}
	case v == nil:
		clear(dst)
	default:
		copy(dst, v)
	}
}

// quantisedFew is matMul for one row of activations, or a weight of few rows: a leaf takes weight rows as they are stored to each.
func (k *kernels) quantisedFew(dst []float32, stride int, m Matrix, f format, lo, hi int, x *Acts, add bool, sc *Scratch) {
	bytes := leafBytes
	if x.T > 1 {
		bytes = tileBytes
	}
	tile := max(4, bytes/m.RowBytes()&^3)
	for o := lo; o < hi; o += tile {
		end := min(o+tile, hi)
		for t := range x.T {
			q, d, s, h := x.rounded(t, 1)
			out := dst[t*stride+o : t*stride+end]
			if !add {
				k.rows[f](out, m.rows(o, end), q, d, s, h)
				continue
			}
			sc.out = grow(sc.out, end-o, tile)
			k.rows[f](sc.out, m.rows(o, end), q, d, s, h)
			put(out, sc.out, true)
		}
	}
}

// quantisedGroups is matMul for a few rows of activations, which meet the weights as they are stored, by groups of rows.
func (k *kernels) quantisedGroups(dst []float32, stride int, m Matrix, f format, g *group, lo, hi int, x *Acts, add bool, sc *Scratch) {
	tile := max(1, leafBytes/(g.rows*m.RowBytes())) * g.rows
	sc.out = grow(sc.out, x.T*tile, x.T*tile)
	var acts form
	acts.q, acts.d, acts.s, acts.h = x.rounded(0, x.T)
	if k.spread != nil {
		acts.q = x.P
	}
	for o := lo; o < hi; o += tile {
		end := min(o+tile, hi)
		some := (end - o) / g.rows * g.rows
		if some > 0 {
			g.leaf(sc.out, tile, m.rows(o, o+some), acts, x.T, x.N)
		}
		for t := range x.T {
			out := sc.out[t*tile:][:end-o]
			if some < len(out) {
				q, d, s, h := x.rounded(t, 1)
				k.rows[f](out[some:], m.rows(o+some, end), q, d, s, h)
			}
			put(dst[t*stride+o:t*stride+end], out, add)
		}
	}
}

// scatter stores the first n of v at dst[at], dst[at+stride], … or adds them.
func scatter(dst []float32, at, stride int, v [4]float32, n int, add bool) {
	for i := range n {
		if add {
			v[i] += dst[at+i*stride]
		}
		dst[at+i*stride] = v[i]
	}
}

// floatOne is matMul for one row of float32 activations and a type whose rows dot reads.
func (k *kernels) floatOne(dst []float32, m Matrix, dot floatRows, lo, hi int, x *Acts, add bool, sc *Scratch) {
	tile := max(1, leafBytes/m.RowBytes())
	sc.out = grow(sc.out, tile, tile)
	for o := lo; o < hi; o += tile {
		end := min(o+tile, hi)
		dot(sc.out[:end-o], m.rows(o, end), m.RowBytes(), x.floats(0, 1))
		put(dst[o:end], sc.out[:end-o], add)
	}
}

// floatMany is matMul on float32 activations: some weight rows at a time meet all rows of activations, by eight and four. If no leaf takes
// several rows of their type, they are turned to float32 first, which is exact.
func (k *kernels) floatMany(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	n := m.Cols
	tile := min(16, max(8, tileBytes/(4*n)&^7)) // grids take four or eight rows
	if four, _ := k.gridLeaves(m.Type); four != nil && x.T <= together {
		tile = min(16, max(8, floatBytes/m.RowBytes()&^7))
	} else if four != nil {
		tile = min(64, max(16, k.waitBytes/m.RowBytes()&^7))
	}
	sc.out = grow(sc.out, tile, tile)
	for o := lo; o < hi; o += tile {
		end := min(o+tile, hi)
		w, size, dot := m.rows(o, end), m.RowBytes(), k.floatLeaf(m.Type)
		four, eight := k.gridLeaves(m.Type)
		if m.Type != block.F32 && (four == nil || n%16 != 0 || (end-o)%4 != 0) {
			sc.f = grow(sc.f, tile*n, tile*n)
			k.toFloat(sc.f[:(end-o)*n], m.Type, w)
			w, size, dot = bytesOf(sc.f[:(end-o)*n]), 4*n, k.rowsF32
			four, eight = k.gridLeaves(block.F32)
		}
		for t := 0; t < x.T; {
			switch to := dst[t*stride+o:]; {
			case x.T-t == 1:
				dot(sc.out[:end-o], w, size, x.floats(t, 1))
				put(to[:end-o], sc.out[:end-o], add)
				t++
			case eight != nil && k.grid8Takes(x.T-t) && n%16 == 0 && (end-o)%8 == 0:
				next := t + k.grid8Rows
				for r := 0; r < end-o; r += 8 {
					rows := w[r*size : (r+8)*size]
					eight(to[r:], stride, rows, x.floats(t, k.grid8Rows), k.ahead(rows, t == 0, r*size, x, next), add)
				}
				t = next
			default:
				k.floatFour(to, stride, w, size, four, x.floats(t, 4), min(4, x.T-t), add, sc)
				t += 4
			}
		}
	}
}

// ahead returns how far from eight rows of weights what grid8 fetches lies: the rows after them if these meet their first activations; then,
// where many weights wait and rows are long, as much of the activations from the next-th row on, from byte at, until all are fetched; else the
// weights themselves, which costs nothing.
func (k *kernels) ahead(w []byte, first bool, at int, x *Acts, next int) int {
	switch {
	case first:
		return len(w)
	case k.waitBytes == 0 || x.N <= segment || next+k.grid8Rows > x.T || at >= 4*k.grid8Rows*x.N:
		return 0
	}
	acts := bytesOf(x.floats(next, k.grid8Rows))
	return int(uintptr(unsafe.Pointer(&acts[at])) - uintptr(unsafe.Pointer(&w[0])))
}

// grid8Takes reports whether grid8 is to take the next of so many rows of activations: two fours are better than six and a part of four.
func (k *kernels) grid8Takes(rows int) bool {
	return rows >= k.grid8Rows && !(k.grid8Rows == 6 && rows%6 == 2)
}

// floatFour sets dst[t·stride+r] for the rows of w, of size bytes, and the first n of four rows of x, or adds to it.
func (k *kernels) floatFour(dst []float32, stride int, w []byte, size int, grid floatGrid, x []float32, n int, add bool, sc *Scratch) {
	r := 0
	for ; grid != nil && len(x)%64 == 0 && len(w) >= 4*size; r += 4 {
		grid(&sc.grid, w[:4*size], x)
		putFour(dst[r:], stride, &sc.grid, n, add)
		w = w[4*size:]
	}
	for ; len(w) > 0; r++ {
		k.fourF32(&sc.four, w[:size], x)
		scatter(dst, r, stride, sc.four, n, add)
		w = w[size:]
	}
}

// putFour stores n rows of four sums at dst, stride apart, or adds them.
func putFour(dst []float32, stride int, sums *[16]float32, n int, add bool) {
	for t := range n {
		to, sum := (*[4]float32)(dst[t*stride:]), (*[4]float32)(sums[4*t:])
		if add {
			*to = [4]float32{to[0] + sum[0], to[1] + sum[1], to[2] + sum[2], to[3] + sum[3]}
		} else {
			*to = *sum
		}
	}
}

// floatLeaf returns the leaf that reads rows of t directly, nil if there is none.
func (k *kernels) floatLeaf(t block.Type) floatRows {
	switch t {
	case block.F32:
		return k.rowsF32
	case block.F16:
		return k.rowsF16
	case block.BF16:
		return k.rowsBF16
	}
	return nil
}

// gridLeaves returns the leaves that read four and eight rows of t directly, nil if there is none.
func (k *kernels) gridLeaves(t block.Type) (floatGrid, floatGrid8) {
	switch t {
	case block.F32:
		return k.gridF32, k.grid8F32
	case block.F16:
		return k.gridF16, k.grid8F16
	case block.BF16:
		return k.gridBF16, k.grid8BF16
	}
	return nil, nil
}

// toFloat sets dst to the elements of src, which is len(dst) elements of t.
func (k *kernels) toFloat(dst []float32, t block.Type, src []byte) {
	switch t {
	case block.F16:
		k.fromF16(dst, src)
	case block.BF16:
		k.fromBF16(dst, src)
	default:
		t.Dequantize(dst, src)
	}
}

// MatMulExact is [MatMul] without rounding of activations, in plain Go: it takes x in float32 for every type of m, whether or not
// it was rounded, and sums in float64. Error: the rounding of the result to float32.
func MatMulExact(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	n := m.Cols
	if x.N != n {
		panic("cpu: MatMulExact of shapes that differ")
	}
	sc.sums = grow(sc.sums, n, n)
	for o := lo; o < hi; o++ {
		m.Type.Dequantize(sc.sums, m.rows(o, o+1))
		for t := range x.T {
			v := vector.Dot64(sc.sums, x.floats(t, 1))
			if add {
				v += float64(dst[t*stride+o])
			}
			dst[t*stride+o] = float32(v)
		}
	}
}

// bytesOf returns the memory of f.
func bytesOf(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}
