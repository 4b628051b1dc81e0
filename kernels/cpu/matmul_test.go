package cpu

import (
	"math"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// types lists all tensor types.
var types = []block.Type{
	block.F32, block.F16, block.BF16, block.Q4_0, block.Q4_1, block.Q5_0, block.Q5_1, block.Q8_0, block.Q2_K,
	block.Q3_K, block.Q4_K, block.Q5_K, block.Q6_K, block.IQ4_NL, block.IQ4_XS,
}

// The places of half-precision numbers in a block of the types without a format.
var otherHalves = map[block.Type][]int{
	block.Q4_1: {0, 2}, block.Q5_1: {0, 2}, block.Q2_K: {80, 82}, block.Q3_K: {108}, block.IQ4_NL: {0},
	block.IQ4_XS: {0},
}

// matrix returns a random weight of type typ with moderate values.
func (in *inputs) matrix(typ block.Type, rows, cols int) Matrix {
	m := Matrix{Type: typ, Rows: rows, Cols: cols}
	if f := formatOf(typ); f >= 0 {
		m.Data = in.weights(f, rows, cols, in.small)
		return m
	}
	m.Data = in.Bytes(rows * m.RowBytes())
	_, size := typ.Block()
	for b := 0; b < len(m.Data); b += size {
		switch typ {
		case block.F32:
			bits := math.Float32bits(float32(in.NormFloat64()))
			m.Data[b], m.Data[b+1], m.Data[b+2], m.Data[b+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
		case block.F16:
			putHalf(m.Data[b:], block.F32ToF16(float32(in.NormFloat64())))
		case block.BF16:
			putHalf(m.Data[b:], block.F32ToBF16(float32(in.NormFloat64())))
		default:
			for _, at := range otherHalves[typ] {
				putHalf(m.Data[b+at:], block.F32ToF16(in.small()))
			}
		}
	}
	return m
}

func putHalf(b []byte, h uint16) { b[0], b[1] = byte(h), byte(h>>8) }

// input returns t tokens of n activations, set and if possible rounded.
func (in *inputs) input(t, n int) *Acts { return in.actsOf(in.Floats(t*n), n) }

// actsOf returns tokens of n activations, set to f and if possible rounded, also for variants that are not in use.
func (in *inputs) actsOf(f []float32, n int) *Acts {
	x := &Acts{}
	x.Resize(len(f)/n, n)
	x.P = make([]int8, len(f))
	for t := range x.T {
		x.Set(t, f[t*n:])
		if n%actBlock == 0 {
			x.Round(t)
		}
		if n%(4*actBlock) == 0 {
			interleave(x.P[t*n:], x.Q[t*n:][:n], 0)
		}
	}
	x.tiled = nil
	for t := 0; t < x.T && n >= actBlock; t += tileTokens {
		tokens, blocks := min(tileTokens, x.T-t), n/actBlock
		x.tiled = append(x.tiled, tiledScales(x.D[t*blocks:(t+tokens)*blocks], x.S[t*blocks:], tokens)...)
	}
	return x
}

// columns returns possible sizes of a row of typ, with odd ones if blocks are single elements.
func columns(typ block.Type) []int {
	switch elems, _ := typ.Block(); elems {
	case 1:
		return []int{1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 33, 64, 100, 896}
	case 32:
		return []int{32, 64, 96, 896}
	}
	return []int{256, 512, 768}
}

// TestMatMul compares every type with float64 on the same activations, rounded or not.
func TestMatMul(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, typ := range types {
			for _, n := range columns(typ) {
				in := newInputs(t, uint64(n), 0)
				const rows = 5
				m := in.matrix(typ, rows, n)
				x := in.input(3, n)
				w := make([]float32, rows*n)
				typ.Dequantize(w, m.Data)
				dst := make([]float32, x.T*rows)
				var sc Scratch
				k.matMul(dst, rows, m, 0, rows, x, false, &sc)
				for i := range x.T {
					for o := range rows {
						var want, size float64
						for j := range n {
							a := float64(x.F[i*n+j])
							if m.Quantised() {
								a = float64(x.D[(i*n+j)/actBlock]) * float64(x.Q[i*n+j])
							}
							want += a * float64(w[o*n+j])
							size += math.Abs(a * float64(w[o*n+j]))
						}
						// As in quantisedBound, plus two roundings of weights with a minimum in plain Go.
						bound := 3 * size * float64(n/8+12) / (1 << 24)
						require.InDelta(t, want, dst[i*rows+o], bound, "%v, %d columns, token %d, %d", typ, n, i, o)
					}
				}
			}
		}
	})
}

