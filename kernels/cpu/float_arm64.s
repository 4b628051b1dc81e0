//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// The next sixteen, four or one elements of a type at R6, which moves on, as float32 in V16-V19, V16 or F16. V31 is zero.
#define LOAD16_F32 VLD1.P 64(R6), [V16.S4, V17.S4, V18.S4, V19.S4]
#define LOAD4_F32 VLD1.P 16(R6), [V16.S4]
#define LOAD1_F32 FMOVS.P 4(R6), F16
#define LOAD16_F16 \
	VLD1.P 32(R6), [V24.H8, V25.H8]; \
	FCVTL(24, 16); \
	FCVTL2(24, 17); \
	FCVTL(25, 18); \
	FCVTL2(25, 19)
#define LOAD4_F16 \
	VLD1.P 8(R6), [V24.H4]; \
	FCVTL(24, 16)
#define LOAD1_F16 \
	MOVHU.P 2(R6), R9; \
	FMOVS R9, F24; \
	FCVTHS F24, F16
#define LOAD16_BF16 \
	VLD1.P 32(R6), [V24.H8, V25.H8]; \
	VZIP1 V24.H8, V31.H8, V16.H8; \
	VZIP2 V24.H8, V31.H8, V17.H8; \
	VZIP1 V25.H8, V31.H8, V18.H8; \
	VZIP2 V25.H8, V31.H8, V19.H8
#define LOAD4_BF16 \
	VLD1.P 8(R6), [V24.H4]; \
	VZIP1 V24.H8, V31.H8, V16.H8
#define LOAD1_BF16 \
	MOVHU.P 2(R6), R9; \
	LSL  $16, R9; \
	FMOVS R9, F16

// rows(dst []float32, w []byte, stride int, x []float32): elements 16i..16i+15 are summed in V0-V3, then fours in V0; what is left is
// added to the sum of all lanes.
// R0 dst, R1 rows left, R2 w, R3 stride, R4 x, R5 length; in a row R6 w, R7 x, R8 elements left.
#define ROWS(LOAD16, LOAD4, LOAD1) \
	MOVD dst_base+0(FP), R0; \
	MOVD dst_len+8(FP), R1; \
	MOVD w_base+24(FP), R2; \
	MOVD stride+48(FP), R3; \
	MOVD x_base+56(FP), R4; \
	MOVD x_len+64(FP), R5; \
	VEOR V31.B16, V31.B16, V31.B16; \
row: \
	MOVD R2, R6; \
	MOVD R4, R7; \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16; \
	VEOR V2.B16, V2.B16, V2.B16; \
	VEOR V3.B16, V3.B16, V3.B16; \
	SUBS $16, R5, R8; \
	BLT  fours; \
sixteen: \
	LOAD16; \
	VLD1.P 64(R7), [V20.S4, V21.S4, V22.S4, V23.S4]; \
	VFMLA V16.S4, V20.S4, V0.S4; \
	VFMLA V17.S4, V21.S4, V1.S4; \
	VFMLA V18.S4, V22.S4, V2.S4; \
	VFMLA V19.S4, V23.S4, V3.S4; \
	SUBS $16, R8; \
	BGE  sixteen; \
fours: \
	ADDS $12, R8; \
	BLT  sum; \
four: \
	LOAD4; \
	VLD1.P 16(R7), [V20.S4]; \
	VFMLA V16.S4, V20.S4, V0.S4; \
	SUBS $4, R8; \
	BGE  four; \
sum: \
	FADD(1, 0, 0); \
	FADD(3, 2, 2); \
	FADD(2, 0, 0); \
	HSUM(0, V0, 1, V1); \
	ADDS $4, R8; \
	BEQ  store; \
one: \
	LOAD1; \
	FMOVS.P 4(R7), F20; \
	FMADDS F20, F0, F16, F0; \
	SUBS $1, R8; \
	BNE  one; \
store: \
	FMOVS.P F0, 4(R0); \
	ADD  R3, R2; \
	SUBS $1, R1; \
	BNE  row; \
	RET

