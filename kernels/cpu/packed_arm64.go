//go:build !noasm

package cpu

// Microkernels for packed weights; the formulas stand with their twins packGeneric, tileGeneric and
// horizontalSumGeneric. The sums are those of gemv, in the same order: the two return the same bits.

// tile_neon_arm64.s

func tile32NEON(a *tileArgs)
func tileKNEON(a *tileArgs)
func tile6NEON(a *tileArgs)
func horizontalSumNEON(a *sumArgs)

// tile_sdot_arm64.s

func tile32SDOT(a *tileArgs)
func tileKSDOT(a *tileArgs)
func tile6SDOT(a *tileArgs)

// tile_smmla_arm64.s

func tile32SMMLA(a *tileArgs)
func tileKSMMLA(a *tileArgs)
func tile6SMMLA(a *tileArgs)

// pack_arm64.s

func packQ8_0By4(a *packArgs)
func packQ8_0By8(a *packArgs)
func packQ8_0By16(a *packArgs)
func packQ4_0By4(a *packArgs)
func packQ4_0By8(a *packArgs)
func packQ4_0By16(a *packArgs)
func packQ5_0By4(a *packArgs)
func packQ5_0By8(a *packArgs)
func packQ5_0By16(a *packArgs)
func packQ4_KBy4(a *packArgs)
func packQ4_KBy8(a *packArgs)
func packQ4_KBy16(a *packArgs)
func packQ5_KBy4(a *packArgs)
func packQ5_KBy8(a *packArgs)
func packQ5_KBy16(a *packArgs)
func packQ6_KBy4(a *packArgs)
func packQ6_KBy8(a *packArgs)
func packQ6_KBy16(a *packArgs)