// TestMatMulIsTheSameHoweverCut checks the promise of the package: batch, ranges and kind of call do not change a bit.
func TestMatMulIsTheSameHoweverCut(t *testing.T) {
	racing.Spare(t)
	batches := []int{1, 2, 3, 4, 5, 6, 8, 9, 14, 23}
	if testing.Short() { // as on an emulated CPU
		batches = []int{3, 8, 23}
	}
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, typ := range types {
			in := newInputs(t, 3, 0)
			cols := columns(typ)
			n := cols[len(cols)-1]
			const rows = 37
			m := in.matrix(typ, rows, n)
			for _, batch := range batches {
				x := in.input(batch, n)
				whole := make([]float32, batch*rows)
				var sc Scratch
				k.matMul(whole, rows, m, 0, rows, x, false, &sc)

				alone := make([]float32, batch*rows)
				for i := range batch {
					one := in.actsOf(x.F[i*n:][:n], n)
					for lo := 0; lo < rows; {
						hi := min(rows, lo+1+in.IntN(20))
						k.matMul(alone[i*rows:], rows, m, lo, hi, one, false, &sc)
						lo = hi
					}
				}
				require.Equal(t, alone, whole, "%v, %d rows", typ, batch)

				sum := make([]float32, batch*rows)
				for i := range sum {
					sum[i] = 1
				}
				k.matMul(sum, rows, m, 5, 21, x, true, &sc)
				for i := range sum {
					want := float32(1)
					if o := i % rows; o >= 5 && o < 21 {
						want += whole[i]
					}
					require.Equal(t, want, sum[i], "%v: adding", typ)
				}
			}
		}
	})
}

// TestPart: a part of a matrix has its rows.
func TestPart(t *testing.T) {
	in := newInputs(t, 3, 0)
	for _, typ := range types {
		n := columns(typ)[2]
		m := in.matrix(typ, 11, n)
		p := m.Part(3, 8)
		assert.Equal(t, Matrix{Type: typ, Rows: 5, Cols: n, Data: p.Data}, p)
		assert.Equal(t, m.rowData(3, 8), p.rowData(0, 5))
	}
}

// TestFloats: a matrix of numbers in memory, row by row.
func TestFloats(t *testing.T) {
	m, dst := Floats([]float32{1, 2, 3, 4, 5, 6, 7}, 2, 3), make([]float32, 2)
	var x Acts
	x.Resize(1, 3)
	x.Set(0, []float32{100, 10, 1})
	MatMul(dst, 2, m, 0, 2, &x, false, &Scratch{})
	require.Equal(t, []float32{123, 456}, dst)
	require.Len(t, m.Data, 24)
}

// TestMatMulBySegments checks the same promise if a panel is processed in segments, and for more tokens than a tile
// takes.
func TestMatMulBySegments(t *testing.T) {
	const rows, n = 37, 2*segment + 256
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			in := newInputs(t, 3, 0)
			m := in.matrix(f.blockType(), rows, n)
			for _, batch := range []int{2, 3, tileTokens + 1} {
				x := in.input(batch, n)
				dst, want := make([]float32, batch*rows), make([]float32, rows)
				k.matMul(dst, rows, m, 0, rows, x, false, &Scratch{})
				for i := range batch {
					callGEMV(k.gemv[f], want, m.Data, x.roundedTokens(i, 1, 0))
					require.Equal(t, want, dst[i*rows:][:rows], "%v, token %d of %d", f.blockType(), i, batch)
				}
			}
		}
	})
}

// TestMatMulAmidSignals: a microkernel that is interrupted by a signal, as Go uses to preempt goroutines, continues
// with its registers.
func TestMatMulAmidSignals(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, typ := range []block.Type{block.Q8_0, block.Q4_K, block.Q6_K, block.F16} {
			in := newInputs(t, 3, 0)
			const rows, batch = 40, 19
			m, x := in.matrix(typ, rows, 512), in.input(batch, 512)
			want := make([]float32, batch*rows)
			k.matMul(want, rows, m, 0, rows, x, false, &Scratch{})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 10 {
						got := make([]float32, len(want)) // with some garbage each time, to trigger collections
						k.matMul(got, rows, m, 0, rows, x, false, &Scratch{})
						assert.Equal(t, want, got, "%v", typ)
					}
				})
			}
			wg.Wait()
		}
	})
}

