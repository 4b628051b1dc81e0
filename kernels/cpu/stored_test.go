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
	for _, k := range offeredKernels() {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

// The places of half-precision numbers in a block of each format.
var halves = [formats][]int{q8_0: {0}, q4_0: {0}, q5_0: {0}, q4_K: {0, 2}, q5_K: {0, 2}, q6_K: {208}}

// weights returns rows of n random weights in format f, with half-precision scales from scale.
func (in *inputs) weights(f format, rows, n int, scale func() float32) []byte {
	elems, size := f.blockType().Block()
	w := in.Bytes(rows * n / elems * size)
	for b := 0; b < len(w); b += size {
		for _, at := range halves[f] {
			binary.LittleEndian.PutUint16(w[b+at:], block.F32ToF16(scale()))
		}
	}
	return w
}

// tame makes the integer scales in the blocks of w small enough that sums of up to 2048 products are exact in float32.
func tame(f format, w []byte) {
	_, size := f.blockType().Block()
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

// acts returns t tokens of n rounded activations, each value in -127..127, with scales from scale.
func (in *inputs) acts(t, n int, scale func() float32) (x activations) {
	x.q, _ = kerneltest.Guarded[int8](in.T, t*n, in.Off)
	x.d, _ = kerneltest.Guarded[float32](in.T, t*n/actBlock, in.Off&^3)
	x.s, _ = kerneltest.Guarded[float32](in.T, t*n/actBlock, in.Off&^3)
	x.h, _ = kerneltest.Guarded[int16](in.T, t*n/16, in.Off&^1)
	for b := range x.d {
		x.d[b] = scale()
		for i := range actBlock {
			x.q[b*actBlock+i] = int8(in.IntN(255) - 127)
		}
	}
	x.total()
	return x
}

// total sets s and h from q and d.
func (x activations) total() {
	clear(x.h)
	for i, v := range x.q {
		x.h[i/16] += int16(v)
	}
	for b := range x.d {
		x.s[b] = x.d[b] * float32(x.h[2*b]+x.h[2*b+1])
	}
}

// token returns the t-th of several tokens of n activations each.
func (x activations) token(t, n int) activations {
	b := n / actBlock
	return activations{q: x.q[t*n:][:n], d: x.d[t*b:][:b], s: x.s[t*b:][:b], h: x.h[2*t*b:][:2*b]}
}

func one() float32                { return 1 }
func (in *inputs) small() float32 { return float32(in.NormFloat64()) / 64 }

// checkQuantised compares k's GEMV for format f with plain Go: rows of n weights and four tokens.
func checkQuantised(t *testing.T, k *kernels, f format, in *inputs, rows, n int) {
	twin := generic()
	_, size := f.blockType().Block()
	elems, _ := f.blockType().Block()
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
		all := in.acts(4, n, scale)

		for token := range 4 {
			x := all.token(token, n)
			dst, intact := kerneltest.Guarded[float32](t, rows, in.Off&^3)
			want := make([]float32, rows)
			callGEMV(k.gemv[f], dst, w, x)
			callGEMV(twin.gemv[f], want, w, x)
			intact()
			if exact {
				require.Equal(t, want, dst, "token %d", token)
				continue
			}
			for r := range rows {
				value, bound := quantisedBound(f, w[r*rowBytes:][:rowBytes], x)
				require.InDelta(t, value, dst[r], bound, "row %d of %s", r, k.name)
				require.InDelta(t, value, want[r], bound, "row %d of plain Go", r)
			}
		}
	}
}

// quantisedBound returns the exact dot product and the max error of its float32 sum: with N roundings of a term on its
// way to the result, its error is at most N·2⁻²⁴ of itself. A term has at most one rounding of its scale, one of its
// product, one addition for each 16 weights, and four more at the end.
func quantisedBound(f format, w []byte, x activations) (value, bound float64) {
	n := len(x.q)
	u, ds, mins := make([]int8, n), make([]float32, n/16), make([]float32, n/32)
	unpackGeneric(f, u, ds, mins, w)
	size := 0.0
	for i := range u {
		v := float64(ds[i/16]) * float64(u[i]) * float64(x.q[i]) * float64(x.d[i/32])
		value += v
		size += math.Abs(v)
	}
	for i, m := range mins {
		v := float64(m) * float64(x.s[i])
		value -= v
		size += math.Abs(v)
	}
	return value, size * float64(n/16+8) / (1 << 24)
}

// multiple rounds n up to a multiple of f's block size, min one block.
func multiple(f format, n int) int {
	elems, _ := f.blockType().Block()
	return max(1, (n+elems-1)/elems) * elems
}

// checkSmallGEMM compares k's microkernels for several outputs, if there are any, with gemv.
func checkSmallGEMM(t *testing.T, k *kernels, f format, in *inputs, times, n int) {
	for tokens := 1; tokens <= tileTokens; tokens++ {
		g := k.smallGEMMOf(f, tokens, n)
		if g == nil {
			continue
		}
		rows := times * g.outputs
		w := in.weights(f, rows, n, in.small)
		x := in.acts(tokens, n, in.small)
		stride := rows + 3
		dst, intact := kerneltest.Guarded[float32](t, (tokens-1)*stride+rows, in.Off&^3)
		callGEMM(g.multiply, dst, stride, w, in.taken(k, x), tokens, n)
		intact()
		want := make([]float32, rows)
		for i := range tokens {
			callGEMV(k.gemv[f], want, w, x.token(i, n))
			require.Equal(t, want, dst[i*stride:][:rows], "%v, token %d of %d", f.blockType(), i, tokens)
			for _, b := range bytesOf(dst[i*stride+rows : min((i+1)*stride, len(dst))]) {
				require.EqualValues(t, kerneltest.Canary, b, "%v, between tokens %d and %d", f.blockType(), i, i+1)
			}
		}
	}
}

// taken returns activations in the form that the small GEMMs of k take.
func (in *inputs) taken(k *kernels, x activations) activations {
	if k.interleaved {
		p, _ := kerneltest.Guarded[int8](in.T, len(x.q), in.Off)
		interleave(p, x.q, 0)
		x.q = p
	}
	return x
}

// interleave sets p to P of [Acts], for the blocks in q, which start at block from.
func interleave(p, q []int8, from int) {
	for i, v := range q {
		b, j := from+i/actBlock, i%actBlock
		p[b/4*4*actBlock+j/16*64+b%4*16+j%16] = v
	}
}

// TestInterleave: round interleaves any part of a token, and writes nothing else.
func TestInterleave(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		if !k.interleaved {
			return
		}
		const blocks = 12
		in := newInputs(t, 1, 4)
		x := in.Floats(blocks * actBlock)
		clear(x[2*actBlock:][:actBlock])
		x[5*actBlock] = float32(math.Inf(1))
		for from := range blocks {
			for to := from + 1; to <= blocks; to++ {
				n := (to - from) * actBlock
				q, ds, h := make([]int8, n), make([]float32, 2*n/actBlock), make([]int16, n/16)
				got, intact := kerneltest.Guarded[int8](t, len(x), in.Off)
				want, _ := kerneltest.Guarded[int8](t, len(x), in.Off)
				called(k.round, actsArgs{
					x: &x[from*actBlock], q: &q[0], d: &ds[0], s: &ds[to-from], h: &h[0], n: n, p: &got[0], from: from,
				})
				intact()
				interleave(want, q, from)
				require.Equal(t, want, got, "blocks %d to %d", from, to)
			}
		}
	})
}

