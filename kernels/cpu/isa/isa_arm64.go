//go:build !noasm

package isa

import "golang.org/x/sys/cpu"

// All returns the instruction sets of this architecture and build, whether this CPU has them or not: plain Go first,
// the best last.
func All() []string { return []string{Generic, NEON, DotProd, I8MM} }

// Offered returns those of [All] that this CPU offers. Every arm64 CPU that Go runs on has NEON. x/sys detects the
// features: it supports Windows too, and needs no file of /proc, which Android hides.
func Offered() []string {
	all := []string{Generic, NEON}
	if cpu.ARM64.HasASIMDDP {
		all = append(all, DotProd)
		if cpu.ARM64.HasI8MM {
			all = append(all, I8MM)
		}
	}
	return all
}
