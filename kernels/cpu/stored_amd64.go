//go:build !noasm

package cpu

// What microkernels for weights as they are stored need beside those that are generated (microkernels_gen_amd64.go):
// interleaveVNNI is in epilogue_amd64.s, roundAVX2 in round_amd64.s.

func interleaveVNNI(a *actsArgs)
func roundAVX2(a *actsArgs)
