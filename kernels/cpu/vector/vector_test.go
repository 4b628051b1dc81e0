package vector

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf/block"
	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/isa"
)

// expError is the relative error that exp.go states.
const expError = 2e-7

// checkVector compares the operations on vectors of n with float64.
func checkVector(t *testing.T, k *operations, in *kerneltest.Inputs, n int) {
	x, up := in.Floats(n), in.Floats(n)
	for i := range x {
		x[i] *= 10
	}
	top := Max(x)
	require.Equal(t, slices.Max(x), top)

	dst, intact := kerneltest.Guarded[float32](t, n, in.Off&^3)
	k.exp(dst, x, top)
	intact()
	sum, sumX := 0.0, 0.0
	size := 0.0
	for i, v := range x {
		want := math.Exp(float64(v - top))
		require.InEpsilon(t, want, dst[i], expError)
		sum += want
		sumX += want * float64(v)
		size += want * math.Abs(float64(v))
	}
	gotSum, gotSumX := k.sumExp(x, top)
	require.InEpsilon(t, sum, gotSum, expError)
	require.InDelta(t, sumX, gotSumX, size*expError)

	k.swiGLU(dst, x, up)
	intact()
	for i, g := range x {
		// In addition to the exponential: one rounding each of 1+e, the quotient and the product.
		want := float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i])
		require.InEpsilon(t, want, dst[i], expError+3.0/(1<<24))
	}
	checkElements(t, k, x, up, in.Off)
	copy(dst, x)
	k.exp(dst, dst, 0)
	again := make([]float32, n)
	for i := range x { // the result does not depend on position and neighbors
		k.exp(again[i:i+1], x[i:i+1], 0)
	}
	require.Equal(t, again, slices.Clone(dst))

	h, intactH := kerneltest.Guarded[uint16](t, n, in.Off&^1)
	wantH := make([]uint16, n)
	k.toF16(h, x)
	toF16Generic(wantH, x)
	intactH()
	require.Equal(t, wantH, h)
}

// checkElements compares k's products with gates and with a number with the formulas, and half precision with plain Go.
func checkElements(t *testing.T, k *operations, x, up []float32, off int) {
	n := len(x)
	dst, intact := kerneltest.Guarded[float32](t, n, off&^3)
	k.gate(dst, up, x)
	intact()
	for i, g := range x {
		// In addition to the exponential: one rounding each of 1+e and the quotient.
		require.InEpsilon(t, float64(up[i])/(1+math.Exp(-float64(g))), dst[i], expError+2.0/(1<<24))
	}
	k.scale(dst, x, 0.3)
	intact()
	for i, v := range x {
		require.Equal(t, v*0.3, dst[i])
	}
	narrow, wide := make([]uint16, n), make([]float32, n)
	toF16Generic(narrow, x)
	fromF16Generic(wide, narrow)
	k.fromF16(dst, narrow)
	intact()
	require.Equal(t, wide, slices.Clone(dst))
}

func TestVector(t *testing.T) {
	each(t, func(t *testing.T, k *operations) {
		for n := 1; n < 70; n++ {
			checkVector(t, k, kerneltest.NewInputs(t, uint64(n), 4*(n%5)), n)
		}
		checkVector(t, k, kerneltest.NewInputs(t, 1, 0), 4864)
		for n := 1; n < 100; n++ {
			checkWeighted(t, k, kerneltest.NewInputs(t, uint64(n), 4*(n%5)), 1+n%4, n, n%3)
			checkProducts(t, k, kerneltest.NewInputs(t, uint64(n), 4*(n%5)), 1+n%4, n, n%3)
		}
		checkWeighted(t, k, kerneltest.NewInputs(t, 1, 0), 2, 4864, 0)
	})
}

