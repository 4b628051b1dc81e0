//go:build !noasm

package vector

// Functions in assembly. Their plain Go twins have the formulas.

//go:noescape
func expNEON(dst, x []float32, bias float32)

//go:noescape
func swiGLUNEON(dst, gate, up []float32)

//go:noescape
func rmsNormNEON(dst, x, g []float32, eps float32)

//go:noescape
func ropeNEON(x, cos, sin []float32)

//go:noescape
func toF16NEON(dst []uint16, src []float32)

//go:noescape
func fromF16NEON(dst []float32, src []uint16)

//go:noescape
func gateNEON(dst, x, gate []float32)

//go:noescape
func scaleNEON(dst, x []float32, a float32)

//go:noescape
func productSumNEON(dst, a, b []float32, strideA, strideB, n int)

//go:noescape
func sumExpNEON(x []float32, top float32) (sum, sumX float64)

//go:noescape
func aboveNEON(x []float32, bar float32) int

//go:noescape
func scoresF16NEON(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func scoresF32NEON(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func mixF16NEON(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func mixF32NEON(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func pairMixF32NEON(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func axpyF32NEON(acc, p []float32, v []byte, stride int)
