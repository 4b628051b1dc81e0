// Package prefix compares the beginnings of texts.
package prefix

// Len returns the length of the longest common prefix of a and b in tokens.
func Len(a, b []int32) int {
	most := min(len(a), len(b))
	for i := range most {
		if a[i] != b[i] {
			return i
		}
	}
	return most
}
