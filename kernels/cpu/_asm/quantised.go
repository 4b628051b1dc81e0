package main

import "strings"

// q is a microkernel for weights in a format.
func q(name string, write func(*Kernel), f Format, args string, field, numbers string) microkernel {
	return microkernel{
		name: name, args: args, fields: []string{field + index(f)}, numbers: numbers,
		write: func(k *Kernel) {
			k.Format, k.Scheme = f, f.Block().Scheme
			write(k)
		},
	}
}

// t is a tile for the panels of some formats, whose integers are of a scheme.
func t(name string, write func(*Kernel), s Scheme, field string, formats ...Format) microkernel {
	var fields []string
	for _, f := range formats {
		fields = append(fields, field+index(f))
	}
	return microkernel{
		name: name, args: "tileArgs", fields: fields,
		write: func(k *Kernel) {
			k.Scheme = s
			write(k)
		},
	}
}

// index is the format as an index of the tables.
func index(f Format) string {
	name := f.Block().Name
	return "[" + strings.ToLower(name[:1]) + name[1:] + "]"
}

var (
	bytes128  = Scheme{Bits: 8, Offset: 128}
	halves128 = Scheme{Bits: 8, Offset: 128, Halves: true}
	minima    = Scheme{Bits: 5, Minima: true}
)

