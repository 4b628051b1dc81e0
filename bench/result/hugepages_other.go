//go:build !linux

package result

// hugePages returns "": it is only available on Linux.
func hugePages() string { return "" }
