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
func roundAVX2(q []int8, d, s []float32, h []int16, x []float32)

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
