package vector

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/kerneltest"
)

// storage holds the functions for keys and values of one type, and its encoding of a float32.
type storage struct {
	scores scores
	mix    mix
	size   int
	stored func(in *kerneltest.Inputs, n int) (bytes []byte, value func(i int) float64)
}

func storages(k *operations) []storage {
	return []storage{
		{k.scoresF32, k.mixF32, 4, func(in *kerneltest.Inputs, n int) ([]byte, func(int) float64) {
			f := in.Floats(n)
			return bytesOf(f), func(i int) float64 { return float64(f[i]) }
		}},
		{k.scoresF16, k.mixF16, 2, func(in *kerneltest.Inputs, n int) ([]byte, func(int) float64) {
			b := in.Bytes(2 * n)
			narrow := make([]uint16, n)
			toF16Generic(narrow, in.Floats(n))
			copy(b, halfBytes(narrow))
			return b, func(i int) float64 { return float64(readF16(b[2*i:])) }
		}},
	}
}

// checkScores compares k's scores of blocks keys, of dh elements and pad more between two blocks, with the formula.
func checkScores(t *testing.T, k *operations, in *kerneltest.Inputs, dh, blocks, pad int) {
	for _, a := range storages(k) {
		q := in.Floats(dh * Queries)
		step := KeyBlock*dh + pad
		keys, key := a.stored(in, (blocks-1)*step+KeyBlock*dh)
		stride := KeyBlock*blocks + pad
		dst, intact := kerneltest.Guarded[float32](t, (Queries-1)*stride+KeyBlock*blocks, in.Off&^3)
		a.scores(dst, stride, q, keys, step*a.size, blocks)
		intact()
		alone := make([]float32, Queries*KeyBlock)
		for b := range blocks {
			a.scores(alone, KeyBlock, q, keys[b*step*a.size:], step*a.size, 1)
			for g := range Queries {
				beside := dst[g*stride+b*KeyBlock:][:KeyBlock]
				require.Equal(t, alone[g*KeyBlock:][:KeyBlock], beside, "neighboring blocks change a bit")
				for j := range KeyBlock {
					want, size := 0.0, 0.0
					for i := range dh {
						v := float64(q[i*Queries+g]) * key(b*step+i*KeyBlock+j)
						want += v
						size += math.Abs(v)
					}
					require.InDelta(t, want, dst[g*stride+b*KeyBlock+j], size*float64(dh+1)/(1<<24))
				}
			}
		}
	}
}

// checkMix compares k's weighted sums of n values with the formula.
func checkMix(t *testing.T, k *operations, in *kerneltest.Inputs, dh, n, pad int) {
	for i, a := range storages(k) {
		f := mixFor(a.mix, []mix{mixF32Generic, mixF16Generic}[i], Queries*dh)
		stride, step := n+pad, dh+pad
		p := in.Floats((Queries-1)*stride + n)
		values, value := a.stored(in, (n-1)*step+dh)
		acc, intact := kerneltest.Guarded[float32](t, Queries*dh, in.Off&^3)
		start := in.Floats(Queries * dh)
		copy(acc, start)
		f(acc, p, stride, n, values, step*a.size)
		intact()
		parts := slices.Clone(start)
		if first := n / 3; first > 0 {
			f(parts, p, stride, first, values, step*a.size)
			f(parts, p[first:], stride, n-first, values[first*step*a.size:], step*a.size)
			require.Equal(t, parts, slices.Clone(acc), "two parts give other bits than the whole")
		}
		for g := range Queries {
			for c := range dh {
				want := float64(start[g*dh+c])
				size := math.Abs(want)
				for j := range n {
					v := float64(p[g*stride+j]) * value(j*step+c)
					want += v
					size += math.Abs(v)
				}
				require.InDelta(t, want, acc[g*dh+c], size*float64(n+1)/(1<<24))
			}
		}
	}
}

func TestAttention(t *testing.T) {
	each(t, func(t *testing.T, k *operations) {
		for i, dh := range []int{1, 2, 8, 16, 24, 32, 40, 64, 128} {
			for _, n := range []int{1, 2, 3, 7} {
				in := kerneltest.NewInputs(t, uint64(i), 4*(n%3))
				checkScores(t, k, in, dh, n, 3*(n%2))
				checkMix(t, k, in, dh, 1+5*(n-1), n%2)
			}
		}
	})
}

