package cpu

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
)

// checkFloat compares the microkernels for float weights with plain Go, for rows of n elements, pad elements apart.
func checkFloat(t *testing.T, k *kernels, in *inputs, rows, n, pad int) {
	twin := generic()
	x := in.Floats(n)
	for _, c := range []struct {
		typ        block.Type
		gemv, twin floatGEMM
	}{
		{block.F32, k.gemvF32, twin.gemvF32},
		{block.F16, k.gemvF16, twin.gemvF16},
		{block.BF16, k.gemvBF16, twin.gemvBF16},
	} {
		_, size := c.typ.Block()
		stride := (n + pad) * size
		w := in.matrix(c.typ, 1, (rows-1)*(n+pad)+n).Data

		values := make([]float32, (rows-1)*(n+pad)+n)
		c.typ.Dequantize(values, w)

		dst, intact := kerneltest.Guarded[float32](t, rows, in.Off&^3)
		want := make([]float32, rows)
		callFloat(c.gemv, dst, w, stride, x, n)
		callFloat(c.twin, want, w, stride, x, n)
		intact()
		for r := range rows {
			row := values[r*(n+pad):][:n]
			exact, size := 0.0, 0.0
			for i := range x {
				exact += float64(row[i]) * float64(x[i])
				size += math.Abs(float64(row[i]) * float64(x[i]))
			}
			// The error of a term: its own rounding, n/8 additions and those of the horizontal sum.
			bound := size * float64(n/8+12) / (1 << 24)
			require.InDelta(t, exact, dst[r], bound, "%v of %d, row %d", c.typ, n, r)
			require.InDelta(t, exact, want[r], bound, "%v of %d, row %d of plain Go", c.typ, n, r)
		}
	}

	four := in.Floats(8 * n)
	if n%16 == 0 {
		checkFloatGEMM(t, k, in, block.F32, n, four)
		checkFloatGEMM(t, k, in, block.F16, n, four)
		checkFloatGEMM(t, k, in, block.BF16, n, four)
	}
}

// checkFloatGEMM compares products of four and eight outputs and as many tokens of x with products of one and one.
func checkFloatGEMM(t *testing.T, k *kernels, in *inputs, typ block.Type, n int, x []float32) {
	four, eight := k.gemmOf(typ)
	m := in.matrix(typ, 8, n)
	one := make([]float32, 64) // [8 tokens, 8 outputs]
	for t := range 8 {
		callFloat(k.gemvOf(typ), one[8*t:][:8], m.Data, m.RowBytes(), x[t*n:], n)
	}
	if four != nil {
		got, intact := kerneltest.Guarded[[16]float32](t, 1, in.Off&^3)
		callFloatGEMM(four, got[0][:], 4, m.Data[:4*m.RowBytes()], 4, x, n, false)
		intact()
		for i := range 4 {
			require.Equal(t, one[8*i:][:4], got[0][4*i:][:4], "one token and a GEMM of %d give different bits", n)
		}
	}
	if eight != nil {
		const stride = 11
		got, intact := kerneltest.Guarded[float32](t, (k.gemm8Tokens-1)*stride+8, in.Off&^3)
		before := in.Floats(len(got))
		for _, add := range []bool{false, true} {
			copy(got, before)
			callFloatGEMM(eight, got, stride, m.Data, 8, x, n, add)
			intact()
			for i, v := range got {
				want := before[i]
				if row, r := i/stride, i%stride; r < 8 {
					want = one[8*row+r]
					if add {
						want += before[i]
					}
				}
				require.Equal(t, want, v, "one token and a GEMM of %d by eight give different bits", n)
			}
		}
	}
}

func TestFloat(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for n := 1; n < 100; n++ {
			checkFloat(t, k, newInputs(t, uint64(n), 4*(n%5)), 1+n%4, n, n%3)
		}
		checkFloat(t, k, newInputs(t, 1, 0), 2, 4864, 0)
	})
}

// FuzzFloat compares every variant with plain Go at any length and alignment.
func FuzzFloat(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint16(64), uint8(5), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, rows uint8, n uint16, pad, off uint8) {
		for _, k := range offeredKernels()[1:] {
			checkFloat(t, k, newInputs(t, seed, int(off%64)), 1+int(rows%6), 1+int(n%300), int(pad%40))
		}
	})
}

// TestEveryF16 multiplies every half-precision number by 1, at each place of a row that a microkernel loads in a
// different way.
func TestEveryF16(t *testing.T) {
	racing.Spare(t)
	eachVariant(t, func(t *testing.T, k *kernels) {
		const n = 57 // 32 columns, 16, 8 and one
		places := []int{0, 13, 31, 40, 50, 56}
		if testing.Short() { // as on an emulated CPU
			places = []int{13, 56}
		}
		for _, at := range places {
			x, w := make([]float32, n), make([]byte, 2*n<<16)
			x[at] = 1
			for h := range 1 << 16 {
				binary.LittleEndian.PutUint16(w[2*(h*n+at):], uint16(h))
			}
			got := make([]float32, 1<<16)
			callFloat(k.gemvF16, got, w, 2*n, x, n)
			for h, v := range got {
				want := block.F16ToF32(uint16(h))
				require.True(t, want == v || want != want && v != v, "%04x at %d: %v", h, at, v)
			}
		}
	})
}
