//go:build !noasm

package cpu

// Microkernels for packed weights; the formulas stand with their twins packGeneric, tileGeneric and
// horizontalSumGeneric. The sums are those of gemv, in the same order: the two return the same bits.

// tile_avx2_amd64.s

func tileQ8_0AVX2(a *tileArgs)
func tileQ4_0AVX2(a *tileArgs)
func tileQ5_0AVX2(a *tileArgs)
func tileQ4_KAVX2(a *tileArgs)
func tileQ5_KAVX2(a *tileArgs)
func tileQ6_KAVX2(a *tileArgs)
func epilogueAVX2(a *sumArgs)
func horizontalSumAVX2(a *sumArgs)

// tile_avxvnni_amd64.s

func tile32AVXVNNI(a *tileArgs)
func tileKAVXVNNI(a *tileArgs)
func tile6AVXVNNI(a *tileArgs)

// tile_vnni_amd64.s

func tile32VNNI(a *tileArgs)
func tileKVNNI(a *tileArgs)
func tile6VNNI(a *tileArgs)
func tile32x2VNNI(a *tileArgs)
func tileKx2VNNI(a *tileArgs)
func tile6x2VNNI(a *tileArgs)
func epilogueAVX512(a *sumArgs)

// pack_avx2_amd64.s

func packQ8_0AVX2(a *packArgs)
func packQ4_0AVX2(a *packArgs)
func packQ5_0AVX2(a *packArgs)
func packQ4_KAVX2(a *packArgs)
func packQ5_KAVX2(a *packArgs)
func packQ6_KAVX2(a *packArgs)

// pack_vnni_amd64.s

func packQ8_0VNNI(a *packArgs)
func packQ4_0VNNI(a *packArgs)
func packQ5_0VNNI(a *packArgs)
func packQ4_KVNNI(a *packArgs)
func packQ5_KVNNI(a *packArgs)
func packQ6_KVNNI(a *packArgs)
