//go:build !noasm

package cpu

// Microkernels in gemv_neon_arm64.s, gemv_sdot_arm64.s and round_arm64.s; the formulas stand with their twins
// gemvGeneric and roundGeneric.

//go:noescape
func gemvQ8_0NEON(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ4_0NEON(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ5_0NEON(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ4_KNEON(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ5_KNEON(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ6_KNEON(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ8_0SDOT(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ4_0SDOT(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ5_0SDOT(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ4_KSDOT(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ5_KSDOT(dst []float32, w []byte, x activations)

//go:noescape
func gemvQ6_KSDOT(dst []float32, w []byte, x activations)

//go:noescape
func roundNEON(q []int8, d, s []float32, h []int16, x []float32)
