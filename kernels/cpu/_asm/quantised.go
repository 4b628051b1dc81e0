package main

import "strings"

func newAVX2() Set    { return new(avx2) }
func newAVXVNNI() Set { return new(avxvnni) }
func newVNNI() Set    { return new(vnni) }

// q is a microkernel for weights in a format; offset is what the integers that it multiplies are too large by.
func q(name string, write func(*Kernel), f func() Format, offset int, s signature, field, numbers string) microkernel {
	format := f().Block().Name
	field += "[" + strings.ToLower(format[:1]) + format[1:] + "]"
	return microkernel{
		name: name, signature: s, fields: []string{field}, numbers: numbers,
		write: func(k *Kernel) {
			k.Format, k.Offset = f(), offset
			write(k)
		},
	}
}

func newQ4_K() Format { return new(q4_K) }
func newQ5_K() Format { return new(q5_K) }
func newQ4_0() Format { return new(q4_0) }

// quantised is the microkernels for quantised weights.
var quantised = []file{
	{"q4_0_avx2", newAVX2, "quantisedAVX2", []microkernel{
		q("gemvQ4_0AVX2", gemv, newQ4_0, 8, gemvSignature, "gemv", ""),
		q("gemv8Q4_0AVX2", gemv8, newQ4_0, 8, gemmSignature, "smallGEMMs", "8, 1, 1"),
		q("gemm8Q4_0AVX2", gemm8, newQ4_0, 8, gemmSignature, "smallGEMMs", "8, 2, 16"),
		q("packQ4_0AVX2", pack, newQ4_0, 0, packSignature, "pack", ""),
		q("tileQ4_0AVX2", tileOf(1, 2), newQ4_0, 8, tileSignature, "tile", ""),
	}},
	{"q4_0_vnni", newVNNI, "quantisedVNNI", []microkernel{
		q("gemm4Q4_0VNNI", gemm4, newQ4_0, 8, gemmSignature, "smallGEMMs", "4, 1, 8"),
		q("packQ4_0VNNI", pack, newQ4_0, 0, packSignature, "pack", ""),
		q("tile32VNNI", tileOf(1, 1), newQ4_0, 128, tileSignature, "tile", ""),
		q("tile32x2VNNI", tileOf(2, 2), newQ4_0, 128, tileSignature, "twoPanels", ""),
	}},
	{"q4_k_avx2", newAVX2, "quantisedAVX2", []microkernel{
		q("gemvQ4_KAVX2", gemv, newQ4_K, 0, gemvSignature, "gemv", ""),
		q("gemm8Q4_KAVX2", gemm8, newQ4_K, 0, gemmSignature, "smallGEMMs", "8, 2, 16"),
		q("packQ4_KAVX2", pack, newQ4_K, 0, packSignature, "pack", ""),
		q("tileQ4_KAVX2", tileOf(1, 2), newQ4_K, 0, tileSignature, "tile", ""),
	}},
	{"q4_k_vnni", newVNNI, "quantisedVNNI", []microkernel{
		q("gemm4Q4_KVNNI", gemm4, newQ4_K, 0, gemmSignature, "smallGEMMs", "4, 1, 8"),
		q("packQ4_KVNNI", pack, newQ4_K, 0, packSignature, "pack", ""),
		q("tileKVNNI", tileOf(1, 1), newQ4_K, 0, tileSignature, "tile", ""),
		q("tileKx2VNNI", tileOf(2, 2), newQ4_K, 0, tileSignature, "twoPanels", ""),
	}},
	{"q5_k_avx2", newAVX2, "quantisedAVX2", []microkernel{
		q("gemvQ5_KAVX2", gemv, newQ5_K, 0, gemvSignature, "gemv", ""),
		q("gemm8Q5_KAVX2", gemm8, newQ5_K, 0, gemmSignature, "smallGEMMs", "8, 2, 16"),
		q("packQ5_KAVX2", pack, newQ5_K, 0, packSignature, "pack", ""),
		q("tileQ5_KAVX2", tileOf(1, 2), newQ5_K, 0, tileSignature, "tile", ""),
	}},
	{"q5_k_vnni", newVNNI, "quantisedVNNI", []microkernel{
		q("gemm4Q5_KVNNI", gemm4, newQ5_K, 0, gemmSignature, "smallGEMMs", "4, 1, 8"),
		q("packQ5_KVNNI", pack, newQ5_K, 0, packSignature, "pack", ""),
	}},
	{"q4_0_avxvnni", newAVXVNNI, "quantisedAVXVNNI", []microkernel{
		q("gemv8Q4_0AVXVNNI", gemv8, newQ4_0, 8, gemmSignature, "smallGEMMs", "8, 1, 1"),
		q("gemm8Q4_0AVXVNNI", gemm8, newQ4_0, 8, gemmSignature, "smallGEMMs", "8, 2, 16"),
		q("tile32AVXVNNI", tileOf(1, 2), newQ4_0, 128, tileSignature, "tile", ""),
	}},
	{"q5_k_avxvnni", newAVXVNNI, "quantisedAVXVNNI", []microkernel{
		q("gemm8Q5_KAVXVNNI", gemm8, newQ5_K, 0, gemmSignature, "smallGEMMs", "8, 2, 16"),
		q("tileKAVXVNNI", tileOf(1, 2), newQ5_K, 0, tileSignature, "tile", ""),
	}},
}
