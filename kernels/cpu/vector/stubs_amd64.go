//go:build !noasm

package vector

// Functions in assembly. Their plain Go twins have the formulas.

//go:noescape
func expAVX2(dst, x []float32, bias float32)

//go:noescape
func swiGLUAVX2(dst, gate, up []float32)

//go:noescape
func swiGLUAVX512(dst, gate, up []float32)

//go:noescape
func rmsNormAVX2(dst, x, g []float32, eps float32)

//go:noescape
func ropeAVX2(x, cos, sin []float32)

//go:noescape
func toF16AVX2(dst []uint16, src []float32)

//go:noescape
func fromF16AVX2(dst []float32, src []uint16)

//go:noescape
func gateAVX2(dst, x, gate []float32)

//go:noescape
func scaleAVX2(dst, x []float32, a float32)

//go:noescape
func productSumAVX2(dst, a, b []float32, strideA, strideB, n int)

//go:noescape
func softmaxAVX2(x []float32) (top, sum float32)

//go:noescape
func softmaxAVX512(x []float32) (top, sum float32)

//go:noescape
func sumExpAVX2(x []float32, top float32) (sum, sumX float64)

//go:noescape
func sumExpAVX512(x []float32, top float32) (sum, sumX float64)

//go:noescape
func aboveAVX2(x []float32, bar float32) int

//go:noescape
func scoresF16AVX2(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func scoresF16AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func scoresF32AVX2(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func scoresF32AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func mixF16AVX2(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func mixF16AVX512(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func mixF32AVX2(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func mixF32AVX512(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func pairScoresF16AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func pairMixF16AVX512(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func pairMixF32AVX512(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func pairMixF32AVX2(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func axpyF32AVX2(acc, p []float32, v []byte, stride int)
