//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"

// func horizontalSumNEON(a *sumArgs)
// R0 dst, R1 elements left, R2 acc, R3 a lane in bytes, R4-R6 the other lanes; R7-R10 the last four of eight lanes.
TEXT ·horizontalSumNEON(SB), NOSPLIT, $0-8
	MOVD a+0(FP), R3
	MOVD sumArgs_dst(R3), R0
	MOVD sumArgs_n(R3), R1
	MOVD sumArgs_acc(R3), R2
	MOVD sumArgs_accumulators(R3), R11
	LSL  $2, R1, R3
	ADD  R3, R2, R4
	ADD  R3, R4, R5
	ADD  R3, R5, R6
	ADD  R3, R6, R7
	ADD  R3, R7, R8
	ADD  R3, R8, R9
	ADD  R3, R9, R10
next:
	FMOVQ.P 16(R2), F0
	FMOVQ.P 16(R4), F1
	FMOVQ.P 16(R5), F2
	FMOVQ.P 16(R6), F3
	CMP  $4, R11
	BEQ  four
	FMOVQ.P 16(R7), F4
	FMOVQ.P 16(R8), F5
	FMOVQ.P 16(R9), F6
	FMOVQ.P 16(R10), F7
	FADD(4, 0, 0)
	FADD(5, 1, 1)
	FADD(6, 2, 2)
	FADD(7, 3, 3)
four:
	FADD(2, 0, 0)
	FADD(3, 1, 1)
	FADD(1, 0, 0)
	FMOVQ.P F0, 16(R0)
	SUBS $4, R1
	BNE  next
	RET
