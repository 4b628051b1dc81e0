//go:build !noasm

#include "textflag.h"
#include "pack_arm64.h"

// interleave(dst, src []uint32, stride, cols int): four words of four rows at a time.
// R0 dst, R1 src of four rows, R2 a row of src in bytes, R3 groups of four rows left; of a group R4-R7 src, R8 dst, R9 words left.
#define INTERLEAVE(BY) \
	MOVD dst_base+0(FP), R0; \
	MOVD src_base+24(FP), R1; \
	MOVD stride+48(FP), R2; \
	LSL  $2, R2; \
	MOVD $4, R3; \
group: \
	MOVD R1, R4; \
	ADD  R2, R4, R5; \
	ADD  R2, R5, R6; \
	ADD  R2, R6, R7; \
	ADD  R2, R7, R1; \
	MOVD R0, R8; \
	MOVD cols+56(FP), R9; \
four: \
	FMOVQ.P 16(R4), F0; \
	FMOVQ.P 16(R5), F1; \
	FMOVQ.P 16(R6), F2; \
	FMOVQ.P 16(R7), F3; \
	BY; \
	FMOVQ F4, (R8); \
	FMOVQ F5, 64(R8); \
	FMOVQ F6, 128(R8); \
	FMOVQ F7, 192(R8); \
	ADD  $256, R8; \
	SUBS $4, R9; \
	BGT  four; \
	ADD  $16, R0; \
	SUBS $1, R3; \
	BNE  group; \
	RET

// func interleaveBy4(dst, src []uint32, stride, cols int)
TEXT ·interleaveBy4(SB), NOSPLIT, $0-64
	INTERLEAVE(BY4)

// func interleaveBy8(dst, src []uint32, stride, cols int)
TEXT ·interleaveBy8(SB), NOSPLIT, $0-64
	INTERLEAVE(BY8)

// func interleaveBy16(dst, src []uint32, stride, cols int)
TEXT ·interleaveBy16(SB), NOSPLIT, $0-64
	INTERLEAVE(BY16)
