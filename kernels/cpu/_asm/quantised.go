package main

import (
	"slices"
	"strings"
)

// shape is a shape of microkernel for weights in a format.
type shape struct {
	name    string
	args    string // the Go struct of its arguments
	field   string // of the table
	numbers string // of a smallGEMM: outputs at a time, least and most tokens
	write   func(*Kernel)
}

var (
	gemvs       = shape{"gemv", "gemmArgs", "gemv", "", writeGEMV}
	gemv8s      = shape{"gemv8", "gemmArgs", "smallGEMMs", "8, 1, 1", writeGEMV8}
	gemm8s      = shape{"gemm8", "gemmArgs", "smallGEMMs", "8, 2, 16", writeGEMM8}
	gemm8sFrom1 = shape{"gemm8", "gemmArgs", "smallGEMMs", "8, 1, 16", writeGEMM8}
	gemm4s      = shape{"gemm4", "gemmArgs", "smallGEMMs", "4, 1, 8", writeGEMM4}
	gemm4sFrom2 = shape{"gemm4", "gemmArgs", "smallGEMMs", "4, 2, 8", writeGEMM4}
	packs       = shape{"pack", "packArgs", "pack", "", writePack}
	tiles       = shape{"tile", "tileArgs", "tile", "", tileOf(1, 2)}
)

func (s shape) forFormats(set string, formats ...Format) (all []microkernel) {
	for _, f := range formats {
		all = append(all, microkernel{
			name: s.name + f.Block().Name + set, args: s.args,
			fields: []string{s.field + tableIndex(f)}, numbers: s.numbers,
			write: func(k *Kernel) {
				k.Format, k.Scheme = f, f.Block().Scheme
				s.write(k)
			},
		})
	}
	return all
}

// tilesOf returns the tiles for panels of all formats. The formats have three schemes of integers.
func tilesOf(set, field string, tile32, tileK, tile6 func(*Kernel)) (all []microkernel) {
	for _, of := range []struct {
		name    string
		write   func(*Kernel)
		scheme  Scheme
		formats []Format
	}{
		{"tile32", tile32, Scheme{Bits: 8, Offset: 128}, []Format{q8_0{}, q4_0{}, q5_0{}}},
		{"tileK", tileK, Scheme{Bits: 5, Minima: true}, []Format{q4_K{}, q5_K{}}},
		{"tile6", tile6, Scheme{Bits: 8, Offset: 128, Halves: true}, []Format{q6_K{}}},
	} {
		m := microkernel{name: of.name + set, args: tiles.args, write: func(k *Kernel) {
			k.Scheme = of.scheme
			of.write(k)
		}}
		for _, f := range of.formats {
			m.fields = append(m.fields, field+tableIndex(f))
		}
		all = append(all, m)
	}
	return all
}

func tableIndex(f Format) string {
	name := f.Block().Name
	return "[" + strings.ToLower(name[:1]) + name[1:] + "]"
}

// withAVX2 returns the file of a format for AVX2; products are those of weights as they are stored.
func withAVX2(f Format, products ...shape) file {
	var all []microkernel
	for _, s := range append(products, packs, tiles) {
		all = append(all, s.forFormats("AVX2", f)...)
	}
	return file{strings.ToLower(f.Block().Name) + "_avx2", avx2{}, "quantisedAVX2", all}
}

// quantised lists the microkernels for quantised weights.
var quantised = []file{
	withAVX2(q8_0{}, gemvs, gemm8s),
	withAVX2(q4_0{}, gemvs, gemv8s, gemm8s),
	withAVX2(q5_0{}, gemvs, gemm8sFrom1),
	withAVX2(q4_K{}, gemvs, gemm8s),
	withAVX2(q5_K{}, gemvs, gemm8s),
	withAVX2(q6_K{}, gemvs, gemm8s),
	{"every_format_avx2", avx2{}, "quantisedAVX2", []microkernel{
		{name: "roundAVX2", args: "actsArgs", fields: []string{"round"}, write: writeRound},
		{name: "epilogueAVX2", args: "sumArgs", fields: []string{"epilogue"}, write: writeEpilogue},
	}},
	{"every_format_avx512", vnni{}, "quantisedVNNI", []microkernel{
		{name: "epilogueAVX512", args: "sumArgs", fields: []string{"epilogue"}, write: writeEpilogue},
	}},
	{"quantised_avxvnni", avxvnni{}, "quantisedAVXVNNI", slices.Concat(
		gemvs.forFormats("AVXVNNI", q8_0{}),
		gemv8s.forFormats("AVXVNNI", q4_0{}, q4_K{}),
		gemm8s.forFormats("AVXVNNI", q8_0{}, q4_0{}),
		gemm8sFrom1.forFormats("AVXVNNI", q5_0{}),
		gemm8s.forFormats("AVXVNNI", q4_K{}, q5_K{}, q6_K{}),
		tilesOf("AVXVNNI", "tile", tileOf(1, 4), tileOf(1, 4), tileOf(1, 2)),
	)},
	{"q8_0_vnni256", vnni256{}, "quantisedVNNI", gemvs.forFormats("VNNI", q8_0{})},
	{"quantised_vnni", vnni{}, "quantisedVNNI", slices.Concat(
		gemm4sFrom2.forFormats("VNNI", q8_0{}),
		gemm4s.forFormats("VNNI", q4_0{}, q5_0{}, q4_K{}, q5_K{}, q6_K{}),
		packs.forFormats("VNNI", q8_0{}, q4_0{}, q5_0{}, q4_K{}, q5_K{}, q6_K{}),
		tilesOf("VNNI", "tile", tileOf(1, 4), tileOf(1, 4), tileOf(1, 4)),
		tilesOf("x2VNNI", "twoPanels", tileOf(2, 4), tileOf(2, 4), tileOf(2, 4)),
	)},
	{"quantised_amx", vnni{}, "quantisedAMX", tilesOf("AMX", "tile", tileAMX(4), tileAMX(8), tileAMX(8))},
}
