//go:build !noasm

package cpu

// Leaves in float_amd64.s, attend_avx2_amd64.s, attend_avx512_amd64.s, grid_avx2_amd64.s, grid_avx512_amd64.s, exp_amd64.s, exp_avx512_amd64.s, peak_amd64.s and
// round_amd64.s; the formulas stand with their twins in generic.go, attend.go and exp.go.

//go:noescape
func rowsF32AVX2(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func rowsF16AVX2(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func rowsBF16AVX2(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func fourF32AVX2(dst *[4]float32, w []byte, x []float32)

//go:noescape
func gridF32AVX2(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridF16AVX2(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridBF16AVX2(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridF32AVX512(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridF16AVX512(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridBF16AVX512(dst *[16]float32, w []byte, x []float32)

//go:noescape
func grid8F32AVX2(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

//go:noescape
func grid8F16AVX2(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

//go:noescape
func grid8BF16AVX2(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

//go:noescape
func grid8F32AVX512(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

//go:noescape
func grid8F16AVX512(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

//go:noescape
func grid8BF16AVX512(dst []float32, stride int, w []byte, x []float32, ahead int, add bool)

//go:noescape
func fromF16AVX2(dst []float32, src []byte)

//go:noescape
func fromBF16AVX2(dst []float32, src []byte)

//go:noescape
func toF16AVX2(dst []uint16, src []float32)

//go:noescape
func axpyF32AVX2(acc, p []float32, v []byte, stride int)

//go:noescape
func scoresF16AVX2(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func scoresF32AVX2(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func mixF16AVX2(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func mixF32AVX2(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func scoresF16AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func scoresF32AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)

//go:noescape
func mixF16AVX512(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func mixF32AVX512(acc, p []float32, stride, n int, v []byte, step int)

//go:noescape
func softmaxAVX2(x []float32) (top, sum float32)

//go:noescape
func roundAVX2(q []int8, d, s []float32, h []int16, x []float32)

//go:noescape
func expAVX2(dst, x []float32, bias float32)

//go:noescape
func swiGLUAVX2(dst, gate, up []float32)

//go:noescape
func sumExpAVX2(x []float32, top float32) (sum, sumX float64)

//go:noescape
func aboveAVX2(x []float32, bar float32) int

//go:noescape
func rmsNormAVX2(dst, x, g []float32, eps float32)

//go:noescape
func ropeAVX2(x, cos, sin []float32)

//go:noescape
func readAVX2(p []byte) uint64

//go:noescape
func peakBytesAVX2(n int) uint64

//go:noescape
func peakFloatsAVX2(n int) uint64

//go:noescape
func peakBytesAVXVNNI(n int) uint64

//go:noescape
func peakBytesVNNI(n int) uint64

//go:noescape
func peakFloatsAVX512(n int) uint64

//go:noescape
func swiGLUAVX512(dst, gate, up []float32)

//go:noescape
func softmaxAVX512(x []float32) (top, sum float32)

//go:noescape
func sumExpAVX512(x []float32, top float32) (sum, sumX float64)
