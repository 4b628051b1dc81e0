package cpu

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// expError is the relative error that exp.go states.
const expError = 2e-7

// checkVector holds the leaves on vectors of n against float64.
func checkVector(t *testing.T, k *kernels, in *inputs, n int) {
	x, up := in.floats(n), in.floats(n)
	for i := range x {
		x[i] *= 10
	}
	top := Max(x)
	require.Equal(t, slices.Max(x), top)

	dst, intact := guarded[float32](t, n, in.off&^3)
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
		// Beside the exponential: one rounding each of 1+e, the quotient and the product.
		want := float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i])
		require.InEpsilon(t, want, dst[i], expError+3.0/(1<<24))
	}
	copy(dst, x)
	k.exp(dst, dst, 0)
	again := make([]float32, n)
	for i := range x { // place and company do not count
		k.exp(again[i:i+1], x[i:i+1], 0)
	}
	require.Equal(t, again, slices.Clone(dst))

	if n%block == 0 {
		checkRound(t, k, in, x)
	}
}

// checkRound compares the rounding of x with that of plain Go, bit for bit.
func checkRound(t *testing.T, k *kernels, in *inputs, x []float32) {
	n := len(x)
	q, intactQ := guarded[int8](t, n, in.off)
	d, intactD := guarded[float32](t, n/block, in.off&^3)
	s, intactS := guarded[float32](t, n/block, in.off&^3)
	h, intactH := guarded[int16](t, n/16, in.off&^1)
	k.round(q, d, s, h, x)
	intactQ()
	intactD()
	intactS()
	intactH()
	wantQ, wantD, wantS := make([]int8, n), make([]float32, n/block), make([]float32, n/block)
	wantH := make([]int16, n/16)
	roundGeneric(wantQ, wantD, wantS, wantH, x)
	require.Equal(t, wantH, h)
	require.Equal(t, wantQ, q)
	for b := range d {
		if wantD[b] != wantD[b] {
			require.True(t, d[b] != d[b] && s[b] != s[b])
			continue
		}
		require.Equal(t, wantD[b], d[b])
		require.Equal(t, wantS[b], s[b])
		for i := range block {
			v := x[b*block+i]
			require.InDelta(t, v, float64(d[b])*float64(q[b*block+i]), math.Abs(float64(d[b]))*0.50001+tiny)
			require.NotEqual(t, int8(-128), q[b*block+i])
		}
	}
}

func TestVector(t *testing.T) {
	eachVariant(t, func(t *testing.T, k *kernels) {
		for n := 1; n < 70; n++ {
			checkVector(t, k, newInputs(t, uint64(n), 4*(n%5)), n)
		}
		checkVector(t, k, newInputs(t, 1, 0), 4864)
	})
}

func TestRound(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, v := range []float32{
			0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, tiny, -tiny, math.Nextafter32(tiny, 0), tiny / 2, math.SmallestNonzeroFloat32,
			1e-38, 127, 63.5, nan, inf, -inf,
		} {
			x := make([]float32, 96)
			in := newInputs(t, 1, 0)
			for i := range x {
				x[i] = v * in.Float32()
			}
			x[40] = v
			checkRound(t, k, in, x)
		}
		for i := range uint64(50) {
			in := newInputs(t, i, int(i))
			x := in.floats(128)
			for j := range x {
				x[j] = float32(math.Ldexp(float64(x[j]), in.IntN(200)-100))
			}
			checkRound(t, k, in, x)
		}
	})
}

// The error that exp.go states, over all float32 exponents and the borders.
func TestExp(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	eachVariant(t, func(t *testing.T, k *kernels) {
		var x []float32
		for v := -106.0; v < 90; v += 0.00037 {
			x = append(x, float32(v))
		}
		for e := -40; e < 127; e++ {
			x = append(x, float32(math.Ldexp(1.3, e)), float32(-math.Ldexp(1.3, e)))
		}
		x = append(x, 0, float32(inf), float32(-inf), float32(nan), math.MaxFloat32, -math.MaxFloat32, 88.72283, 88.72284, -87.33655, -103.9, -104)
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
}

func TestRMSNorm(t *testing.T) {
	const eps = 1e-6
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, n := range []int{normPad, 3 * normPad, 896, 1536} {
			in := newInputs(t, uint64(n), 4)
			x, g := in.floats(n), in.floats(n)
			sum := 0.0
			for _, v := range x {
				sum += float64(v) * float64(v)
			}
			dst, intact := guarded[float32](t, n, in.off)
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
	RMSNorm(dst, x, []float32{1, 2, 3}, 0) // no leaf takes three
	require.InDeltaSlice(t, []float64{3 / math.Sqrt(25.0/3), 8 / math.Sqrt(25.0/3), 0}, dst, 1e-6)
	RMSNorm(nil, nil, nil, eps)
}

func TestRope(t *testing.T) {
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	sin, cos := math.Sincos(0.5)
	Rope(x, []float32{float32(cos), 1}, []float32{float32(sin), 0}) // two heads
	require.InDeltaSlice(t, []float64{cos - 3*sin, 2, 3*cos + sin, 4, 5*cos - 7*sin, 6, 7*cos + 5*sin, 8}, x, 1e-6)
	require.Panics(t, func() { Rope(x[:6], []float32{1, 1}, []float32{0, 0}) })
	eachVariant(t, func(t *testing.T, k *kernels) {
		for _, c := range []struct{ heads, half int }{{1, ropePad}, {3, ropePad}, {14, 32}, {2, 64}} {
			in := newInputs(t, uint64(c.half), 4)
			cos, sin := in.floats(c.half), in.floats(c.half)
			x, intact := guarded[float32](t, c.heads*2*c.half, in.off)
			copy(x, in.floats(len(x)))
			want := slices.Clone(x)
			ropeGeneric(want, cos, sin)
			k.rope(x, cos, sin)
			intact()
			require.Equal(t, want, slices.Clone(x))
		}
	})
}

// TestAbove: the first hit at every place of vectors of many lengths, and what is no hit.
func TestAbove(t *testing.T) {
	nan := float32(math.NaN())
	require.Zero(t, Above(nil, 0))
	eachVariant(t, func(t *testing.T, k *kernels) {
		for n := 1; n < 110; n++ {
			x, intact := guarded[float32](t, n, 4)
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

func TestChoose(t *testing.T) {
	all := variants()
	k, err := choose("", all)
	require.NoError(t, err)
	require.Equal(t, all[len(all)-1].name, k.name)
	for _, v := range all {
		k, err := choose(v.name, all)
		require.NoError(t, err)
		require.Equal(t, v.name, k.name)
	}
	k, err = choose("abacus", all)
	require.ErrorContains(t, err, "PILOTFISH_CPU=abacus: this CPU and build offer generic")
	require.Equal(t, "generic", k.name)
	name, err := Detect()
	require.NoError(t, err)
	require.Equal(t, Features(), name)
	require.Contains(t, Variants(), name)
}
