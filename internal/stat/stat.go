// Package stat has statistics that several packages need: figures of a sample, and the normal and the binomial
// distribution.
package stat

import (
	"math"
	"slices"
)

// Mean returns the mean of x; NaN for no values.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Median returns the median of x without changing x; of an even number, the mean of the two in the middle. There must
// be at least one value.
func Median(x []float64) float64 { return MedianSorted(slices.Sorted(slices.Values(x))) }

// MedianSorted is [Median] for sorted values.
func MedianSorted(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile returns the smallest of the sorted values such that a share p of all, 0 to 1, is not above it. There must be
// at least one value.
func Quantile[T any](sorted []T, p float64) T {
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}

// BinomialCDF returns the probability that at most k of n independent trials succeed, each with probability p, which is
// above 0 and below 1. It takes O(n) time.
//
// The terms of the sum are computed from each other, as shares of the largest: w(i+1)/w(i) = (n-i)/(i+1) · p/(1-p). So
// no term is too large for a float64, and none that matters is too small.
func BinomialCDF(n int, p float64, k int) float64 {
	mode, odds := min(n, int(float64(n+1)*p)), p/(1-p)
	low, high := 0.0, 0.0 // sums of the terms up to k, and of the others; separate, so that equal halves are equal
	add := func(i int, w float64) {
		if i <= k {
			low += w
		} else {
			high += w
		}
	}
	add(mode, 1)
	for i, w := mode, 1.0; i > 0 && w > 0; i-- {
		w *= float64(i) / (float64(n-i+1) * odds)
		add(i-1, w)
	}
	for i, w := mode, 1.0; i < n && w > 0; i++ {
		w *= float64(n-i) / float64(i+1) * odds
		add(i+1, w)
	}
	return low / (low + high)
}