// TestExp: the error that exp.go states, over all float32 exponents and at the limits.
func TestExp(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	each(t, func(t *testing.T, k *operations) {
		var x []float32
		for v := -106.0; v < 90; v += 0.00037 {
			x = append(x, float32(v))
		}
		for e := -40; e < 127; e++ {
			x = append(x, float32(math.Ldexp(1.3, e)), float32(-math.Ldexp(1.3, e)))
		}
		x = append(x, 0, float32(inf), float32(-inf), float32(nan), math.MaxFloat32, -math.MaxFloat32)
		x = append(x, 88.72283, 88.72284, -87.33655, -103.9, -104)
		got := make([]float32, len(x))
		k.exp(got, x, 0)
		worst := 0.0
		for i, v := range x {
			want := math.Exp(float64(v))
			switch {
			case v != v:
				require.True(t, got[i] != got[i])
			case want > math.MaxFloat32:
				require.Equal(t, float32(inf), got[i], "exp(%v)", v)
			case want < 0x1p-126:
				require.InDelta(t, want, got[i], 1.5e-45, "exp(%v)", v)
			default:
				worst = max(worst, math.Abs(float64(got[i])-want)/want)
			}
		}
		require.Less(t, worst, expError)
	})
	x := []float32{1, -2, 3}
	Exp(x, x[:2])
	require.InEpsilonSlice(t, []float32{math.E, float32(math.Exp(-2)), 3}, x, expError)
}

func TestRMSNorm(t *testing.T) {
	const eps = 1e-6
	each(t, func(t *testing.T, k *operations) {
		for _, n := range []int{normPad, 3 * normPad, 896, 1536} {
			in := kerneltest.NewInputs(t, uint64(n), 4)
			x, g := in.Floats(n), in.Floats(n)
			sum := 0.0
			for _, v := range x {
				sum += float64(v) * float64(v)
			}
			dst, intact := kerneltest.Guarded[float32](t, n, in.Off)
			k.rmsNorm(dst, x, g, eps)
			intact()
			for i, v := range x {
				require.InEpsilon(t, float64(g[i])*float64(v)/math.Sqrt(sum/float64(n)+eps), dst[i], 3e-7)
			}
			k.rmsNorm(x, x, g, eps)
			require.Equal(t, slices.Clone(dst), slices.Clone(x), "in place")
		}
	})
	x, dst := []float32{3, 4, 0}, make([]float32, 3)
	RMSNorm(dst, x, []float32{1, 2, 3}, 0) // not a size for assembly
	require.InDeltaSlice(t, []float64{3 / math.Sqrt(25.0/3), 8 / math.Sqrt(25.0/3), 0}, dst, 1e-6)
	RMSNorm(nil, nil, nil, eps)
}

func TestRope(t *testing.T) {
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	sin, cos := math.Sincos(0.5)
	Rope(x, []float32{float32(cos), 1}, []float32{float32(sin), 0}) // two heads
	require.InDeltaSlice(t, []float64{cos - 3*sin, 2, 3*cos + sin, 4, 5*cos - 7*sin, 6, 7*cos + 5*sin, 8}, x, 1e-6)
	require.Panics(t, func() { Rope(x[:6], []float32{1, 1}, []float32{0, 0}) })
	each(t, func(t *testing.T, k *operations) {
		for _, c := range []struct{ heads, half int }{{1, ropePad}, {3, ropePad}, {14, 32}, {2, 64}} {
			in := kerneltest.NewInputs(t, uint64(c.half), 4)
			cos, sin := in.Floats(c.half), in.Floats(c.half)
			x, intact := kerneltest.Guarded[float32](t, c.heads*2*c.half, in.Off)
			copy(x, in.Floats(len(x)))
			want := slices.Clone(x)
			ropeGeneric(want, cos, sin)
			k.rope(x, cos, sin)
			intact()
			require.Equal(t, want, slices.Clone(x), "%d heads of %d", c.heads, 2*c.half)
		}
	})
}

// TestAbove: the first hit at every place of vectors of many lengths, and vectors without a hit.
func TestAbove(t *testing.T) {
	nan := float32(math.NaN())
	require.Zero(t, Above(nil, 0))
	each(t, func(t *testing.T, k *operations) {
		for n := 1; n < 110; n++ {
			x, intact := kerneltest.Guarded[float32](t, n, 4)
			for i := range x {
				x[i] = float32(-i % 3)
			}
			x[n/2] = nan
			require.Equal(t, n, k.above(x, 0))
			require.Equal(t, n, k.above(x, nan))
			for at := n - 1; at >= 0; at-- {
				x[at] = 1
				require.Equal(t, at, k.above(x, 0), "of %d", n)
			}
			intact()
		}
	})
}

func TestMax(t *testing.T) {
	require.Equal(t, float32(math.Inf(-1)), Max(nil))
	require.Equal(t, float32(3), Max([]float32{1, 3, 2}))
	require.True(t, math.IsNaN(float64(Max([]float32{1, float32(math.NaN()), 2, 5}))))
}

