package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
)

// inputs makes the arguments of microkernels.
type inputs struct{ *kerneltest.Inputs }

func newInputs(t testing.TB, seed uint64, off int) *inputs {
	return &inputs{kerneltest.NewInputs(t, seed, off)}
}

// eachVariant runs f on every variant that this CPU offers.
func eachVariant(t *testing.T, f func(t *testing.T, k *kernels)) {
	for _, k := range variants() {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

// The places of half-precision numbers in a block of each format.
var halves = [formats][]int{q8_0: {0}, q4_0: {0}, q5_0: {0}, q4_K: {0, 2}, q5_K: {0, 2}, q6_K: {208}}

// weights returns rows of n random weights in format f, with half-precision scales from scale.
func (in *inputs) weights(f format, rows, n int, scale func() float32) []byte {
	elems, size := f.typeOf().Block()
	w := in.Bytes(rows * n / elems * size)
	for b := 0; b < len(w); b += size {
		for _, at := range halves[f] {
			binary.LittleEndian.PutUint16(w[b+at:], block.F32ToF16(scale()))
		}
	}
	return w
}

// tame makes the integer scales within the blocks of w so small that sums of up to 2048 products are exact in float32.
func tame(f format, w []byte) {
	_, size := f.typeOf().Block()
	for ; len(w) > 0; w = w[size:] {
		switch f {
		case q4_K, q5_K:
			for i := range 8 {
				w[4+i] &= 0x01
			}
			for i := range 4 {
				w[12+i] &= 0x11
			}
		case q6_K:
			for i := range 16 {
				w[192+i] = byte(int8(w[192+i]) % 2)
			}
		}
	}
}

// acts returns t rows of n rounded activations, each value in -127..127, with scales from scale.
func (in *inputs) acts(t, n int, scale func() float32) (q []int8, d, s []float32, h []int16) {
	q, _ = kerneltest.Guarded[int8](in.T, t*n, in.Off)
	d, _ = kerneltest.Guarded[float32](in.T, t*n/actBlock, in.Off&^3)
	s, _ = kerneltest.Guarded[float32](in.T, t*n/actBlock, in.Off&^3)
	h, _ = kerneltest.Guarded[int16](in.T, t*n/16, in.Off&^1)
	for b := range d {
		d[b] = scale()
		for i := range actBlock {
			q[b*actBlock+i] = int8(in.IntN(255) - 127)
		}
	}
	total(q, d, s, h)
	return q, d, s, h
}

// total sets s and h to what belongs to q and d.
func total(q []int8, d, s []float32, h []int16) {
	clear(h)
	for i, v := range q {
		h[i/16] += int16(v)
	}
	for b := range d {
		s[b] = d[b] * float32(h[2*b]+h[2*b+1])
	}
}

func one() float32                { return 1 }
func (in *inputs) small() float32 { return float32(in.NormFloat64()) / 64 }

// checkQuantised holds k's leaves for format f against the plain Go ones: rows of n weights and four rows of activations.
func checkQuantised(t *testing.T, k *kernels, f format, in *inputs, rows, n int) {
	twin := generic()
	_, size := f.typeOf().Block()
	elems, _ := f.typeOf().Block()
	rowBytes := n / elems * size

	for _, exact := range []bool{true, false} {
		scale := in.small
		if exact {
			scale = one
		}
		w := in.weights(f, rows, n, scale)
		if exact {
			tame(f, w)
		}
		q, d, s, h := in.acts(4, n, scale)

		for row := range 4 {
			q, d, s, h := q[row*n:][:n], d[row*n/actBlock:][:n/actBlock], s[row*n/actBlock:][:n/actBlock], h[row*n/16:][:n/16]
			dst, intact := kerneltest.Guarded[float32](t, rows, in.Off&^3)
			want := make([]float32, rows)
			k.rows[f](dst, w, q, d, s, h)
			twin.rows[f](want, w, q, d, s, h)
			intact()
			if exact {
				require.Equal(t, want, dst, "activations %d", row)
				continue
			}
			for r := range rows {
				value, bound := quantisedBound(f, w[r*rowBytes:][:rowBytes], q, d, s)
				require.InDelta(t, value, dst[r], bound, "row %d of %s", r, k.name)
				require.InDelta(t, value, want[r], bound, "row %d of the twin", r)
			}
		}
	}
}

// quantisedBound returns the exact dot product and how far a float32 sum of it may be: with N roundings on the way of a term
// to the result each term is off by at most N·2⁻²⁴ of itself. A term passes at most one rounding of its scale, one of its product,
// one addition for each 16 weights, and four more at the end.
func quantisedBound(f format, w []byte, q []int8, d, s []float32) (value, bound float64) {
	n := len(q)
	u, ds, mins := make([]int8, n), make([]float32, n/16), make([]float32, n/32)
	unpackGeneric(f, u, ds, mins, w)
	size := 0.0
	for i := range u {
		v := float64(ds[i/16]) * float64(u[i]) * float64(q[i]) * float64(d[i/32])
		value += v
		size += math.Abs(v)
	}
	for i, m := range mins {
		v := float64(m) * float64(s[i])
		value -= v
		size += math.Abs(v)
	}
	return value, size * float64(n/16+8) / (1 << 24)
}

// multiple rounds n up to a whole number of f's blocks, at least one.
func multiple(f format, n int) int {
	elems, _ := f.typeOf().Block()
	return max(1, (n+elems-1)/elems) * elems
}

// checkGroups holds k's leaves for some rows of weights at a time, if it has any, against that for one row.
func checkGroups(t *testing.T, k *kernels, f format, in *inputs, groups, n int) {
	for acts := 1; acts <= together; acts++ {
		g := k.groupOf(f, acts, n)
		if g == nil {
			continue
		}
		rows := groups * g.rows
		w := in.weights(f, rows, n, in.small)
		q, d, s, h := in.acts(acts, n, in.small)
		stride := rows + 3
		dst, intact := kerneltest.Guarded[float32](t, (acts-1)*stride+rows, in.Off&^3)
		g.leaf(dst, stride, w, in.form(k, q, d, s, h), acts, n)
		intact()
		want := make([]float32, rows)
		for i := range acts {
			k.rows[f](want, w, q[i*n:][:n], d[i*n/actBlock:][:n/actBlock], s[i*n/actBlock:][:n/actBlock], h[i*n/16:][:n/16])
			require.Equal(t, want, dst[i*stride:][:rows], "%v, activations %d of %d", f.typeOf(), i, acts)
			for _, b := range bytesOf(dst[i*stride+rows : min((i+1)*stride, len(dst))]) {
				require.EqualValues(t, kerneltest.Canary, b, "%v, between rows %d and %d", f.typeOf(), i, i+1)
			}
		}
	}
}

// form returns activations as groups of k take them.
func (in *inputs) form(k *kernels, q []int8, d, s []float32, h []int16) form {
	if k.spread != nil {
		p, _ := kerneltest.Guarded[int8](in.T, len(q), in.Off)
		spread(p, q, 0)
		q = p
	}
	return form{q, d, s, h}
}

// spread sets p to what [Acts] says of P, for the blocks of q, which are those from the from-th on.
func spread(p, q []int8, from int) {
	for i, v := range q {
		b, j := from+i/actBlock, i%actBlock
		p[b/4*4*actBlock+j/16*64+b%4*16+j%16] = v
	}
}

// TestSpread: any part of a row, and nothing written beside it.
func TestSpread(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		if k.spread == nil {
			return
		}
		const blocks = 12
		in := newInputs(t, 1, 4)
		q, _, _, _ := in.acts(1, blocks*actBlock, in.small)
		for from := range blocks {
			for to := from + 1; to <= blocks; to++ {
				got, intact := kerneltest.Guarded[int8](t, len(q), in.Off)
				want, _ := kerneltest.Guarded[int8](t, len(q), in.Off)
				k.spread(got, q[from*actBlock:to*actBlock], from)
				intact()
				spread(want, q[from*actBlock:to*actBlock], from)
				require.Equal(t, want, got, "blocks %d to %d", from, to)
			}
		}
	})
}