func TestSmallGEMM(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, g := range k.smallGEMMs[f] {
				if k.interleaved {
					require.LessOrEqual(t, g.most, interleavedTokens, "activations are interleaved up to this number")
				}
				require.LessOrEqual(t, g.most, tileTokens, "checked up to this number")
			}
			for i, n := range []int{128, 256, 896, 2432} {
				checkSmallGEMM(t, k, f, newInputs(t, uint64(n), n%7), 1+i, multiple(f, n))
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

// FuzzQuantised compares every variant with plain Go at any shape and alignment.
func FuzzQuantised(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(3), uint8(28), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, form, rows, blocks, off uint8) {
		ff := format(form) % formats
		for _, k := range offeredKernels()[1:] {
			checkQuantised(t, k, ff, newInputs(t, seed, int(off%64)), 1+int(rows%10), multiple(ff, int(blocks%64)*32))
			checkSmallGEMM(t, k, ff, newInputs(t, seed, int(off%64)), 1+int(rows%4), multiple(ff, int(blocks%64)*32))
		}
	})
}

// TestExtremes: the largest possible products: VPMADDUBSW adds two of them in 16 bits, where 2·128·127 = 32512 still
// fits.
func TestExtremes(t *testing.T) {
	const n = 512
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, c := range []struct {
			w byte // value of all weight bytes
			q int8
		}{{0x80, 127}, {0x80, -127}, {0x7f, 127}, {0x7f, -127}, {0xff, -127}, {0xff, 127}, {0, 127}, {0x81, -127}} {
			for f := range formats {
				in := newInputs(t, 1, 0)
				w := in.weights(f, 8, n, one)
				for i := range w {
					w[i] = c.w
				}
				_, size := f.blockType().Block()
				for b := 0; b < len(w); b += size {
					for _, at := range halves[f] {
						binary.LittleEndian.PutUint16(w[b+at:], block.F32ToF16(1))
					}
				}
				tame(f, w)
				x := in.acts(1, n, one)
				for i := range x.q {
					x.q[i] = c.q
				}
				x.total()
				var got, want [8]float32
				callGEMV(k.gemv[f], got[:], w, x)
				callGEMV(generic().gemv[f], want[:], w, x)
				require.Equal(t, want, got, "%v, weights %#x, activations %d", f.blockType(), c.w, c.q)
				const most = 3 // microkernels may take two at a time
				x.q, x.d = slices.Repeat(x.q, most), slices.Repeat(x.d, most)
				x.s, x.h = slices.Repeat(x.s, most), slices.Repeat(x.h, most)
				for _, g := range k.smallGEMMs[f] {
					tokens, x := min(most, g.most), x
					x.q = x.q[:tokens*n]
					results := make([]float32, tokens*len(want))
					callGEMM(g.multiply, results, len(want), w, in.taken(k, x), tokens, n)
					all := slices.Repeat(want[:], tokens)
					require.Equal(t, all, results, "%v, weights %#x, activations %d", f.blockType(), c.w, c.q)
				}
			}
		}
	})
}

// TestOddScales: any scales in a file: values that are not finite reach the result, and subnormal numbers count.
func TestOddScales(t *testing.T) {
	const n = 256
	eachVariant(t, func(t *testing.T, k *kernels) {
		for f := range formats {
			for _, h := range []uint16{0, 0x8000, 1, 0x03ff, 0x8001, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00} {
				t.Run(fmt.Sprintf("%v/%04x", f.blockType(), h), func(t *testing.T) {
					in := newInputs(t, 7, 0)
					w := in.weights(f, 1, n, func() float32 { return block.F16ToF32(h) })
					tame(f, w)
					x := in.acts(1, n, one)
					var got, want [1]float32
					callGEMV(k.gemv[f], got[:], w, x)
					callGEMV(generic().gemv[f], want[:], w, x)
					if v := float64(want[0]); math.IsNaN(v) || math.IsInf(v, 0) {
						require.True(t, math.IsNaN(float64(got[0])) || math.IsInf(float64(got[0]), 0), "got %v", got[0])
					} else {
						value, bound := quantisedBound(f, w, x)
						require.InDelta(t, value, got[0], bound+1e-44)
					}
				})
			}
		}
	})
}
