package terms

// CommonPrefix returns the length of the longest common prefix of a and b in tokens.
func CommonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