// FuzzVector compares every instruction set with float64 and plain Go at any length and alignment.
func FuzzVector(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint16(64), uint8(5), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, rows uint8, n uint16, pad, off uint8) {
		for _, k := range all() {
			in := kerneltest.NewInputs(t, seed, int(off%64))
			checkVector(t, k, in, 1+int(n%300))
			checkWeighted(t, k, in, 1+int(rows%6), 1+int(n%300), int(pad%40))
			checkProducts(t, k, in, 1+int(rows%6), 1+int(n%300), int(pad%40))
		}
	})
}

// checkWeighted compares k's sum of rows of n elements, pad elements apart, each times a weight, with plain Go.
func checkWeighted(t *testing.T, k *operations, in *kerneltest.Inputs, rows, n, pad int) {
	v, stride := in.Floats((rows-1)*(n+pad)+n), 4*(n+pad)
	p := in.Floats(rows)
	acc, intact := kerneltest.Guarded[float32](t, n, in.Off&^3)
	start := slices.Clone(in.Floats(n))
	copy(acc, start)
	k.axpyF32(acc, p, bytesOf(v), stride)
	intact()
	sum := slices.Clone(start)
	axpyF32Generic(sum, p, bytesOf(v), stride)
	single := slices.Clone(start)
	for j := range p {
		k.axpyF32(single, p[j:j+1], bytesOf(v)[j*stride:], stride)
	}
	require.Equal(t, single, slices.Clone(acc), "one row at a time")
	for i := range acc {
		size := math.Abs(float64(start[i]))
		for j := range p {
			size += math.Abs(float64(p[j]) * float64(v[j*(n+pad)+i]))
		}
		require.InDelta(t, sum[i], acc[i], size*float64(2*rows+2)/(1<<24))
	}
}

// checkProducts compares k's sum of products of rows of n elements, which begin at different distances, with float64.
func checkProducts(t *testing.T, k *operations, in *kerneltest.Inputs, rows, n, pad int) {
	strideA, strideB := n+pad, n+2*pad
	a, b := in.Floats((rows-1)*strideA+n), in.Floats((rows-1)*strideB+n)
	dst, intact := kerneltest.Guarded[float32](t, n, in.Off&^3)
	k.productSum(dst, a, b, strideA, strideB, rows)
	intact()
	for i := range dst {
		want, size := 0.0, 0.0
		for j := range rows {
			v := float64(a[j*strideA+i]) * float64(b[j*strideB+i])
			want += v
			size += math.Abs(v)
		}
		require.InDelta(t, want, dst[i], size*float64(rows)/(1<<24))
	}
	one := make([]float32, 1)
	k.productSum(one, a[n-1:], b[n-1:], strideA, strideB, rows)
	require.Equal(t, one[0], dst[n-1], "the result depends on neighbors")
}

// TestToF16: every half-precision number, and the values around them.
func TestToF16(t *testing.T) {
	var wide []float32
	for h := range 1 << 16 {
		f := block.F16ToF32(uint16(h))
		if f == f {
			for _, bits := range []uint32{0, 1, 0xffffffff, 0x1000, 0xfff, 0x1001, 0x2000} {
				wide = append(wide, math.Float32frombits(math.Float32bits(f)+bits))
			}
		}
	}
	each(t, func(t *testing.T, k *operations) {
		narrow := make([]uint16, len(wide))
		k.toF16(narrow, wide)
		for i, v := range wide {
			if v != v {
				require.True(t, narrow[i]&0x7c00 == 0x7c00 && narrow[i]&0x3ff != 0)
			} else if want := block.F32ToF16(v); want != narrow[i] {
				require.Equal(t, want, narrow[i], "%v", v)
			}
		}
		again := make([]float32, len(wide))
		k.fromF16(again, narrow)
		for i, h := range narrow {
			if want := block.F16ToF32(h); want == want && want != again[i] {
				require.Equal(t, want, again[i], "%x", h)
			}
		}
	})
}

// all returns the operations of every instruction set that this CPU offers.
func all() (all []*operations) {
	for _, set := range isa.Offered() {
		all = append(all, newOperations(set))
	}
	return all
}

// each runs f on all instruction sets.
func each(t *testing.T, f func(t *testing.T, k *operations)) {
	for _, k := range all() {
		t.Run(k.set, func(t *testing.T) { f(t, k) })
	}
}
