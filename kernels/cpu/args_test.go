package cpu

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// called calls a microkernel, which must not change its arguments: a caller that repeats the call sets only what
// changes.
func called[F ~func(*A), A comparable](f F, a A) {
	before := a
	f(&a)
	if a != before {
		panic("a microkernel changes its arguments")
	}
}

// callGEMV calls a GEMV of quantised weights: all rows of w with one token.
func callGEMV(f gemm, dst []float32, w []byte, x activations) { callGEMM(f, dst, 0, w, x, 1, len(x.q)) }

// callGEMM calls a small GEMM.
func callGEMM(f gemm, dst []float32, stride int, w []byte, x activations, tokens, n int) {
	a := gemmArgs{dst: unsafe.SliceData(dst), stride: stride, w: unsafe.SliceData(w), wBytes: len(w)}
	a.setActs(x, tokens, n)
	called(f, a)
}

// callPack packs columns of a panel.
func callPack(f pack, w, ds, mins []uint32, columns int, src []byte, stride int, prefetch []byte) {
	a := packArgs{w: bytesIn(w), columns: columns, ds: floatsIn(ds), mins: floatsIn(mins)}
	a.src, a.stride = unsafe.SliceData(src), stride
	a.setPrefetch(prefetch)
	called(f, a)
}

// callTile multiplies a panel.
func callTile(f tile, acc []float32, w, ds, mins []uint32, x activations, tokens, n int, prefetch []byte) {
	var a tileArgs
	a.setAcc(acc)
	a.setPanel(w, ds, mins)
	x.tiled = tiledScales(x.d, x.s, tokens)
	a.setActs(x, tokens, n)
	a.setPrefetch(prefetch, prefetch)
	outputs := 4 * len(w) / n
	work := tileWork{panels: 1, groups: 1, n: n, accumulators: len(acc) / (tokens * outputs), tokens: tokens}
	a.setPasses(tilePasses{}.appendPasses(work))
	called(f, a)
}

// callSum sets out to the sums of its accumulators.
func callSum(f func(*sumArgs), out, acc []float32) {
	a := sumArgs{dst: unsafe.SliceData(out), acc: unsafe.SliceData(acc), accumulators: len(acc) / len(out), n: len(out)}
	called(f, a)
}

// callEpilogue adds or stores the sums of accumulators at dst.
func callEpilogue(f func(*sumArgs), dst []float32, stride int, acc []float32, accumulators, tokens int, add bool) {
	a := sumArgs{dst: unsafe.SliceData(dst), stride: stride, acc: unsafe.SliceData(acc), accumulators: accumulators}
	a.n, a.tokens, a.add = len(acc)/accumulators, tokens, add
	called(f, a)
}

// callRound rounds x.
func callRound(f func(*actsArgs), q []int8, d, s []float32, h []int16, x []float32) {
	a := actsArgs{x: unsafe.SliceData(x), q: unsafe.SliceData(q), h: unsafe.SliceData(h), n: len(x)}
	a.d, a.s = unsafe.SliceData(d), unsafe.SliceData(s)
	called(f, a)
}

// callFloat multiplies rows of w, which start stride bytes apart, with one token of n activations.
func callFloat(f floatGEMM, dst []float32, w []byte, stride int, x []float32, n int) {
	a := floatArgs{dst: unsafe.SliceData(dst), w: unsafe.SliceData(w), rowBytes: stride, rows: len(dst)}
	a.x, a.n = unsafe.SliceData(x), n
	called(f, a)
}

// callFloatGEMM is callFloat for a number of rows and several tokens, with results stride apart.
func callFloatGEMM(f floatGEMM, dst []float32, stride int, w []byte, rows int, x []float32, n int, add bool) {
	a := floatArgs{dst: unsafe.SliceData(dst), stride: stride, w: unsafe.SliceData(w), rowBytes: len(w) / rows}
	a.rows, a.x, a.n, a.add = rows, unsafe.SliceData(x), n, add
	called(f, a)
}

// TestScratchKeepsNothing: after a product a Scratch holds no pointers to the caller's data.
func TestScratchKeepsNothing(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		in := newInputs(t, 5, 0)
		for _, typ := range types {
			for _, tokens := range []int{1, 3, 17} {
				var sc Scratch
				m, x := in.matrix(typ, 37, 256), in.input(tokens, 256)
				assert.Zero(t, *kernelsInUse().actsArgs.Get().(*actsArgs), "the arguments of round")
				k.matMul(make([]float32, 37*tokens), 37, m, 0, 37, x, false, &sc)
				assert.Zero(t, sc.gemm, "%v, %d tokens", typ, tokens)
				assert.Zero(t, sc.pack, "%v, %d tokens", typ, tokens)
				assert.Zero(t, sc.tile, "%v, %d tokens", typ, tokens)
				assert.Zero(t, sc.sum, "%v, %d tokens", typ, tokens)
				assert.Zero(t, sc.float, "%v, %d tokens", typ, tokens)
			}
		}
	})
}
