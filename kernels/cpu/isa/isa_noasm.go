//go:build noasm || (!amd64 && !arm64)

package isa

// All returns the instruction sets that this architecture and build know: plain Go.
func All() []string { return []string{Generic} }

// Offered is [All].
func Offered() []string { return All() }
