//go:build !noasm

package cpu

// Microkernels for float weights; the formulas stand with their twins in generic_float.go.

// gemv_float_arm64.s

func gemvF32NEON(a *floatArgs)
func gemvF16NEON(a *floatArgs)
func gemvBF16NEON(a *floatArgs)
func gemmF32NEON(a *floatArgs)
func gemmF16NEON(a *floatArgs)
func gemmBF16NEON(a *floatArgs)
