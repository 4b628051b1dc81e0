//go:build !noasm

package cpu

// Microkernels for weights as they are stored. gemv…: one token, one output after the other, in gemv_avx2_amd64.s,
// gemv_avxvnni_amd64.s and gemv_vnni_amd64.s. gemv8…: one token, eight outputs at a time, in gemv8_…. gemm8…: up to
// sixteen tokens, eight outputs, in gemm8_…. gemm4…: up to eight tokens, four outputs, in gemm4_… and gemm4k_…. The
// formulas stand with their twin gemvGeneric. All return the same bits: the integers are equal and the float32
// operations too.

//go:noescape
func interleaveVNNI(to, q []int8, from int)

//go:noescape
func roundAVX2(q []int8, d, s []float32, h []int16, x []float32)