// from(dst []float32, src []byte): R0 dst, R8 elements left.
#define FROM(LOAD16, LOAD1) \
	MOVD dst_base+0(FP), R0; \
	MOVD dst_len+8(FP), R8; \
	MOVD src_base+24(FP), R6; \
	VEOR V31.B16, V31.B16, V31.B16; \
	SUBS $16, R8; \
	BLT  rest; \
sixteen: \
	LOAD16; \
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R0); \
	SUBS $16, R8; \
	BGE  sixteen; \
rest: \
	ADDS $16, R8; \
	BEQ  done; \
one: \
	LOAD1; \
	FMOVS.P F16, 4(R0); \
	SUBS $1, R8; \
	BNE  one; \
done: \
	RET

// axpy(acc, p []float32, v []byte, stride int): columns by 16, 4 and 1, over all rows each, with the sums in registers.
// R0 acc, R8 columns left, R2 v, size bytes an element, R3 stride, R4 p, R5 rows; in a column R10 row of v, R7 p, R1 rows left.
#define COLUMN \
	MOVD R2, R10; \
	MOVD R4, R7; \
	MOVD R5, R1
#define AXPY(LOAD16, LOAD4, LOAD1, size) \
	MOVD acc_base+0(FP), R0; \
	MOVD acc_len+8(FP), R8; \
	MOVD p_base+24(FP), R4; \
	MOVD p_len+32(FP), R5; \
	MOVD v_base+48(FP), R2; \
	MOVD stride+72(FP), R3; \
	SUBS $16, R8; \
	BLT  fours; \
sixteen: \
	COLUMN; \
	VLD1 (R0), [V0.S4, V1.S4, V2.S4, V3.S4]; \
row16: \
	MOVD R10, R6; \
	LOAD16; \
	VLD1R.P 4(R7), [V20.S4]; \
	VFMLA V16.S4, V20.S4, V0.S4; \
	VFMLA V17.S4, V20.S4, V1.S4; \
	VFMLA V18.S4, V20.S4, V2.S4; \
	VFMLA V19.S4, V20.S4, V3.S4; \
	ADD  R3, R10; \
	SUBS $1, R1; \
	BNE  row16; \
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0); \
	ADD  $(16*size), R2; \
	SUBS $16, R8; \
	BGE  sixteen; \
fours: \
	ADDS $12, R8; \
	BLT  rest; \
four: \
	COLUMN; \
	VLD1 (R0), [V0.S4]; \
row4: \
	MOVD R10, R6; \
	LOAD4; \
	VLD1R.P 4(R7), [V20.S4]; \
	VFMLA V16.S4, V20.S4, V0.S4; \
	ADD  R3, R10; \
	SUBS $1, R1; \
	BNE  row4; \
	VST1.P [V0.S4], 16(R0); \
	ADD  $(4*size), R2; \
	SUBS $4, R8; \
	BGE  four; \
rest: \
	ADDS $4, R8; \
	BEQ  done; \
one: \
	COLUMN; \
	FMOVS (R0), F0; \
row1: \
	MOVD R10, R6; \
	LOAD1; \
	FMOVS.P 4(R7), F20; \
	FMADDS F20, F0, F16, F0; \
	ADD  R3, R10; \
	SUBS $1, R1; \
	BNE  row1; \
	FMOVS.P F0, 4(R0); \
	ADD  $size, R2; \
	SUBS $1, R8; \
	BNE  one; \
done: \
	RET

// func rowsF32NEON(dst []float32, w []byte, stride int, x []float32)
TEXT ·rowsF32NEON(SB), NOSPLIT, $0-80
	ROWS(LOAD16_F32, LOAD4_F32, LOAD1_F32)

// func rowsF16NEON(dst []float32, w []byte, stride int, x []float32)
TEXT ·rowsF16NEON(SB), NOSPLIT, $0-80
	ROWS(LOAD16_F16, LOAD4_F16, LOAD1_F16)

// func rowsBF16NEON(dst []float32, w []byte, stride int, x []float32)
TEXT ·rowsBF16NEON(SB), NOSPLIT, $0-80
	ROWS(LOAD16_BF16, LOAD4_BF16, LOAD1_BF16)

