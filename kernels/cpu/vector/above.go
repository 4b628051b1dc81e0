package vector

import "math"

// Above returns the index of the first element of x that is larger than bar, len(x) if there is none. NaN is not
// larger.
func Above(x []float32, bar float32) int {
	if len(x) == 0 {
		return 0
	}
	return inUse().above(x, bar)
}

func aboveGeneric(x []float32, bar float32) int {
	for i, v := range x {
		if v > bar {
			return i
		}
	}
	return len(x)
}

// Max returns the largest element of x, -Inf if x is empty, NaN if an element is NaN.
func Max(x []float32) float32 {
	a := float32(math.Inf(-1))
	b, c, d := a, a, a
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
	}
	for _, v := range x {
		a = max(a, v)
	}
	return max(max(a, b), max(c, d))
}
