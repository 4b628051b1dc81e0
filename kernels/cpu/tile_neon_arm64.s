//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"
#include "tile_arm64.h"

// The panel of plain NEON: a register has sixteen columns of one weight row. A pair of tokens takes 60 operations for
// 256 products, as many as the products of Q8_0 row by row; what the other types save is unpacking.

#define LOAD_Q2 \
	FLDPQ.P 32(R6), (F0, F1); \
	FLDPQ.P 32(R7), (F2, F3)

#define FIRST 16
#define SECOND 18
#define FREE 12
#define FREE6 12

// p = products of sixteen columns; |weight| ≤ 128 and |activation| ≤ 127, so two fit in 16 bits.
#define HALF(q, w, p) \
	SMULL(q, w, p); \
	SMLAL2(q, w, p); \
	SADDLP(p, p)
#define WHOLE(q, w, p) \
	HALF(q, w, p); \
	SMULL(q+1, w+4, 30); \
	SMLAL2(q+1, w+4, 30); \
	SADALP(30, p)

// P = those of four weight rows from w on.
#define FOUR(SUM, q, w, P) \
	SUM(q, w, 4); \
	SUM(q, w+1, 5); \
	SUM(q, w+2, 6); \
	SUM(q, w+3, 7); \
	VADDP V5.S4, V4.S4, V4.S4; \
	VADDP V7.S4, V6.S4, V6.S4; \
	VADDP V6.S4, V4.S4, P.S4
#define DOT2 \
	FOUR(WHOLE, 0, 8, V16); \
	FOUR(WHOLE, 2, 8, V17)
#define HALVES2 \
	FOUR(HALF, 0, 8, V16); \
	FOUR(HALF, 2, 8, V17); \
	FOUR(HALF, 1, 12, V18); \
	FOUR(HALF, 3, 12, V19)

TEXT ·tile32NEON(SB), NOSPLIT, $16-8
	TILE_ARGS
	PAIRS(PAIR(GROUP32), 2)

TEXT ·tileKNEON(SB), NOSPLIT, $16-8
	TILE_ARGS
	PAIRS(PAIRK, 3)

TEXT ·tile6NEON(SB), NOSPLIT, $16-8
	TILE_ARGS
	PAIRS(PAIR(GROUP6), 3)

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