// func fromF16NEON(dst []float32, src []byte)
TEXT ·fromF16NEON(SB), NOSPLIT, $0-48
	FROM(LOAD16_F16, LOAD1_F16)

// func fromBF16NEON(dst []float32, src []byte)
TEXT ·fromBF16NEON(SB), NOSPLIT, $0-48
	FROM(LOAD16_BF16, LOAD1_BF16)

// func axpyF32NEON(acc, p []float32, v []byte, stride int)
TEXT ·axpyF32NEON(SB), NOSPLIT, $0-80
	AXPY(LOAD16_F32, LOAD4_F32, LOAD1_F32, 4)

// Adds w·x of one row of x, at R, to its sums.
#define FOUR16(R, A, B, C, D) \
	VLD1.P 64(R), [V20.S4, V21.S4, V22.S4, V23.S4]; \
	VFMLA V16.S4, V20.S4, A.S4; \
	VFMLA V17.S4, V21.S4, B.S4; \
	VFMLA V18.S4, V22.S4, C.S4; \
	VFMLA V19.S4, V23.S4, D.S4
#define FOUR4(R, A) \
	VLD1.P 16(R), [V20.S4]; \
	VFMLA V16.S4, V20.S4, A.S4
#define FOURSUM(a, b, c, d, A) \
	FADD(b, a, a); \
	FADD(d, c, c); \
	FADD(c, a, a); \
	HSUM(a, A, 16, V16)
#define FOUR1(R, F) \
	FMOVS.P 4(R), F20; \
	FMADDS F20, F, F16, F

// func fourF32NEON(dst *[4]float32, w []byte, x []float32)
// Sums as rows does: V0-V3 for the first row, V4-V7 for the second, and so on. R6 w, R8 elements left, R1-R4 rows of x.
TEXT ·fourF32NEON(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD w_base+8(FP), R6
	MOVD w_len+16(FP), R5
	MOVD x_base+32(FP), R1
	ADD  R5, R1, R2
	ADD  R5, R2, R3
	ADD  R5, R3, R4
	VEOR V0.B16, V0.B16, V0.B16
	VMOV V0.B16, V1.B16
	VMOV V0.B16, V2.B16
	VMOV V0.B16, V3.B16
	VMOV V0.B16, V4.B16
	VMOV V0.B16, V5.B16
	VMOV V0.B16, V6.B16
	VMOV V0.B16, V7.B16
	VMOV V0.B16, V8.B16
	VMOV V0.B16, V9.B16
	VMOV V0.B16, V10.B16
	VMOV V0.B16, V11.B16
	VMOV V0.B16, V12.B16
	VMOV V0.B16, V13.B16
	VMOV V0.B16, V14.B16
	VMOV V0.B16, V15.B16
	LSR  $2, R5, R8
	SUBS $16, R8
	BLT  fours
sixteen:
	LOAD16_F32
	FOUR16(R1, V0, V1, V2, V3)
	FOUR16(R2, V4, V5, V6, V7)
	FOUR16(R3, V8, V9, V10, V11)
	FOUR16(R4, V12, V13, V14, V15)
	SUBS $16, R8
	BGE  sixteen
fours:
	ADDS $12, R8
	BLT  sum
four:
	LOAD4_F32
	FOUR4(R1, V0)
	FOUR4(R2, V4)
	FOUR4(R3, V8)
	FOUR4(R4, V12)
	SUBS $4, R8
	BGE  four
sum:
	FOURSUM(0, 1, 2, 3, V0)
	FOURSUM(4, 5, 6, 7, V4)
	FOURSUM(8, 9, 10, 11, V8)
	FOURSUM(12, 13, 14, 15, V12)
	ADDS $4, R8
	BEQ  store
one:
	LOAD1_F32
	FOUR1(R1, F0)
	FOUR1(R2, F4)
	FOUR1(R3, F8)
	FOUR1(R4, F12)
	SUBS $1, R8
	BNE  one
store:
	FMOVS F0, 0(R0)
	FMOVS F4, 4(R0)
	FMOVS F8, 8(R0)
	FMOVS F12, 12(R0)
	RET

// func readNEON(p []byte) uint64
// Reads 128 bytes a turn; what is left below that is not read.
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