func TestMatMulExact(t *testing.T) {
	for _, typ := range types {
		in := newInputs(t, 3, 0)
		cols := columns(typ)
		n := cols[len(cols)-1]
		m := in.matrix(typ, 4, n)
		x := in.input(2, n)
		w := make([]float32, 4*n)
		typ.Dequantize(w, m.Data)
		for base, add := range map[float64]bool{0: false, 1: true} {
			dst := []float32{1, 1, 1, 1, 1, 1, 1, 1}
			MatMulExact(dst, 4, m, 1, 4, x, add, &Scratch{})
			for i := range 2 {
				require.Equal(t, float32(1), dst[4*i])
				for o := 1; o < 4; o++ {
					want := base
					for j := range n {
						want += float64(w[o*n+j]) * float64(x.F[i*n+j])
					}
					require.InDelta(t, want, dst[4*i+o], 1e-6*max(1, math.Abs(want)), "%v", typ)
				}
			}
		}
	}
}

// TestMatMulOfNaN: a NaN or an infinity in the activations reaches the result, and only that of its token.
func TestMatMulOfNaN(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for _, typ := range types {
				in := newInputs(t, 3, 0)
				m := in.matrix(typ, 2, 256)
				x := in.input(4, 256)
				x.F[256+77] = bad
				callRound(k.round, x.Q, x.D, x.S, x.H, x.F)
				dst := make([]float32, 8)
				k.matMul(dst, 2, m, 0, 2, x, false, &Scratch{})
				for i, v := range dst {
					finite := v-v == 0
					require.Equal(t, i/2 != 1, finite, "%v: %v", typ, dst)
				}
			}
		}
	})
}

// TestMatMulOfNothing: sums of no products are zero, and no outputs and no tokens change nothing.
func TestMatMulOfNothing(t *testing.T) {
	in := newInputs(t, 3, 0)
	x, none := &Acts{}, &Acts{}
	x.Resize(2, 0)
	none.Resize(0, 64)
	empty, some := Matrix{Type: block.F32, Rows: 3}, in.matrix(block.Q8_0, 3, 64)
	for name, c := range map[string]struct {
		m      Matrix
		lo, hi int
		x      *Acts
		add    bool
		want   []float32
	}{
		"sums of no products":   {empty, 1, 3, x, false, []float32{1, 0, 0, 1, 0, 0}},
		"addition of such sums": {empty, 1, 3, x, true, []float32{1, 1, 1, 1, 1, 1}},
		"no outputs of no sums": {empty, 2, 2, x, false, []float32{1, 1, 1, 1, 1, 1}},
		"no outputs":            {some, 2, 2, in.input(2, 64), false, []float32{1, 1, 1, 1, 1, 1}},
		"no tokens":             {some, 0, 3, none, false, []float32{1, 1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dst := []float32{1, 1, 1, 1, 1, 1}
			MatMul(dst, 3, c.m, c.lo, c.hi, c.x, c.add, &Scratch{})
			assert.Equal(t, c.want, dst)
			dst = []float32{1, 1, 1, 1, 1, 1}
			MatMulExact(dst, 3, c.m, c.lo, c.hi, c.x, c.add, &Scratch{})
			assert.Equal(t, c.want, dst, "exact")
		})
	}
}

func TestMatMulRefusesShapesThatDiffer(t *testing.T) {
	in := newInputs(t, 3, 0)
	m := in.matrix(block.Q8_0, 2, 64)
	require.Panics(t, func() { MatMul(make([]float32, 2), 2, m, 0, 2, in.input(1, 96), false, &Scratch{}) })
	require.Panics(t, func() { MatMulExact(make([]float32, 2), 2, m, 0, 2, in.input(1, 96), false, &Scratch{}) })
	require.Panics(t, func() { in.input(1, 33).Round(0) })
	require.Panics(t, func() { in.input(1, 64).RoundPart(0, 16, 32) })
	require.Panics(t, func() { in.input(1, 64).RoundPart(0, 0, 16) })
}

func TestMatMulDoesNotAllocate(t *testing.T) {
	in := newInputs(t, 3, 0)
	for _, typ := range []block.Type{block.Q8_0, block.Q4_K, block.F16, block.Q4_1} {
		m := in.matrix(typ, 40, 256)
		for _, batch := range []int{1, 5} {
			x := in.input(batch, 256)
			dst := make([]float32, 40*batch)
			var sc Scratch
			allocs := testing.AllocsPerRun(10, func() { MatMul(dst, 40, m, 0, 40, x, true, &sc) })
			require.Zero(t, allocs, "%v, %d tokens", typ, batch)
		}
	}
}
