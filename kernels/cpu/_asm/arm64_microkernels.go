package main

import "slices"

// arm64 lists the microkernels of arm64.
var arm64 = []file{
	{"quantised_neon", nil, "quantisedNEON", slices.Concat(armGEMVs(neon{}), armPacks(neon{}), armTiles(neon{}),
		[]microkernel{
			{name: "roundNEON", write: onArm(neon{}, armRound), args: "actsArgs", fields: []string{"round"}},
			{
				name: "horizontalSumNEON", write: onArm(neon{}, armHorizontalSum), args: "sumArgs",
				fields: []string{"horizontalSum"},
			},
		},
	)},
	{"quantised_sdot", nil, "quantisedSDOT", slices.Concat(armGEMVs(sdot{}), armPacks(sdot{}), armTiles(sdot{}))},
	{"quantised_smmla", nil, "quantisedSMMLA", slices.Concat(armPacks(smmla{}), armTiles(smmla{}))},
	{"float_neon", nil, "floatNEON", slices.Concat(
		forEachType("gemv", "NEON", floatType.armGEMV), forEachType("gemm", "NEON", floatType.armGEMM),
	)},
}

var armFormats = []Format{q8_0{}, q4_0{}, q5_0{}, q4_K{}, q5_K{}, q6_K{}}

func armGEMVs(set armSet) []microkernel {
	return shape{"gemv", "gemmArgs", "gemv", "", onArm(set, armGEMV)}.forFormats(set.Name(), armFormats...)
}

func armPacks(set armSet) []microkernel {
	return shape{"pack", "packArgs", "pack", "", onArm(set, armPack)}.forFormats(set.Packs(), armFormats...)
}

func armTiles(set armSet) []microkernel {
	write := onArm(set, writeArmTile)
	return tilesOf(set.Name(), "tile", write, write, write)
}

func onArm(set armSet, write func(a *arm)) func(*Kernel) {
	return func(k *Kernel) {
		a := &arm{Kernel: k, set: set}
		a.format, _ = k.Format.(armFormat)
		write(a)
	}
}
