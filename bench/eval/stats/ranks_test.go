package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSignedRank: p-values computed by hand, and by trying all signs.
func TestSignedRank(t *testing.T) {
	for _, c := range []struct {
		d []float64
		p float64
	}{
		{nil, 1}, {[]float64{0, 0}, 1}, {[]float64{3}, 1}, {[]float64{1, 2}, 0.5}, {[]float64{1, -2, 0}, 1},
		{[]float64{1, 2, 3, 4, 5}, 2. / 32}, {[]float64{-1, -2, -3, -4, -5, -6}, 2. / 64},
		// sums of 0 to 3: 1, 1, 1 and 2 ways
		{[]float64{-1, 2, 3, 4, 5}, 4. / 32}, {[]float64{1, 2, -3, 4, 5}, 10. / 32},
		{[]float64{7, 7, 7, 7, -7}, 12. / 32}, // ties: one of five negative, or none
		{[]float64{1, 2, 3, math.NaN()}, 2. / 8},
	} {
		assert.InDelta(t, c.p, SignedRank(c.d), 1e-12, "%v", c.d)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		d := make([]float64, 1+r.IntN(9))
		for i := range d {
			d[i] = float64(r.IntN(9) - 4)
		}
		kept := slices.DeleteFunc(slices.Clone(d), func(x float64) bool { return x == 0 })
		assert.InDelta(t, allSigns(kept), SignedRank(d), 1e-12, "%v", d)
	}
}

// allSigns returns the p-value by trying all signs.
func allSigns(d []float64) float64 {
	rank := func(i int) (r float64) { // the mean rank of equal values
		for k := range d {
			switch a, b := math.Abs(d[k]), math.Abs(d[i]); {
			case a < b:
				r++
			case a == b:
				r += 0.5
			}
		}
		return r + 0.5
	}
	sum, all := 0.0, 0.0
	for i := range d {
		all += rank(i)
		if d[i] > 0 {
			sum += rank(i)
		}
	}
	far, n := 0, 1<<len(d)
	for signs := range n {
		s := 0.0
		for i := range d {
			if signs>>i&1 == 1 {
				s += rank(i)
			}
		}
		if math.Abs(s-all/2) >= math.Abs(sum-all/2) {
			far++
		}
	}
	return min(1, float64(far)/float64(n))
}

// TestRankSum: p-values computed by hand, and by trying all choices.
func TestRankSum(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		p    float64
	}{
		{nil, []float64{1}, 1}, {[]float64{1}, nil, 1}, {[]float64{1}, []float64{2}, 1},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 2. / 20}, {[]float64{4, 5, 6}, []float64{1, 2, 3}, 2. / 20},
		{[]float64{1, 2, 4}, []float64{3, 5, 6}, 4. / 20},
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2. / 252},
		{[]float64{1, 1}, []float64{1, 1}, 1}, {[]float64{1, 1}, []float64{2, 2, 2}, 2. / 10},
	} {
		assert.InDelta(t, c.p, RankSum(c.a, c.b), 1e-12, "%v %v", c.a, c.b)
	}
}

// TestLevel: p-values are uniform without a difference, up to the largest numbers of values.
func TestLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	normal := func(n int, mean float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = mean + r.NormFloat64()
		}
		return x
	}
	low := [2]int{}
	const rounds = 200
	for range rounds {
		if SignedRank(normal(MostRanks, 0)) < 0.1 {
			low[0]++
		}
		if RankSum(normal(MostChoices/2, 5), normal(MostChoices/2, 5)) < 0.1 {
			low[1]++
		}
	}
	for _, k := range low {
		assert.InDelta(t, 0.1, float64(k)/rounds, 0.07)
	}
	assert.Less(t, SignedRank(normal(MostRanks, 1.2)), 1e-6)
	assert.Less(t, RankSum(normal(20, 2), normal(20, 0)), 1e-5)
}

// TestMiddle: the interval contains the middle with its confidence, and the test rejects the values outside.
func TestMiddle(t *testing.T) {
	assert.Equal(t, Interval{2, math.Inf(-1), math.Inf(1)}, Middle([]float64{1, 2, 3}))
	six := Middle([]float64{1, 2, 3, 4, 5, 60})
	assert.Equal(t, Interval{3.5, 1, 60}, six)
	assert.True(t, math.IsNaN(Middle(nil).Value))
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{7, 20, MostRanks} {
		inside := 0
		const rounds = 100
		for range rounds {
			d := make([]float64, n)
			for i := range d {
				d[i] = 3 + r.NormFloat64()
			}
			i := Middle(d)
			if i.Low <= 3 && 3 <= i.High {
				inside++
			}
			shifted := slices.Clone(d)
			for k := range d {
				shifted[k] = d[k] - i.High - 1e-9
			}
			assert.LessOrEqual(t, SignedRank(shifted), 1-Confidence+0.003)
			for k := range d {
				shifted[k] = d[k] - i.High + 1e-9
			}
			assert.Greater(t, SignedRank(shifted), 1-Confidence-0.003)
		}
		assert.InDelta(t, Confidence, float64(inside)/rounds, 0.07, n)
	}
}

// TestShift: known intervals of the shift between two samples, and their coverage.
func TestShift(t *testing.T) {
	assert.Equal(t, Interval{10, math.Inf(-1), math.Inf(1)}, Shift([]float64{1, 2}, []float64{11, 12}))
	assert.Equal(t, Interval{3, 0, 6}, Shift([]float64{1, 2, 3, 4}, []float64{4, 5, 6, 7}))
	r := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{6, 12, 18} {
		inside := 0
		const rounds = 60
		for range rounds {
			a, b := make([]float64, n), make([]float64, n+3)
			for i := range a {
				a[i] = r.NormFloat64()
			}
			for i := range b {
				b[i] = 2 + r.NormFloat64()
			}
			i := Shift(a, b)
			if i.Low <= 2 && 2 <= i.High {
				inside++
			}
			p := func(shift float64) float64 {
				back := slices.Clone(b)
				for k := range back {
					back[k] -= shift
				}
				return RankSum(a, back)
			}
			assert.LessOrEqual(t, max(p(i.Low-1e-9), p(i.High+1e-9)), 1-Confidence+1e-9, "all that is not rejected")
			assert.Greater(t, min(p(i.Low+1e-9), p(i.High-1e-9)), 1-Confidence-0.003)
		}
		assert.InDelta(t, Confidence, float64(inside)/rounds, 0.07, n)
	}
}

// TestHolm: by hand, and in whatever order.
func TestHolm(t *testing.T) {
	assert.InDeltaSlice(t, []float64{0.03, 0.06, 0.06, 0.02}, Holm([]float64{0.01, 0.04, 0.03, 0.005}), 1e-12)
	assert.Equal(t, []float64{1, 1}, Holm([]float64{0.7, 0.9}))
	assert.Empty(t, Holm(nil))
}
