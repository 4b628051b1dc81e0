//go:build !noasm

package cpu

import "unsafe"

// Microkernels in gemv_float_arm64.s; the formulas stand with their twins in generic_float.go.

//go:noescape
func gemvF32NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemvF16NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemvBF16NEON(dst []float32, w []byte, stride int, x []float32)

// gemm1F32NEON takes the rows of x for those of a weight: a product does not care.
func gemm1F32NEON(dst *[4]float32, w []byte, x []float32) {
	gemvF32NEON(dst[:], bytesOf(x), len(w), unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(w))), len(w)/4))
}

//go:noescape
func gemmF32NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmF16NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmBF16NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func fromF16NEON(dst []float32, src []byte)

//go:noescape
func fromBF16NEON(dst []float32, src []byte)
