//go:build !noasm

package isa

import "golang.org/x/sys/cpu"

// All returns the instruction sets of this architecture and build, whether this CPU has them or not: plain Go first,
// the best last.
func All() []string { return []string{Generic, AVX2, AVXVNNI, AVX512VNNI, AMX} }

// Offered returns those of [All] that this CPU and its operating system offer.
func Offered() []string {
	all, has := []string{Generic}, &cpu.X86
	if !has.HasAVX2 || !has.HasFMA || !has.HasF16C {
		return all
	}
	all = append(all, AVX2)
	if has.HasAVXVNNI {
		all = append(all, AVXVNNI)
	}
	if has.HasAVX512F && has.HasAVX512BW && has.HasAVX512DQ && has.HasAVX512VL && has.HasAVX512VNNI {
		all = append(all, AVX512VNNI)
		if has.HasAMXTile && has.HasAMXInt8 && tilesGranted() {
			all = append(all, AMX)
		}
	}
	return all
}
