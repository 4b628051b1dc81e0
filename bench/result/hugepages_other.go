//go:build !linux

package result

// hugePages: only Linux tells.
func hugePages() string { return "" }
