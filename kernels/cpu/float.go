package cpu

import (
	"unsafe"
)

const (
	convertedBytes = 24 << 10 // of weights converted to float32: leaves room in a first-level cache for four tokens
	storedBytes    = 32 << 10 // of float weights that a floatGEMM reads as they are stored
)

// floatGEMV is MatMul for one token and float weights, which gemv reads as they are stored.
func (k *kernels) floatGEMV(dst []float32, m Matrix, gemv floatGEMM, lo, hi int, x *Acts, add bool, sc *Scratch) {
	most := max(1, callBytes/m.RowBytes()) // outputs at a time
	sc.out = growSlice(sc.out, most, most)
	for o := lo; o < hi; o += most {
		end := min(o+most, hi)
		sc.float.setRows(m.rowData(o, end), m.RowBytes(), x.N)
		sc.float.setOut(sc.out[:end-o], x.floatTokens(0, 1))
		gemv(&sc.float)
		storeOrAdd(dst[o:end], sc.out[:end-o], add)
	}
	sc.float = floatArgs{}
}

// floatWeights are some rows of a weight in a form that float microkernels read.
type floatWeights struct {
	data  []byte
	size  int       // bytes of a row
	one   floatGEMM // gemv
	four  floatGEMM // gemm; nil if there is none
	eight floatGEMM // gemm8; nil if there is none, or if it cannot take these rows
}

// floatGEMM is MatMul on float32 activations. It computes some outputs at a time for all tokens: tokens in groups for
// the eight-output microkernel, then four at a time; a last token goes through GEMV.
func (k *kernels) floatGEMM(dst []float32, stride int, m Matrix, lo, hi int, x *Acts, add bool, sc *Scratch) {
	most := k.floatOutputs(m, x.T)
	sc.out = growSlice(sc.out, most, most)
	for o := lo; o < hi; o += most {
		end := min(o+most, hi)
		w := k.floatWeights(m, o, end, most, sc)
		for t := 0; t < x.T; {
			switch to := dst[t*stride+o:]; {
			case x.T-t == 1:
				sc.float.setRows(w.data, w.size, x.N)
				sc.float.setOut(sc.out[:end-o], x.floatTokens(t, 1))
				w.one(&sc.float)
				storeOrAdd(to[:end-o], sc.out[:end-o], add)
				t++
			case w.eight != nil && k.gemm8Takes(x.T-t):
				k.floatTile8(to, stride, &w, x, t, add, sc)
				t += k.gemm8Tokens
			default:
				k.floatTile4(to, stride, &w, x.floatTokens(t, 4), min(4, x.T-t), add, sc)
				t += 4
			}
		}
	}
	sc.float = floatArgs{}
}

// floatOutputs returns the number of outputs to compute at a time: their weights stay in a cache while all tokens are
// multiplied. It is a multiple of eight.
func (k *kernels) floatOutputs(m Matrix, tokens int) int {
	switch four, _ := k.gemmOf(m.Type); {
	case four == nil:
		return min(16, max(8, convertedBytes/(4*m.Cols)&^7))
	case tokens <= tileTokens:
		return min(16, max(8, storedBytes/m.RowBytes()&^7))
	}
	return min(64, max(16, k.cacheBytes/m.RowBytes()&^7))
}

// floatWeights returns rows o to end of m, at most most. If no microkernel reads rows of their type, they are converted
// to float32 first, which is exact.
func (k *kernels) floatWeights(m Matrix, o, end, most int, sc *Scratch) floatWeights {
	n, rows := m.Cols, end-o
	w := floatWeights{data: m.rowData(o, end), size: m.RowBytes(), one: k.gemvOf(m.Type)}
	w.four, w.eight = k.gemmOf(m.Type)
	if w.four == nil {
		sc.f = growSlice(sc.f, most*n, most*n)
		m.Type.Dequantize(sc.f[:rows*n], w.data)
		w = floatWeights{data: bytesOf(sc.f[:rows*n]), size: 4 * n, one: k.gemvF32, four: k.gemmF32, eight: k.gemm8F32}
	}
	if n%16 != 0 || rows%8 != 0 {
		w.eight = nil
	}
	return w
}

