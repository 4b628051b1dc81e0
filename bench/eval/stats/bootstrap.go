package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// Resamples is the number of draws of the bootstrap.
const Resamples = 2000

// Bootstrap returns an interval for each of several statistics of n questions, by the percentile method (Efron 1979):
// it draws n questions with replacement, [Resamples] times, and the interval is between the quantiles of the statistics
// of these draws. It is paired: all statistics, of whichever runs, use the same questions in each draw. of gets how
// often each question was drawn, and returns the statistics in the same order each time. A draw in which a statistic is
// NaN is left out of its interval. The interval is NaN if the statistic itself is.
func Bootstrap(n int, seed uint64, of func(weight []int) []float64) []Interval {
	weight := slices.Repeat([]int{1}, n)
	values := of(weight)
	drawn := make([][]float64, len(values))
	r := rand.New(rand.NewPCG(seed, 0x6576616c))
	for range Resamples {
		clear(weight)
		for range n {
			weight[r.IntN(n)]++
		}
		for i, v := range of(weight) {
			if !math.IsNaN(v) {
				drawn[i] = append(drawn[i], v)
			}
		}
	}
	all := make([]Interval, len(values))
	for i, v := range values {
		all[i] = percentileInterval(v, drawn[i])
	}
	return all
}

// percentileInterval returns the interval of a value from its draws, which it sorts.
func percentileInterval(value float64, drawn []float64) Interval {
	if math.IsNaN(value) || len(drawn) == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(drawn)
	const tail = (1 - Confidence) / 2
	return Interval{value, stat.Quantile(drawn, tail), stat.Quantile(drawn, 1-tail)}
}

// Weighted returns the sum of x, each times its weight in a draw of [Bootstrap].
func Weighted(x []float64, weight []int) (sum float64) {
	for i, w := range weight {
		sum += float64(w) * x[i]
	}
	return sum
}
