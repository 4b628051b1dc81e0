//go:build !noasm

package isa

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/cpu"
)

// TestOfferedByFeatures: an instruction set is offered only to a CPU that has all features that its kernels use.
func TestOfferedByFeatures(t *testing.T) {
	before := cpu.X86
	defer func() { cpu.X86 = before }()
	x := &cpu.X86
	avx2 := []*bool{&x.HasAVX2, &x.HasFMA, &x.HasF16C}
	avx512 := []*bool{&x.HasAVX512F, &x.HasAVX512BW, &x.HasAVX512DQ, &x.HasAVX512VL, &x.HasAVX512VNNI}
	offered := func(without *bool, all ...[]*bool) []string {
		*x = before
		for _, f := range append(append(avx2, avx512...), &x.HasAVXVNNI, &x.HasAMXTile, &x.HasAMXInt8) {
			*f = false
		}
		for _, some := range all {
			for _, f := range some {
				*f = f != without
			}
		}
		return Offered()
	}
	vnni, amx := []*bool{&x.HasAVXVNNI}, []*bool{&x.HasAMXTile, &x.HasAMXInt8}
	assert.Equal(t, []string{Generic}, offered(nil))
	assert.Equal(t, []string{Generic, AVX2}, offered(nil, avx2))
	assert.Equal(t, []string{Generic, AVX2, AVXVNNI}, offered(nil, avx2, vnni))
	assert.Equal(t, []string{Generic, AVX2, AVX512VNNI}, offered(nil, avx2, avx512))
	assert.Equal(t, []string{Generic, AVX2, AVXVNNI, AVX512VNNI}, offered(nil, avx2, vnni, avx512))
	for _, f := range avx2 {
		assert.Equal(t, []string{Generic}, offered(f, avx2, vnni, avx512, amx))
	}
	for _, f := range avx512 {
		assert.Equal(t, []string{Generic, AVX2, AVXVNNI}, offered(f, avx2, vnni, avx512, amx))
	}
	for _, f := range amx { // with both, the system decides
		assert.Equal(t, []string{Generic, AVX2, AVX512VNNI}, offered(f, avx2, avx512, amx))
	}
}
