//go:build !noasm

package cpu

// Microkernels in gemv_float_amd64.s, gemm_float_avx2_amd64.s and gemm_float_avx512_amd64.s; the formulas stand with
// their twins in generic_float.go.

//go:noescape
func gemvF32AVX2(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemvF16AVX2(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemvBF16AVX2(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func gemm1F32AVX2(dst *[4]float32, w []byte, x []float32)

//go:noescape
func gemmF32AVX2(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmF16AVX2(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmBF16AVX2(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmF32AVX512(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmF16AVX512(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemmBF16AVX512(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gemm8F32AVX2(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

//go:noescape
func gemm8F16AVX2(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

//go:noescape
func gemm8BF16AVX2(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

//go:noescape
func gemm8F32AVX512(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

//go:noescape
func gemm8F16AVX512(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

//go:noescape
func gemm8BF16AVX512(dst []float32, stride int, w []byte, x []float32, prefetch int, add bool)

//go:noescape
func fromF16AVX2(dst []float32, src []byte)

//go:noescape
func fromBF16AVX2(dst []float32, src []byte)
