//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// func ropeNEON(x, cos, sin []float32)
// R1 and R4 first and second half of a head, R8 end of x, R9 elements of a half, R5 how many are left. Without FMA: the
// bits are those of plain Go.
TEXT ·ropeNEON(SB), NOSPLIT, $0-72
	MOVD x_base+0(FP), R1
	MOVD x_len+8(FP), R8
	MOVD cos_len+32(FP), R9
	ADD  R8<<2, R1, R8
head:
	MOVD cos_base+24(FP), R2
	MOVD sin_base+48(FP), R3
	ADD  R9<<2, R1, R4
	MOVD R9, R5
four:
	VLD1 (R1), [V0.S4]
	VLD1 (R4), [V1.S4]
	VLD1.P 16(R2), [V2.S4]
	VLD1.P 16(R3), [V3.S4]
	FMUL(2, 0, 4)
	FMUL(3, 1, 5)
	FSUB(5, 4, 4)
	FMUL(2, 1, 1)
	FMUL(3, 0, 0)
	FADD(0, 1, 1)
	VST1.P [V4.S4], 16(R1)
	VST1.P [V1.S4], 16(R4)
	SUBS $4, R5
	BNE  four
	MOVD R4, R1
	CMP  R8, R1
	BLT  head
	RET