// TestPair: what two queries give is the same to the last bit without the six others.
func TestPair(t *testing.T) {
	each(t, func(t *testing.T, k *operations) {
		if k.pairScoresF16 == nil {
			t.Skip("it computes them with the others")
		}
		for _, dh := range []int{1, 20, 64, 128, 192} {
			for n := 1; n < 10; n++ {
				in := kerneltest.NewInputs(t, uint64(n), 4*(n%3))
				a := storages(k)[1]
				pad := 2 * (n % 3)
				keys, _ := a.stored(in, n*(KeyBlock*dh+pad))
				q, stride := in.Floats(dh*Queries), KeyBlock*n+pad
				all := make([]float32, Queries*stride)
				two, intact := kerneltest.Guarded[float32](t, Queries*stride, in.Off&^3)
				k.scoresF16(all, stride, q, keys, 2*(KeyBlock*dh+pad), n)
				k.pairScoresF16(two, stride, q, keys, 2*(KeyBlock*dh+pad), n)
				intact()
				for g := range 2 {
					same := all[g*stride:][:KeyBlock*n]
					require.Equal(t, same, two[g*stride:][:KeyBlock*n], "%d elements, %d blocks", dh, n)
				}
				if dh%64 != 0 {
					continue
				}
				want := in.Floats(Queries * dh)
				got, intact := kerneltest.Guarded[float32](t, Queries*dh, in.Off&^3)
				copy(got, want)
				k.mixF16(want, all, stride, KeyBlock*n-3, keys, 2*dh)
				k.pairMixF16(got, all, stride, KeyBlock*n-3, keys, 2*dh)
				intact()
				require.Equal(t, want[:2*dh], slices.Clone(got[:2*dh]), "%d elements, %d values", dh, KeyBlock*n-3)
			}
		}
	})
}

// TestPairMixF32: the same for sums of values in float32.
func TestPairMixF32(t *testing.T) {
	each(t, func(t *testing.T, k *operations) {
		if k.pairMixF32 == nil {
			t.Skip("it computes them with the others")
		}
		for _, dh := range []int{64, 128, 192} {
			for n := 1; n < 20; n++ {
				in := kerneltest.NewInputs(t, uint64(n), 4*(n%3))
				stride, step := n+n%2, dh+n%3
				p, values := in.Floats(Queries*stride), bytesOf(in.Floats(n*step))
				want := in.Floats(Queries * dh)
				got, intact := kerneltest.Guarded[float32](t, Queries*dh, in.Off&^3)
				copy(got, want)
				k.mixF32(want, p, stride, n, values, 4*step)
				k.pairMixF32(got, p, stride, n, values, 4*step)
				intact()
				require.Equal(t, want[:2*dh], slices.Clone(got[:2*dh]), "%d elements, %d values", dh, n)
			}
		}
	})
}

// FuzzAttention compares every variant with the formulas at any shape and alignment.
func FuzzAttention(f *testing.F) {
	f.Add(uint64(1), uint8(64), uint8(3), uint8(28), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, dh, n, pad, off uint8) {
		for _, k := range all() {
			in := kerneltest.NewInputs(t, seed, int(off%64))
			checkScores(t, k, in, 1+int(dh%130), 1+int(n%5), int(pad))
			checkMix(t, k, in, 1+int(dh%130), 1+int(n%70), int(pad))
		}
	})
}

// TestAttentionBounds: slices of exactly the necessary lengths fit. With one element less, or a negative stride or
// step, a call panics before it touches memory.
func TestAttentionBounds(t *testing.T) {
	f := func(n int) []float32 { return make([]float32, n) }
	h := func(n int) []uint16 { return make([]uint16, n) }
	check := func(name, message string, call func(a [5]int), fits [5]int) {
		assert.NotPanics(t, func() { call(fits) }, name)
		bad := [5][]int{{fits[0] - 1}, {-1, fits[1] + 1}, {fits[2] - 1}, {fits[3] - 1}, {-1, fits[4] + 1}}
		for i, wrong := range bad {
			for _, n := range wrong {
				args := fits
				args[i] = n
				assert.PanicsWithValue(t, message, func() { call(args) }, "%s%v", name, args)
			}
		}
		fits[1], fits[4] = 0, 0
		assert.NotPanics(t, func() { call(fits) }, "%s of equal places", name)
	}
	// Lengths of dst, q and keys with a stride and a step, for two blocks of keys of 8 elements.
	scores, most := "vector: scores reach beyond a slice", [5]int{7*40 + 32, 40, 64, 130 + 128, 130}
	check("ScoresF32", scores, func(a [5]int) { ScoresF32(f(a[0]), a[1], f(a[2]), f(a[3]), a[4], 2) }, most)
	check("ScoresF16", scores, func(a [5]int) { ScoresF16(f(a[0]), a[1], f(a[2]), h(a[3]), a[4], 2) }, most)
	check("PairScoresF16", scores, func(a [5]int) { PairScoresF16(f(a[0]), a[1], f(a[2]), h(a[3]), a[4], 2) }, most)
	// Lengths of p, acc and values, for three values of 64 elements.
	values, most := "vector: values reach beyond a slice", [5]int{7*5 + 3, 5, 512, 2*70 + 64, 70}
	check("MixF32", values, func(a [5]int) { MixF32(f(a[2]), f(a[0]), a[1], 3, f(a[3]), a[4]) }, most)
	check("PairMixF32", values, func(a [5]int) { PairMixF32(f(a[2]), f(a[0]), a[1], 3, f(a[3]), a[4]) }, most)
	check("MixF16", values, func(a [5]int) { MixF16(f(a[2]), f(a[0]), a[1], 3, h(a[3]), a[4]) }, most)
	check("PairMixF16", values, func(a [5]int) { PairMixF16(f(a[2]), f(a[0]), a[1], 3, h(a[3]), a[4]) }, most)
	require.Panics(t, func() { WeightedSum(f(4), f(2), f(9), 6) })
	require.NotPanics(t, func() { ProductSum(f(4), f(10), f(11), 6, 7, 2) })
	require.Panics(t, func() { ProductSum(f(4), f(9), f(11), 6, 7, 2) })
	require.Panics(t, func() { ProductSum(f(4), f(10), f(10), 6, 7, 2) })
	require.Panics(t, func() { ProductSum(f(4), f(10), f(11), 6, 7, 0) })
}

