// Package reuse reuses memory that is large enough.
package reuse

// Slice returns s with length n, in new memory if its capacity is too small. Its content is undefined.
func Slice[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
