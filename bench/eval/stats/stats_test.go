package stats

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWilson: the bounds are the shares for which k of n deviates by exactly 1.96 standard deviations, within 0 to 1.
func TestWilson(t *testing.T) {
	for _, c := range []struct{ k, n int }{{8, 10}, {0, 10}, {10, 10}, {250, 1000}, {1, 2}} {
		got, n := Wilson(c.k, c.n), float64(c.n)
		p := float64(c.k) / n
		assert.InDelta(t, p, got.Value, 1e-12)
		for i, bound := range []float64{got.Low, got.High} {
			off := []float64{p - bound, bound - p}[i]
			assert.GreaterOrEqual(t, off, 0.0)
			if bound > 0 && bound < 1 {
				assert.InDelta(t, 1.959964*math.Sqrt(bound*(1-bound)/n), off, 1e-7, "%v", c)
			}
		}
	}
	for _, c := range []struct { // published: Newcombe 1998, table I
		k, n      int
		low, high float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {29, 29, 0.8830, 1}} {
		assert.InDelta(t, c.low, Wilson(c.k, c.n).Low, 1e-4)
		assert.InDelta(t, c.high, Wilson(c.k, c.n).High, 1e-4)
	}
	assert.Zero(t, Wilson(0, 10).Low)
	assert.Equal(t, 1.0, Wilson(10, 10).High)
	none := Wilson(0, 0)
	assert.True(t, math.IsNaN(none.Value))
	assert.Zero(t, none.Low)
	assert.Equal(t, 1.0, none.High)
}

// TestMcNemar: sums of binomial coefficients, computed by hand.
func TestMcNemar(t *testing.T) {
	for _, c := range []struct {
		first, second int
		p             float64
	}{
		{0, 0, 1}, {1, 0, 1}, {5, 0, 2. / 32}, {0, 5, 2. / 32}, {1, 9, 2 * 11. / 1024}, {3, 3, 1},
		{2, 8, 2 * 56. / 1024}, {10, 10, 1}, {0, 20, 2. / 1048576},
	} {
		assert.InDelta(t, c.p, McNemar(c.first, c.second), 1e-12, "%v", c)
	}
}

func TestCurve(t *testing.T) {
	c := NewCurve([]Point{{1, 0.9}, {0, 0.4}, {0.5, 0.7}, {0.5, 0.9}, {math.NaN(), 1}, {0.2, math.NaN()}})
	assert.Equal(t, Curve{{0, 0.4}, {0.5, 0.8}, {1, 0.9}}, c)
	for x, y := range map[float64]float64{0: 0.4, 0.25: 0.6, 0.5: 0.8, 0.75: 0.85, 1: 0.9} {
		assert.InDelta(t, y, c.At(x), 1e-12, "%v", x)
	}
	assert.True(t, math.IsNaN(c.At(-0.01)))
	assert.True(t, math.IsNaN(c.At(1.01)))
	assert.True(t, math.IsNaN(Curve(nil).At(0)))
}

// TestBootstrap: the interval of a mean equals that of the normal law and is the same for the same seed. The difference
// of paired runs has a smaller interval than that of independent runs.
func TestBootstrap(t *testing.T) {
	const n = 400
	mean := func(x func(i int) float64) func(w []int) float64 {
		return func(w []int) float64 {
			sum := 0.0
			for i, k := range w {
				sum += float64(k) * x(i)
			}
			return sum / n
		}
	}
	a := mean(func(i int) float64 { return float64(i % 2) })
	b := mean(func(i int) float64 { // as a, except for 4 in 100 questions
		if i%25 == 0 {
			return 1
		}
		return float64(i % 2)
	})
	undefined := 0
	of := func(w []int) []float64 {
		total := 0
		for _, k := range w {
			total += k
		}
		assert.Equal(t, n, total)
		odd := math.NaN() // in half of the resamples
		if undefined++; undefined%2 == 1 {
			odd = 3
		}
		return []float64{a(w), b(w) - a(w), math.NaN(), odd}
	}
	got := Bootstrap(n, 1, of)
	half := 1.96 * math.Sqrt(0.25/n)
	assert.InDelta(t, 0.5, got[0].Value, 1e-12)
	assert.InDelta(t, 0.5-half, got[0].Low, 0.006)
	assert.InDelta(t, 0.5+half, got[0].High, 0.006)
	assert.InDelta(t, 0.02, got[1].Value, 1e-12)
	assert.InDelta(t, 0.02-1.96*math.Sqrt(0.02*0.98/n), got[1].Low, 0.004)
	assert.InDelta(t, 0.02+1.96*math.Sqrt(0.02*0.98/n), got[1].High, 0.004)
	assert.True(t, math.IsNaN(got[2].Value) && math.IsNaN(got[2].Low) && math.IsNaN(got[2].High))
	assert.Equal(t, Interval{3, 3, 3}, got[3])
	text, err := json.Marshal(got[2:])
	require.NoError(t, err)
	assert.Equal(t, `[null,{"value":3,"low":3,"high":3}]`, string(text))
	undefined = 0
	assert.Equal(t, got[:2], Bootstrap(n, 1, of)[:2])
	assert.NotEqual(t, got[0], Bootstrap(n, 2, of)[0])
}