// TestEmpty: of no elements there is no largest one, and all sums are zero.
func TestEmpty(t *testing.T) {
	ScoresF16(nil, 0, nil, nil, 0, 0)
	PairScoresF16(nil, 0, nil, nil, 0, 0)
	ScoresF32(nil, 0, nil, nil, 0, 0)
	MixF16(nil, nil, 0, 0, nil, 0)
	PairMixF16(nil, nil, 0, 0, nil, 0)
	MixF32(nil, nil, 0, 0, nil, 0)
	PairMixF32(nil, nil, 0, 0, nil, 0)
	FromF16(nil, nil)
	Gate(nil, nil, nil)
	Scale(nil, nil, 1)
	ProductSum(nil, nil, nil, 0, 0, 0)
	RMSNorm(nil, nil, nil, 1)
	SwiGLU(nil, nil, nil)
	Exp(nil, nil)
	sum, sumX := SumExp(nil, 0)
	assert.Zero(t, sum)
	assert.Zero(t, sumX)
	assert.Zero(t, Above(nil, 0))
	assert.Equal(t, float32(math.Inf(-1)), Max(nil))
}

func TestSoftmax(t *testing.T) {
	each(t, func(t *testing.T, k *operations) {
		for _, n := range []int{1, 2, 31, 32, 33, 64, 250, 1000} {
			in := kerneltest.NewInputs(t, uint64(n), 4*(n%7))
			x, intact := kerneltest.Guarded[float32](t, (n+SoftmaxPad-1)/SoftmaxPad*SoftmaxPad, in.Off)
			for i := range x {
				x[i] = float32(math.Inf(-1))
			}
			copy(x, in.Floats(n))
			if n > 2 {
				x[1] = float32(math.Inf(-1))
			}
			before := slices.Clone(x)
			top, sum := k.softmax(x)
			intact()
			require.Equal(t, slices.Max(before), top)
			want := 0.0
			for i, v := range before {
				e := math.Exp(float64(v - top))
				want += e
				require.InDelta(t, e, x[i], expError*e)
			}
			require.InEpsilon(t, want, sum, 2e-6)
			x[n-1] = float32(math.NaN())
			_, sum = k.softmax(x)
			require.True(t, sum != sum, "a NaN is lost")
		}
	})
	require.Panics(t, func() { Softmax(make([]float32, 31)) })
	_, sum := Softmax(nil)
	require.Zero(t, sum)
}

func TestWeightedSum(t *testing.T) {
	in := kerneltest.NewInputs(t, 1, 0)
	p, v, dst := in.Floats(3), in.Floats(3*70), make([]float32, 67)
	WeightedSum(dst, p, v, 70)
	for i := range dst {
		want := float64(p[0])*float64(v[i]) + float64(p[1])*float64(v[70+i]) + float64(p[2])*float64(v[140+i])
		require.InDelta(t, want, dst[i], 1e-5)
	}
	twice := slices.Clone(dst)
	AddWeightedSum(twice, p, v, 70)
	for i := range dst {
		require.InDelta(t, 2*dst[i], twice[i], 1e-5)
	}
	WeightedSum(dst[:1], nil, nil, 0)
	require.Zero(t, dst[0])
}