// gemm8Takes reports whether a gemm8 computes the next tokens: two gemm4 are better than six tokens and a part of four.
func (k *kernels) gemm8Takes(tokens int) bool {
	return tokens >= k.gemm8Tokens && !(k.gemm8Tokens == 6 && tokens%6 == 2)
}

// floatTile8 sets dst[i·stride+o], or adds to it, for all rows of w, eight at a time, and the tokens t+i of x for i
// below gemm8Tokens.
func (k *kernels) floatTile8(
	dst []float32, stride int, w *floatWeights, x *Acts, t int, add bool, sc *Scratch,
) {
	acts, next, a := x.floatTokens(t, k.gemm8Tokens), t+k.gemm8Tokens, &sc.float
	last := (k.gemm8Tokens - 1) * stride
	for at := 0; at < len(w.data); at += 8 * w.size {
		rows, o := w.data[at:at+8*w.size], at/w.size
		a.setRows(rows, w.size, x.N)
		a.setOut(dst[o:o+last+8], acts)
		a.stride, a.prefetch, a.add = stride, k.prefetchAt(rows, t == 0, at, x, next), add
		w.eight(a)
	}
}

// prefetchAt returns the distance from eight weight rows to the memory that a gemm8 prefetches. While these rows are
// multiplied with the first tokens, it is the rows after them. Later, if many weights wait and rows are long, it is the
// same amount of activations from token next on, from byte at, until all are prefetched. Otherwise it is the weights
// themselves, which costs nothing.
func (k *kernels) prefetchAt(w []byte, first bool, at int, x *Acts, next int) int {
	switch {
	case first:
		return len(w)
	case k.cacheBytes == 0 || x.N <= segment || next+k.gemm8Tokens > x.T || at >= 4*k.gemm8Tokens*x.N:
		return 0
	}
	acts := bytesOf(x.floatTokens(next, k.gemm8Tokens))
	return int(uintptr(unsafe.Pointer(&acts[at])) - uintptr(unsafe.Pointer(&w[0])))
}

// floatTile4 sets dst[t·stride+o], or adds to it, for all rows of w and the first tokens of the four in x.
func (k *kernels) floatTile4(
	dst []float32, stride int, w *floatWeights, x []float32, tokens int, add bool, sc *Scratch,
) {
	rows, size, four, n, a := w.data, w.size, w.four, len(x)/4, &sc.float
	a.stride, a.prefetch, a.add = 4, 4*size, false
	for ; four != nil && n%16 == 0 && len(rows) >= 4*size; dst = dst[4:] {
		a.setRows(rows[:4*size], size, n)
		a.setOut(sc.four[:], x)
		four(a)
		storeOrAddFour(dst, stride, &sc.four, tokens, add)
		rows = rows[4*size:]
	}
	left := len(rows) / size
	for t := 0; left > 0 && t < tokens; t++ {
		a.setRows(rows, size, n)
		a.setOut(sc.out[:left], x[t*n:][:n])
		w.one(a)
		storeOrAdd(dst[t*stride:][:left], sc.out[:left], add)
	}
}

// storeOrAddFour stores four sums for each of some tokens at dst, stride apart, or adds them.
func storeOrAddFour(dst []float32, stride int, sums *[16]float32, tokens int, add bool) {
	for t := range tokens {
		to, sum := (*[4]float32)(dst[t*stride:]), (*[4]float32)(sums[4*t:])
		if add {
			*to = [4]float32{to[0] + sum[0], to[1] + sum[1], to[2] + sum[2], to[3] + sum[3]}
		} else {
			*to = *sum
		}
	}
}
