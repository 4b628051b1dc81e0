package stat

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSample(t *testing.T) {
	x := []float64{9, 1, 2, 4}
	assert.Equal(t, 4.0, Mean(x))
	assert.Equal(t, 3.0, Median(x))
	assert.Equal(t, 2.0, Median(x[:3]))
	assert.Equal(t, 9.0, Median(x[:1]))
	assert.Equal(t, []float64{9, 1, 2, 4}, x, "x does not change")
	assert.True(t, math.IsNaN(Mean(nil)))
}

// TestQuantile: it is the smallest value with enough values at or below it.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		x := make([]time.Duration, 1+r.IntN(50))
		for i := range x {
			x[i] = time.Duration(r.IntN(20))
		}
		slices.Sort(x)
		for _, p := range []float64{0, 0.025, 0.5, 0.9, 0.975, 1, r.Float64()} {
			i := slices.IndexFunc(x, func(v time.Duration) bool {
				upTo := 0
				for _, other := range x {
					if other <= v {
						upTo++
					}
				}
				return float64(upTo) >= p*float64(len(x))
			})
			require.Equal(t, x[i], Quantile(x, p), "%v of %v", p, x)
		}
	}
}

// TestBinomialCDF: against sums of exact terms.
func TestBinomialCDF(t *testing.T) {
	for _, n := range []int{1, 2, 7, 60, 400} {
		for _, p := range []float64{0.01, 0.07, 0.5, 0.93} {
			q, sum := big.NewFloat(p).SetPrec(400), new(big.Float).SetPrec(400)
			rest := new(big.Float).SetPrec(400).Sub(big.NewFloat(1), q)
			for k := range n + 1 {
				term := new(big.Float).SetPrec(400).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
				for range k {
					term.Mul(term, q)
				}
				for range n - k {
					term.Mul(term, rest)
				}
				sum.Add(sum, term)
				want, _ := sum.Float64()
				got := BinomialCDF(n, p, k)
				if want < 1e-290 {
					require.InDelta(t, want, got, 1e-290)
					continue
				}
				require.InDelta(t, 1, got/want, 1e-12, "P[Bin(%d, %v) ≤ %d] = %v", n, p, k, want)
			}
			require.Zero(t, BinomialCDF(n, p, -1))
			require.Equal(t, 1.0, BinomialCDF(n, p, n))
			require.Equal(t, 1.0, BinomialCDF(n, p, n+1))
		}
	}
}

// TestBinomialEdges: for probabilities near 0 or 1; and half is exactly half.
func TestBinomialEdges(t *testing.T) {
	smallest, largest := math.SmallestNonzeroFloat64, math.Nextafter(1, 0)
	for _, n := range []int{0, 1, 5, 1000} {
		assert.Equal(t, 1.0, BinomialCDF(n, smallest, 0))
		assert.Equal(t, 1.0, BinomialCDF(n, largest, n))
		assert.InDelta(t, 0, BinomialCDF(n, largest, n-1), 1e-12)
	}
	for n := 1; n < 400; n += 2 {
		assert.Equal(t, 0.5, BinomialCDF(n, 0.5, n/2), n)
	}
}

// TestBinomialLarge: many trials agree with the normal distribution, and with the mirrored probability.
func TestBinomialLarge(t *testing.T) {
	const n, p = 1_000_000, 0.07
	mean, deviation := n*p, math.Sqrt(n*p*(1-p))
	for z := -4.0; z <= 4; z++ {
		k := int(mean + z*deviation)
		got := BinomialCDF(n, p, k)
		assert.InDelta(t, math.Erfc(-(float64(k)+0.5-mean)/deviation/math.Sqrt2)/2, got, 1e-3)
		assert.InDelta(t, 1, got+BinomialCDF(n, 1-p, n-k-1), 1e-12)
	}
}
