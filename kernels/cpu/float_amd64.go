//go:build !noasm

package cpu

// Microkernels for float weights; the formulas stand with their twins in generic_float.go.

// gemv_float_amd64.s

func gemvF32AVX2(a *floatArgs)
func gemvF16AVX2(a *floatArgs)
func gemvBF16AVX2(a *floatArgs)
func gemm1F32AVX2(a *floatArgs)
func fromF16AVX2(a *floatArgs)
func fromBF16AVX2(a *floatArgs)

// gemm_float_avx2_amd64.s

func gemmF32AVX2(a *floatArgs)
func gemmF16AVX2(a *floatArgs)
func gemmBF16AVX2(a *floatArgs)
func gemm8F32AVX2(a *floatArgs)
func gemm8F16AVX2(a *floatArgs)
func gemm8BF16AVX2(a *floatArgs)

// gemm_float_avx512_amd64.s

func gemmF32AVX512(a *floatArgs)
func gemmF16AVX512(a *floatArgs)
func gemmBF16AVX512(a *floatArgs)
func gemm8F32AVX512(a *floatArgs)
func gemm8F16AVX512(a *floatArgs)
func gemm8BF16AVX512(a *floatArgs)
