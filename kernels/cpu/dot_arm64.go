//go:build !noasm

package cpu

import "unsafe"

// Leaves in dot_neon_arm64.s and dot_sdot_arm64.s; the formulas stand with their twin rowsGeneric.

//go:noescape
func rowsQ8_0NEON(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_0NEON(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_0NEON(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_KNEON(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_KNEON(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ6_KNEON(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ8_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ4_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ5_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

//go:noescape
func rowsQ6_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)

// Leaves in float_arm64.s; their twins stand in generic.go.

//go:noescape
func rowsF32NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func rowsF16NEON(dst []float32, w []byte, stride int, x []float32)

//go:noescape
func rowsBF16NEON(dst []float32, w []byte, stride int, x []float32)

// fourF32NEON takes the rows of x for those of a weight: a product does not care.
func fourF32NEON(dst *[4]float32, w []byte, x []float32) {
	rowsF32NEON(dst[:], bytesOf(x), len(w), unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(w))), len(w)/4))
}

//go:noescape
func gridF32NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridF16NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func gridBF16NEON(dst *[16]float32, w []byte, x []float32)

//go:noescape
func fromF16NEON(dst []float32, src []byte)

//go:noescape
func fromBF16NEON(dst []float32, src []byte)

//go:noescape
func readNEON(p []byte) uint64

// Leaves in exp_arm64.s and round_arm64.s; their twins stand in exp.go and generic.go.

//go:noescape
func roundNEON(q []int8, d, s []float32, h []int16, x []float32)

//go:noescape
func peakBytesNEON(n int) uint64

//go:noescape
func peakBytesSDOT(n int) uint64

//go:noescape
func peakBytesSMMLA(n int) uint64

//go:noescape
func peakFloatsNEON(n int) uint64