func TestGroups(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, g := range k.groups[f] {
				if k.spread != nil {
					require.LessOrEqual(t, g.most, spreadMost, "activations are spread up to there")
				}
				require.LessOrEqual(t, g.most, together, "checked up to there")
			}
			for i, n := range []int{128, 256, 896, 2432} {
				checkGroups(t, k, f, newInputs(t, uint64(n), n%7), 1+i, multiple(f, n))
			}
		}
	})
}

func TestQuantised(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, n := range []int{1, 64, 96, 256, 512, 896, 1024, 2048} {
				in := newInputs(t, uint64(n), n%7)
				checkQuantised(t, k, f, in, 9, multiple(f, n))
			}
		}
	})
}

// FuzzQuantised holds every variant against plain Go at any shape and alignment.
func FuzzQuantised(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(3), uint8(28), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, form, rows, blocks, off uint8) {
		ff := format(form) % formats
		for _, k := range variants()[1:] {
			checkQuantised(t, k, ff, newInputs(t, seed, int(off%64)), 1+int(rows%10), multiple(ff, int(blocks%64)*32))
			checkGroups(t, k, ff, newInputs(t, seed, int(off%64)), 1+int(rows%4), multiple(ff, int(blocks%64)*32))
		}
	})
}

// The largest products there can be: VPMADDUBSW adds two of them in 16 bits, where 2·128·127 = 32512 still fits.
func TestExtremes(t *testing.T) {
	const n = 512
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, c := range []struct {
			w byte // of all weight bytes
			q int8
		}{{0x80, 127}, {0x80, -127}, {0x7f, 127}, {0x7f, -127}, {0xff, -127}, {0xff, 127}, {0, 127}, {0x81, -127}} {
			for f := range formats {
				in := newInputs(t, 1, 0)
				w := in.weights(f, 8, n, one)
				for i := range w {
					w[i] = c.w
				}
				_, size := f.typeOf().Block()
				for b := 0; b < len(w); b += size {
					for _, at := range halves[f] {
						binary.LittleEndian.PutUint16(w[b+at:], block.F32ToF16(1))
					}
				}
				tame(f, w)
				q, d, s, h := in.acts(1, n, one)
				for i := range q {
					q[i] = c.q
				}
				total(q, d, s, h)
				var got, want [8]float32
				k.rows[f](got[:], w, q, d, s, h)
				generic().rows[f](want[:], w, q, d, s, h)
				require.Equal(t, want, got, "%v, weights %#x, activations %d", f.typeOf(), c.w, c.q)
				const acts = 3 // leaves may take two at a time
				q, d, s, h = slices.Repeat(q, acts), slices.Repeat(d, acts), slices.Repeat(s, acts), slices.Repeat(h, acts)
				for _, g := range k.groups[f] {
					rows := min(acts, g.most)
					results := make([]float32, rows*len(want))
					g.leaf(results, len(want), w, in.form(k, q[:rows*n], d, s, h), rows, n)
					require.Equal(t, slices.Repeat(want[:], rows), results, "%v, weights %#x, activations %d", f.typeOf(), c.w, c.q)
				}
			}
		}
	})
}

// Scales in a file may be anything: what is not finite shows in the result, subnormal numbers count.
func TestOddScales(t *testing.T) {
	const n = 256
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, h := range []uint16{0, 0x8000, 1, 0x03ff, 0x8001, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00} {
				t.Run(fmt.Sprintf("%v/%04x", f.typeOf(), h), func(t *testing.T) {
					in := newInputs(t, 7, 0)
					w := in.weights(f, 1, n, func() float32 { return block.F16ToF32(h) })
					tame(f, w)
					q, d, s, h := in.acts(1, n, one)
					var got, want [1]float32
					k.rows[f](got[:], w, q, d, s, h)
					generic().rows[f](want[:], w, q, d, s, h)
					if v := float64(want[0]); math.IsNaN(v) || math.IsInf(v, 0) {
						require.True(t, math.IsNaN(float64(got[0])) || math.IsInf(float64(got[0]), 0), "got %v", got[0])
					} else {
						value, bound := quantisedBound(f, w, q, d, s)
						require.InDelta(t, value, got[0], bound+1e-44)
					}
				})
			}
		}
	})
}
