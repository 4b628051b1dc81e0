package cpu

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/stretchr/testify/require"
)

// checkFloat holds the leaves on float weights and on vectors against their twins, for rows of n elements, pad elements apart.
func checkFloat(t *testing.T, k *kernels, in *inputs, rows, n, pad int) {
	twin := generic()
	x := in.floats(n)
	for _, c := range []struct {
		typ       gguf.Type
		rows      floatRows
		twin      floatRows
		axpy      func(acc, p []float32, v []byte, stride int)
		twinAxpy  func(acc, p []float32, v []byte, stride int)
		from      func(dst []float32, src []byte)
		fromExact func(dst []float32, src []byte)
	}{
		{gguf.F32, k.rowsF32, twin.rowsF32, k.axpyF32, twin.axpyF32, nil, fromF32Generic},
		{gguf.F16, k.rowsF16, twin.rowsF16, nil, nil, k.fromF16, fromF16Generic},
		{gguf.BF16, k.rowsBF16, twin.rowsBF16, nil, nil, k.fromBF16, fromBF16Generic},
	} {
		_, size := c.typ.Block()
		stride := (n + pad) * size
		w := in.matrix(c.typ, 1, (rows-1)*(n+pad)+n).Data

		values := make([]float32, (rows-1)*(n+pad)+n)
		c.fromExact(values, w)
		if c.from != nil {
			got, intact := guarded[float32](t, len(values), in.off&^3)
			c.from(got, w)
			intact()
			require.Equal(t, values, got)
		}

		dst, intact := guarded[float32](t, rows, in.off&^3)
		want := make([]float32, rows)
		c.rows(dst, w, stride, x)
		c.twin(want, w, stride, x)
		intact()
		for r := range rows {
			row := values[r*(n+pad):][:n]
			exact, size := 0.0, 0.0
			for i := range x {
				exact += float64(row[i]) * float64(x[i])
				size += math.Abs(float64(row[i]) * float64(x[i]))
			}
			// A term passes its own rounding, n/8 additions and those that join the lanes.
			bound := size * float64(n/8+12) / (1 << 24)
			require.InDelta(t, exact, dst[r], bound, "%v of %d, row %d", c.typ, n, r)
			require.InDelta(t, exact, want[r], bound, "%v of %d, row %d of the twin", c.typ, n, r)
		}

		if c.axpy == nil {
			continue
		}
		p := in.floats(rows)
		acc, intact := guarded[float32](t, n, in.off&^3)
		start := slices.Clone(in.floats(n))
		copy(acc, start)
		c.axpy(acc, p, w, stride)
		intact()
		sum := slices.Clone(start)
		c.twinAxpy(sum, p, w, stride)
		single := slices.Clone(start)
		for j := range p {
			c.axpy(single, p[j:j+1], w[j*stride:], stride)
		}
		require.Equal(t, single, slices.Clone(acc), "one row at a time")
		for i := range acc {
			size := math.Abs(float64(start[i]))
			for j := range p {
				size += math.Abs(float64(p[j]) * float64(values[j*(n+pad)+i]))
			}
			require.InDelta(t, sum[i], acc[i], size*float64(2*rows+2)/(1<<24))
		}
	}

	four := in.floats(8 * n)
	row := bytesOf(in.floats(n))
	var got [4]float32
	k.fourF32(&got, row, four[:4*n])
	for i := range got {
		var single [1]float32
		k.rowsF32(single[:], row, 0, four[i*n:][:n])
		require.Equal(t, single[0], got[i], "one row and four rows of %d give different bits", n)
	}

	if n%16 == 0 {
		checkGrid(t, k, in, gguf.F32, n, four)
		checkGrid(t, k, in, gguf.F16, n, four)
		checkGrid(t, k, in, gguf.BF16, n, four)
	}

	h, intact := guarded[uint16](t, n, in.off&^1)
	wantH := make([]uint16, n)
	k.toF16(h, x)
	twin.toF16(wantH, x)
	intact()
	require.Equal(t, wantH, h)
}

// checkGrid holds four and eight rows of weights of n elements that meet as many rows of x against one and one.
func checkGrid(t *testing.T, k *kernels, in *inputs, typ gguf.Type, n int, x []float32) {
	four, eight := k.gridLeaves(typ)
	m := in.matrix(typ, 8, n)
	one := make([]float32, 64) // [8 rows of x, 8 of weights]
	for t := range 8 {
		k.floatLeaf(typ)(one[8*t:][:8], m.Data, m.RowBytes(), x[t*n:][:n])
	}
	if four != nil {
		got, intact := guarded[[16]float32](t, 1, in.off&^3)
		four(&got[0], m.Data[:4*m.RowBytes()], x[:4*n])
		intact()
		for i := range 4 {
			require.Equal(t, one[8*i:][:4], got[0][4*i:][:4], "one row and a grid of %d give different bits", n)
		}
	}
	if eight != nil {
		const stride = 11
		got, intact := guarded[float32](t, (k.grid8Rows-1)*stride+8, in.off&^3)
		before := in.floats(len(got))
		for _, add := range []bool{false, true} {
			copy(got, before)
			eight(got, stride, m.Data, x[:k.grid8Rows*n], 0, add)
			intact()
			for i, v := range got {
				want := before[i]
				if row, r := i/stride, i%stride; r < 8 {
					want = one[8*row+r]
					if add {
						want += before[i]
					}
				}
				require.Equal(t, want, v, "one row and a grid of %d by eight give different bits", n)
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

// FuzzFloat holds every variant against plain Go at any length and alignment.
func FuzzFloat(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint16(64), uint8(5), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, rows uint8, n uint16, pad, off uint8) {
		for _, k := range variants()[1:] {
			checkFloat(t, k, newInputs(t, seed, int(off%64)), 1+int(rows%6), 1+int(n%300), int(pad%40))
			checkVector(t, k, newInputs(t, seed, int(off%64)), 1+int(n%300))
		}
	})
}

// Every half-precision number, and what lies around them.
func TestHalf(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		src := make([]byte, 2<<16)
		var wide []float32
		for h := range 1 << 16 {
			binary.LittleEndian.PutUint16(src[2*h:], uint16(h))
			f := gguf.F16ToF32(uint16(h))
			if f == f {
				for _, bits := range []uint32{0, 1, 0xffffffff, 0x1000, 0xfff, 0x1001, 0x2000} {
					wide = append(wide, math.Float32frombits(math.Float32bits(f)+bits))
				}
			}
		}
		got := make([]float32, 1<<16)
		k.fromF16(got, src)
		for h, v := range got {
			want := gguf.F16ToF32(uint16(h))
			require.True(t, want == v || want != want && v != v, "%04x: %v", h, v)
		}
		narrow := make([]uint16, len(wide))
		k.toF16(narrow, wide)
		for i, v := range wide {
			if v != v {
				require.True(t, narrow[i]&0x7c00 == 0x7c00 && narrow[i]&0x3ff != 0)
			} else if want := gguf.F32ToF16(v); want != narrow[i] {
				require.Equal(t, want, narrow[i], "%v", v)
			}
		}
	})
}
