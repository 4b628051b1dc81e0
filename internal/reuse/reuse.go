// Package reuse takes memory again that is large enough.
package reuse

// Slice returns s with length n, in new memory where its own is too small. What it holds is undefined.
func Slice[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