// quantised is the microkernels for quantised weights.
var quantised = []file{
	{"q8_0_avx2", avx2{}, "quantisedAVX2", []microkernel{
		q("gemvQ8_0AVX2", writeGEMV, q8_0{}, "gemmArgs", "gemv", ""),
		q("gemm8Q8_0AVX2", writeGEMM8, q8_0{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("packQ8_0AVX2", pack, q8_0{}, "packArgs", "pack", ""),
		q("tileQ8_0AVX2", tileOf(1, 2), q8_0{}, "tileArgs", "tile", ""),
	}},
	{"q4_0_avx2", avx2{}, "quantisedAVX2", []microkernel{
		q("gemvQ4_0AVX2", writeGEMV, q4_0{}, "gemmArgs", "gemv", ""),
		q("gemv8Q4_0AVX2", writeGEMV8, q4_0{}, "gemmArgs", "smallGEMMs", "8, 1, 1"),
		q("gemm8Q4_0AVX2", writeGEMM8, q4_0{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("packQ4_0AVX2", pack, q4_0{}, "packArgs", "pack", ""),
		q("tileQ4_0AVX2", tileOf(1, 2), q4_0{}, "tileArgs", "tile", ""),
	}},
	{"q5_0_avx2", avx2{}, "quantisedAVX2", []microkernel{
		q("gemvQ5_0AVX2", writeGEMV, q5_0{}, "gemmArgs", "gemv", ""),
		q("gemm8Q5_0AVX2", writeGEMM8, q5_0{}, "gemmArgs", "smallGEMMs", "8, 1, 16"),
		q("packQ5_0AVX2", pack, q5_0{}, "packArgs", "pack", ""),
		q("tileQ5_0AVX2", tileOf(1, 2), q5_0{}, "tileArgs", "tile", ""),
	}},
	{"q4_k_avx2", avx2{}, "quantisedAVX2", []microkernel{
		q("gemvQ4_KAVX2", writeGEMV, q4_K{}, "gemmArgs", "gemv", ""),
		q("gemm8Q4_KAVX2", writeGEMM8, q4_K{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("packQ4_KAVX2", pack, q4_K{}, "packArgs", "pack", ""),
		q("tileQ4_KAVX2", tileOf(1, 2), q4_K{}, "tileArgs", "tile", ""),
	}},
	{"q5_k_avx2", avx2{}, "quantisedAVX2", []microkernel{
		q("gemvQ5_KAVX2", writeGEMV, q5_K{}, "gemmArgs", "gemv", ""),
		q("gemm8Q5_KAVX2", writeGEMM8, q5_K{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("packQ5_KAVX2", pack, q5_K{}, "packArgs", "pack", ""),
		q("tileQ5_KAVX2", tileOf(1, 2), q5_K{}, "tileArgs", "tile", ""),
	}},
	{"q6_k_avx2", avx2{}, "quantisedAVX2", []microkernel{
		q("gemvQ6_KAVX2", writeGEMV, q6_K{}, "gemmArgs", "gemv", ""),
		q("gemm8Q6_KAVX2", writeGEMM8, q6_K{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("packQ6_KAVX2", pack, q6_K{}, "packArgs", "pack", ""),
		q("tileQ6_KAVX2", tileOf(1, 2), q6_K{}, "tileArgs", "tile", ""),
	}},
	{"quantised_avxvnni", avxvnni{}, "quantisedAVXVNNI", []microkernel{
		q("gemvQ8_0AVXVNNI", writeGEMV, q8_0{}, "gemmArgs", "gemv", ""),
		q("gemv8Q4_0AVXVNNI", writeGEMV8, q4_0{}, "gemmArgs", "smallGEMMs", "8, 1, 1"),
		q("gemv8Q4_KAVXVNNI", writeGEMV8, q4_K{}, "gemmArgs", "smallGEMMs", "8, 1, 1"),
		q("gemm8Q8_0AVXVNNI", writeGEMM8, q8_0{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("gemm8Q4_0AVXVNNI", writeGEMM8, q4_0{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("gemm8Q5_0AVXVNNI", writeGEMM8, q5_0{}, "gemmArgs", "smallGEMMs", "8, 1, 16"),
		q("gemm8Q4_KAVXVNNI", writeGEMM8, q4_K{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("gemm8Q5_KAVXVNNI", writeGEMM8, q5_K{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		q("gemm8Q6_KAVXVNNI", writeGEMM8, q6_K{}, "gemmArgs", "smallGEMMs", "8, 2, 16"),
		t("tile32AVXVNNI", tileOf(1, 2), bytes128, "tile", q8_0{}, q4_0{}, q5_0{}),
		t("tileKAVXVNNI", tileOf(1, 2), minima, "tile", q4_K{}, q5_K{}),
		t("tile6AVXVNNI", tileOf(1, 2), halves128, "tile", q6_K{}),
	}},
	{"q8_0_vnni256", vnni256{}, "quantisedVNNI", []microkernel{
		q("gemvQ8_0VNNI", writeGEMV, q8_0{}, "gemmArgs", "gemv", ""),
	}},
	{"quantised_vnni", vnni{}, "quantisedVNNI", []microkernel{
		q("gemm4Q8_0VNNI", writeGEMM4, q8_0{}, "gemmArgs", "smallGEMMs", "4, 2, 8"),
		q("gemm4Q4_0VNNI", writeGEMM4, q4_0{}, "gemmArgs", "smallGEMMs", "4, 1, 8"),
		q("gemm4Q5_0VNNI", writeGEMM4, q5_0{}, "gemmArgs", "smallGEMMs", "4, 1, 8"),
		q("gemm4Q4_KVNNI", writeGEMM4, q4_K{}, "gemmArgs", "smallGEMMs", "4, 1, 8"),
		q("gemm4Q5_KVNNI", writeGEMM4, q5_K{}, "gemmArgs", "smallGEMMs", "4, 1, 8"),
		q("gemm4Q6_KVNNI", writeGEMM4, q6_K{}, "gemmArgs", "smallGEMMs", "4, 1, 8"),
		q("packQ8_0VNNI", pack, q8_0{}, "packArgs", "pack", ""),
		q("packQ4_0VNNI", pack, q4_0{}, "packArgs", "pack", ""),
		q("packQ5_0VNNI", pack, q5_0{}, "packArgs", "pack", ""),
		q("packQ4_KVNNI", pack, q4_K{}, "packArgs", "pack", ""),
		q("packQ5_KVNNI", pack, q5_K{}, "packArgs", "pack", ""),
		q("packQ6_KVNNI", pack, q6_K{}, "packArgs", "pack", ""),
		t("tile32VNNI", tileOf(1, 1), bytes128, "tile", q8_0{}, q4_0{}, q5_0{}),
		t("tileKVNNI", tileOf(1, 1), minima, "tile", q4_K{}, q5_K{}),
		t("tile6VNNI", tileOf(1, 1), halves128, "tile", q6_K{}),
		t("tile32x2VNNI", tileOf(2, 2), bytes128, "twoPanels", q8_0{}, q4_0{}, q5_0{}),
		t("tileKx2VNNI", tileOf(2, 2), minima, "twoPanels", q4_K{}, q5_K{}),
		t("tile6x2VNNI", tileOf(2, 1), halves128, "twoPanels", q6_K{}),
	}},
}
