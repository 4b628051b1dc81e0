//go:build !noasm

package cpu

// What microkernels for weights as they are stored need beside those that are generated (microkernels_gen_amd64.go):
// interleaveVNNI is in epilogue_amd64.s, roundAVX2 in round_amd64.s.

//go:noescape
func interleaveVNNI(to, q []int8, from int)

//go:noescape
func roundAVX2(q []int8, d, s []float32, h []int16, x []float32)
