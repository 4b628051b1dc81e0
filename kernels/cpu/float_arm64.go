//go:build !noasm

package cpu

// Microkernels in gemv_float_arm64.s; the formulas stand with their twins in generic_float.go.

//go:noescape
func gemvF32NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemvF16NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemvBF16NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemmF32NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmF16NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmBF16NEON(dst *[16]float32, w []byte, x []float32)
