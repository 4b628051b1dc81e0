//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"

// The next sixteen, four or one elements of a type at R, which moves on, as float32 in V16-V19, V16 or F16; or eight,
// in A and B, of the numbers a and b. V31 is zero.
#define LOAD16_F32(R) VLD1.P 64(R), [V16.S4, V17.S4, V18.S4, V19.S4]
#define LOAD8_F32(R, A, B, a, b) VLD1.P 32(R), [A.S4, B.S4]
#define LOAD4_F32(R) VLD1.P 16(R), [V16.S4]
#define LOAD1_F32(R) FMOVS.P 4(R), F16
#define LOAD16_F16(R) \
	VLD1.P 32(R), [V24.H8, V25.H8]; \
	FCVTL(24, 16); \
	FCVTL2(24, 17); \
	FCVTL(25, 18); \
	FCVTL2(25, 19)
#define LOAD8_F16(R, A, B, a, b) \
	VLD1.P 16(R), [A.H8]; \
	FCVTL2(a, b); \
	FCVTL(a, a)
#define LOAD4_F16(R) \
	VLD1.P 8(R), [V24.H4]; \
	FCVTL(24, 16)
#define LOAD1_F16(R) \
	MOVHU.P 2(R), R9; \
	FMOVS R9, F24; \
	FCVTHS F24, F16
#define LOAD16_BF16(R) \
	VLD1.P 32(R), [V24.H8, V25.H8]; \
	VZIP1 V24.H8, V31.H8, V16.H8; \
	VZIP2 V24.H8, V31.H8, V17.H8; \
	VZIP1 V25.H8, V31.H8, V18.H8; \
	VZIP2 V25.H8, V31.H8, V19.H8
#define LOAD8_BF16(R, A, B, a, b) \
	VLD1.P 16(R), [A.H8]; \
	VZIP2 A.H8, V31.H8, B.H8; \
	VZIP1 A.H8, V31.H8, A.H8
#define LOAD4_BF16(R) \
	VLD1.P 8(R), [V24.H4]; \
	VZIP1 V24.H8, V31.H8, V16.H8
#define LOAD1_BF16(R) \
	MOVHU.P 2(R), R9; \
	LSL  $16, R9; \
	FMOVS R9, F16

// Order of the sums, in gemv and gemm: element i goes to accumulator i mod 8 of two registers, fours that are left to
// the first; then come the lanes together, and to their sum what is left.
#define LANES(a, b, A) \
	FADD(b, a, a); \
	HSUM(a, A, 16, V16)
#define LANES4(a, A, B, C, D) \
	LANES(a, a+1, A); \
	LANES(a+2, a+3, B); \
	LANES(a+4, a+5, C); \
	LANES(a+6, a+7, D)

// The next elements of a row of w, at R, times x, added to the sums a and b.
#define SIXTEEN(LOAD16, R, a, b) \
	LOAD16(R); \
	FMLA(16, 20, a); \
	FMLA(17, 21, b); \
	FMLA(18, 22, a); \
	FMLA(19, 23, b)
#define FOUR(LOAD4, R, a) \
	LOAD4(R); \
	FMLA(16, 20, a)
#define ONE(LOAD1, R, F) \
	LOAD1(R); \
	FMADDS F20, F, F16, F

// Makes the pointers to a row of w and its result from those of the one before it, the same ones if no more than i rows
// are left.
#define NEXT(i, W, D, W2, D2) \
	ADD  R3, W, W2; \
	ADD  $4, D, D2; \
	CMP  $i, R1; \
	CSEL GT, W2, W, W2; \
	CSEL GT, D2, D, D2

// gemv: four rows at a time, as one has too few sums to keep the
// units busy. If there are not four, the last one is taken again. R0 dst, R1 rows left, R2 w, R3 rowBytes, R4 x, R5
// length; in four rows R6, R10, R11, R12 w, R0, R13, R14, R15 dst, R7 x, R8 elements left; V0 and V1 sums of the first,
// and so on.
#define GEMV_ARGS \
	MOVD a+0(FP), R6; \
	MOVD floatArgs_dst(R6), R0; \
	MOVD floatArgs_rows(R6), R1; \
	MOVD floatArgs_w(R6), R2; \
	MOVD floatArgs_rowBytes(R6), R3; \
	MOVD floatArgs_x(R6), R4; \
	MOVD floatArgs_n(R6), R5
#define GEMV(LOAD16, LOAD4, LOAD1) \
	GEMV_ARGS; \
	ROWS(LOAD16, LOAD4, LOAD1)
#define ROWS(LOAD16, LOAD4, LOAD1) \
	ZERO(31); \
row: \
	MOVD R2, R6; \
	NEXT(1, R6, R0, R10, R13); \
	NEXT(2, R10, R13, R11, R14); \
	NEXT(3, R11, R14, R12, R15); \
	MOVD R4, R7; \
	ZERO8(0); \
	SUBS $16, R5, R8; \
	BLT  fours; \
sixteen: \
	VLD1.P 64(R7), [V20.S4, V21.S4, V22.S4, V23.S4]; \
	SIXTEEN(LOAD16, R6, 0, 1); \
	SIXTEEN(LOAD16, R10, 2, 3); \
	SIXTEEN(LOAD16, R11, 4, 5); \
	SIXTEEN(LOAD16, R12, 6, 7); \
	SUBS $16, R8; \
	BGE  sixteen; \
fours: \
	ADDS $12, R8; \
	BLT  sum; \
