//go:build noasm || (!amd64 && !arm64)

package isa

// All returns the instruction sets of this architecture and build: plain Go.
func All() []string { return []string{Generic} }

// Offered returns the same as [All].
func Offered() []string { return All() }
