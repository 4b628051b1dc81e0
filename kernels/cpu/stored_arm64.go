//go:build !noasm

package cpu

// Microkernels for weights as they are stored; the formulas stand with their twins gemvGeneric and roundGeneric.

// gemv_neon_arm64.s

func gemvQ8_0NEON(a *gemmArgs)
func gemvQ4_0NEON(a *gemmArgs)
func gemvQ5_0NEON(a *gemmArgs)
func gemvQ4_KNEON(a *gemmArgs)
func gemvQ5_KNEON(a *gemmArgs)
func gemvQ6_KNEON(a *gemmArgs)

// gemv_sdot_arm64.s

func gemvQ8_0SDOT(a *gemmArgs)
func gemvQ4_0SDOT(a *gemmArgs)
func gemvQ5_0SDOT(a *gemmArgs)
func gemvQ4_KSDOT(a *gemmArgs)
func gemvQ5_KSDOT(a *gemmArgs)
func gemvQ6_KSDOT(a *gemmArgs)

// round_arm64.s

func roundNEON(a *actsArgs)
