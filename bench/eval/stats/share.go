package stats

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/internal/stat"
)

// Wilson returns the interval of Wilson (JASA 1927) for a share of k in n, 0 ≤ k ≤ n. For n = 0 it is 0 to 1.
func Wilson(k, n int) Interval {
	if n == 0 {
		return Interval{math.NaN(), 0, 1}
	}
	const z = 1.959963984540054 // a standard normal value is within ±z with the probability Confidence
	p, m := float64(k)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	i := Interval{p, middle - half, middle + half}
	if k == 0 {
		i.Low = 0 // exactly, without rounding
	}
	if k == n {
		i.High = 1
	}
	return i
}

// McNemar returns the exact two-sided p-value (McNemar, Psychometrika 1947) of the hypothesis that two runs are equally
// often right. first and second are the numbers of questions that only the first or only the second run has right. The
// p-value is twice the probability that among first+second coin tosses at most the smaller number is heads, at most 1.
func McNemar(first, second int) float64 {
	n := first + second
	if n == 0 {
		return 1
	}
	return min(1, 2*stat.BinomialCDF(n, 0.5, min(first, second)))
}
