// Package prefix compares texts by what they begin with.
package prefix

// Len is how many tokens a and b begin with alike.
func Len(a, b []int32) int {
	most := min(len(a), len(b))
	for i := range most {
		if a[i] != b[i] {
			return i
		}
	}
	return most
}