four: \
	VLD1.P 16(R7), [V20.S4]; \
	FOUR(LOAD4, R6, 0); \
	FOUR(LOAD4, R10, 2); \
	FOUR(LOAD4, R11, 4); \
	FOUR(LOAD4, R12, 6); \
	SUBS $4, R8; \
	BGE  four; \
sum: \
	LANES4(0, V0, V2, V4, V6); \
	ADDS $4, R8; \
	BEQ  store; \
one: \
	FMOVS.P 4(R7), F20; \
	ONE(LOAD1, R6, F0); \
	ONE(LOAD1, R10, F2); \
	ONE(LOAD1, R11, F4); \
	ONE(LOAD1, R12, F6); \
	SUBS $1, R8; \
	BNE  one; \
store: \
	FMOVS F0, (R0); \
	FMOVS F2, (R13); \
	FMOVS F4, (R14); \
	FMOVS F6, (R15); \
	ADD  $16, R0; \
	ADD  R3<<2, R2; \
	SUBS $4, R1; \
	BGT  row; \
	RET

// gemm: two rows of w with four of x, twice, eight columns at a time: 16
// multiply-adds for 12 loads (10 of halves), so neither bounds the other where there are four units and three loads a
// cycle. R0 dst, R2 w, R3 a row of it in bytes, R9 passes left; in a pass R6, R10 w, R1, R4, R5, R7 x, R8 elements
// left; V0-V3 sums of the first token of x, and so on.
#define GEMM_ROW(R, X, Y, x, y, a, b, c, d) \
	VLD1.P 32(R), [X.S4, Y.S4]; \
	FMLA(16, x, a); \
	FMLA(17, y, b); \
	FMLA(18, x, c); \
	FMLA(19, y, d)
#define GEMM(LOAD8) \
	MOVD a+0(FP), R8; \
	MOVD floatArgs_dst(R8), R0; \
	MOVD floatArgs_w(R8), R2; \
	MOVD floatArgs_rowBytes(R8), R3; \
	MOVD $2, R9; \
	ZERO(31); \
pass: \
	MOVD R2, R6; \
	ADD  R3, R6, R10; \
	MOVD a+0(FP), R8; \
	MOVD floatArgs_x(R8), R1; \
	MOVD floatArgs_n(R8), R8; \
	ADD  R8<<2, R1, R4; \
	ADD  R8<<2, R4, R5; \
	ADD  R8<<2, R5, R7; \
	ZERO8(0); \
	ZERO8(8); \
eight: \
	LOAD8(R6, V16, V17, 16, 17); \
	LOAD8(R10, V18, V19, 18, 19); \
	GEMM_ROW(R1, V20, V21, 20, 21, 0, 1, 2, 3); \
	GEMM_ROW(R4, V22, V23, 22, 23, 4, 5, 6, 7); \
	GEMM_ROW(R5, V24, V25, 24, 25, 8, 9, 10, 11); \
	GEMM_ROW(R7, V26, V27, 26, 27, 12, 13, 14, 15); \
	SUBS $8, R8; \
	BNE  eight; \
	LANES4(0, V0, V2, V4, V6); \
	LANES4(8, V8, V10, V12, V14); \
	FMOVS F0, 0(R0); \
	FMOVS F2, 4(R0); \
	FMOVS F4, 16(R0); \
	FMOVS F6, 20(R0); \
	FMOVS F8, 32(R0); \
	FMOVS F10, 36(R0); \
	FMOVS F12, 48(R0); \
	FMOVS F14, 52(R0); \
	ADD  $8, R0; \
	ADD  R3<<1, R2; \
	SUBS $1, R9; \
	BNE  pass; \
	RET

TEXT ·gemvF32NEON(SB), NOSPLIT, $0-8
	GEMV(LOAD16_F32, LOAD4_F32, LOAD1_F32)

TEXT ·gemvF16NEON(SB), NOSPLIT, $0-8
	GEMV(LOAD16_F16, LOAD4_F16, LOAD1_F16)

TEXT ·gemvBF16NEON(SB), NOSPLIT, $0-8
	GEMV(LOAD16_BF16, LOAD4_BF16, LOAD1_BF16)

TEXT ·gemmF32NEON(SB), NOSPLIT, $0-8
	GEMM(LOAD8_F32)

TEXT ·gemmF16NEON(SB), NOSPLIT, $0-8
	GEMM(LOAD8_F16)

TEXT ·gemmBF16NEON(SB), NOSPLIT, $0-8
	GEMM(LOAD8_BF16)

// func readNEON(p []byte) uint64
// Reads 128 bytes a pass; what is left below that is not read.
TEXT ·readNEON(SB), NOSPLIT, $0-32
	MOVD p_base+0(FP), R0
	MOVD p_len+8(FP), R1
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	SUBS $128, R1
	BLT  done
again:
	VLD1.P 64(R0), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P 64(R0), [V20.B16, V21.B16, V22.B16, V23.B16]
	VORR V17.B16, V16.B16, V16.B16
	VORR V19.B16, V18.B16, V18.B16
	VORR V21.B16, V20.B16, V20.B16
	VORR V23.B16, V22.B16, V22.B16
	VORR V18.B16, V16.B16, V16.B16
	VORR V22.B16, V20.B16, V20.B16
	VORR V16.B16, V0.B16, V0.B16
	VORR V20.B16, V1.B16, V1.B16
	SUBS $128, R1
	BGE  again
done:
	VORR V1.B16, V0.B16, V0.B16
	VMOV V0.D[0], R2
	VMOV V0.D[1], R3
	ORR  R3, R2
	MOVD R2, ret+24(FP)
	RET
