package stats

import (
	"cmp"
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// MostRanks is the maximum number of differences for [SignedRank], and MostChoices that of all values for [RankSum]:
// the tests are exact, and their time grows with a power of it.
const (
	MostRanks   = 60
	MostChoices = 40
)

// SignedRank is the two-sided p-value of Wilcoxon's signed-rank test (Biometrics Bulletin 1945) of the hypothesis that
// the differences d are symmetric about 0. Zeros are left out. It is exact, including ties: the share of all
// assignments of signs with a sum that is at least as extreme.
func SignedRank(d []float64) float64 {
	d = slices.DeleteFunc(slices.Clone(d), func(x float64) bool { return x == 0 || math.IsNaN(x) })
	sizes := make([]float64, len(d))
	for i, x := range d {
		sizes[i] = math.Abs(x)
	}
	ranks, positive, all := Ranks(sizes), 0, 0
	for i, r := range ranks {
		if d[i] > 0 {
			positive += r
		}
		all += r
	}
	low := min(positive, all-positive)
	share := signSums(ranks)
	p := 0.0
	for s := 0; s <= low; s++ {
		p += share[s]
	}
	return min(1, 2*p)
}

// Ranks returns twice the ranks of values, from 1: equal values share the mean of their ranks, which may be half an
// integer.
func Ranks(x []float64) []int {
	sorted := slices.Sorted(slices.Values(x))
	ranks := make([]int, len(x))
	for i, v := range x {
		first, _ := slices.BinarySearch(sorted, v)
		end := first
		for end < len(sorted) && sorted[end] == v {
			end++
		}
		ranks[i] = first + 1 + end
	}
	return ranks
}

// signSums returns, for each sum, the share of all subsets of the ranks that have it.
func signSums(ranks []int) []float64 {
	all := 0
	for _, r := range ranks {
		all += r
	}
	share, reached := make([]float64, all+1), 0
	share[0] = 1
	for _, r := range ranks {
		reached += r
		for s := reached; s >= 0; s-- {
			share[s] /= 2
			if s >= r {
				share[s] += share[s-r] / 2
			}
		}
	}
	return share
}

// RankSum is the two-sided p-value of the test of Mann and Whitney (Ann. Math. Statist. 1947) of the hypothesis that
// the values of a and b have one distribution. It is exact, including ties.
func RankSum(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	ranks, sum := Ranks(slices.Concat(a, b)), 0
	for _, r := range ranks[:len(a)] {
		sum += r
	}
	low := min(sum, 2*len(a)*(len(ranks)+1)-sum)
	p := 0.0
	for s, share := range choiceSums(ranks, len(a)) {
		if s <= low {
			p += share
		}
	}
	return min(1, 2*p)
}

// choiceSums returns, for each sum, the share of all choices of choose ranks that have it.
func choiceSums(ranks []int, choose int) []float64 {
	all := 0
	for _, r := range ranks {
		all += r
	}
	ways := make([][]float64, choose+1)
	for k := range ways {
		ways[k] = make([]float64, all+1)
	}
	ways[0][0] = 1
	for i, r := range ranks {
		for k := min(choose, i+1); k > 0; k-- {
			for s := all; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	total := 0.0
	for _, w := range ways[choose] {
		total += w
	}
	for s := range ways[choose] {
		ways[choose][s] /= total
	}
	return ways[choose]
}

// Middle is the estimate of Hodges and Lehmann (Ann. Math. Statist. 1963) of the location of the values d: the median
// of the means of all pairs of them, each with itself too. Its interval contains all values that [SignedRank] would not
// reject; it is unbounded for fewer than six values.
func Middle(d []float64) Interval {
	var pairs []float64
	for i, x := range d {
		for _, y := range d[:i+1] {
			pairs = append(pairs, (x+y)/2)
		}
	}
	return invertTest(pairs, signSums(firstRanks(len(d))))
}

func firstRanks(n int) []int {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	return ranks
}

// Shift is the estimate of Hodges and Lehmann of the shift from the values of a to those of b: the median of all
// differences. Its interval contains all values that [RankSum] would not reject; it is unbounded for too few values.
func Shift(a, b []float64) Interval {
	var pairs []float64
	for _, x := range a {
		for _, y := range b {
			pairs = append(pairs, y-x)
		}
	}
	least := len(a) * (len(a) + 1) / 2
	return invertTest(pairs, choiceSums(firstRanks(len(a)+len(b)), len(a))[least:])
}

// invertTest returns the median of values, with the interval of a test: the number of values beyond each end is the
// largest value of the test's statistic with a tail probability of at most half of 1 less [Confidence]. shares are the
// probabilities of the statistic, from 0.
func invertTest(values, shares []float64) Interval {
	if len(values) == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	const tail = (1 - Confidence) / 2
	beyond, p := 0, 0.0
	for _, share := range shares {
		if p += share; p > tail {
			break
		}
		beyond++
	}
	slices.Sort(values)
	n := len(values)
	i := Interval{stat.MedianSorted(values), math.Inf(-1), math.Inf(1)}
	if beyond > 0 && beyond <= n/2 {
		i.Low, i.High = values[beyond-1], values[n-beyond]
	}
	return i
}

// Holm corrects p-values of several tests (Scand. J. Statist. 1979): the probability that any true hypothesis has a
// corrected p-value of x or less is at most x.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	corrected, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = max(most, min(1, p[i]*float64(len(p)-rank)))
		corrected[i] = most
	}
	return corrected
}
