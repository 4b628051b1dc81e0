//go:build !noasm

package cpu

// Leaves in float_amd64.s, grid_avx2_amd64.s, grid_avx512_amd64.s, exp_amd64.s and round_amd64.s; the formulas stand with their twins in generic.go and exp.go.

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
func fromF16AVX2(dst []float32, src []byte)

//go:noescape
func fromBF16AVX2(dst []float32, src []byte)

//go:noescape
func toF16AVX2(dst []uint16, src []float32)

//go:noescape
func axpyF32AVX2(acc, p []float32, v []byte, stride int)

//go:noescape
func axpyF16AVX2(acc, p []float32, v []byte, stride int)

//go:noescape
func roundAVX2(q []int8, d, s []float32, h []int16, x []float32)

//go:noescape
func expAVX2(dst, x []float32, bias float32)

//go:noescape
func swiGLUAVX2(dst, gate, up []float32)

//go:noescape
func sumExpAVX2(x []float32, top float32) (sum, sumX float64)

//go:noescape
func readAVX2(p []byte) uint64
