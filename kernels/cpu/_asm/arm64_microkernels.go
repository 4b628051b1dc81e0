package main

import "slices"

// arm64 is the microkernels of arm64.
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
		ofEachType("gemv", "NEON", floatType.armGEMV), ofEachType("gemm", "NEON", floatType.armGEMM),
	)},
}

var armFormats = []Format{q8_0{}, q4_0{}, q5_0{}, q4_K{}, q5_K{}, q6_K{}}

// armGEMVs are a GEMV for each format.
func armGEMVs(set armSet) (all []microkernel) {
	for _, f := range armFormats {
		all = append(all, q("gemv"+f.Block().Name+set.Name(), onArm(set, armGEMV), f, "gemmArgs", "gemv", ""))
	}
	return all
}

// armPacks pack each format.
func armPacks(set armSet) (all []microkernel) {
	for _, f := range armFormats {
		all = append(all, q("pack"+f.Block().Name+set.Packs(), onArm(set, armPack), f, "packArgs", "pack", ""))
	}
	return all
}

// armTiles are the tiles for panels of blocks of 32, of 256 with minima and of 256 with scales of half blocks.
func armTiles(set armSet) []microkernel {
	write := onArm(set, writeArmTile)
	return []microkernel{
		t("tile32"+set.Name(), write, Scheme{}, "tile", q8_0{}, q4_0{}, q5_0{}),
		t("tileK"+set.Name(), write, Scheme{Minima: true}, "tile", q4_K{}, q5_K{}),
		t("tile6"+set.Name(), write, Scheme{Halves: true}, "tile", q6_K{}),
	}
}

// onArm writes a microkernel of arm64.
func onArm(set armSet, write func(a *arm)) func(*Kernel) {
	return func(k *Kernel) {
		a := &arm{Kernel: k, set: set}
		a.format, _ = k.Format.(armFormat)
		write(a)
	}
}
