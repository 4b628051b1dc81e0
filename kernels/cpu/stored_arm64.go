//go:build !noasm

package cpu

// What generated microkernels (microkernels_gen_arm64.go) need beside them: roundNEON is in round_arm64.s,
// horizontalSumNEON in epilogue_arm64.s. The formulas stand with their twins in generic.go and generic_packed.go.

func roundNEON(a *actsArgs)
func horizontalSumNEON(a *sumArgs)
