//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// d.S4 += n.S4 times lane i of m.S4, on the vector registers of the given numbers.
#define FMLALANE(m, i, n, d) WORD $(0x4f801000 | ((i)&1)<<21 | (m)<<16 | ((i)>>1)<<11 | (n)<<5 | (d))

// Eight elements at R to float32 in V16, V17.
#define LOAD8_F32(R) VLD1 (R), [V16.S4, V17.S4]
#define LOAD8_F16(R) \
	VLD1 (R), [V18.H8]; \
	FCVTL(18, 16);      \
	FCVTL2(18, 17)

// The sums of query g, V2g and V2g+1, += V16, V17 times lane i of vector m.
#define QUERY(g, m, i) \
	FMLALANE(m, i, 16, 2*g); \
	FMLALANE(m, i, 17, 2*g+1)

// OP of the sums of the eight queries and eight rows STEP bytes apart, the first at R; uses R.
#define ST2(R, A, B) VST1 [A.S4, B.S4], (R)
#define LD2(R, A, B) VLD1 (R), [A.S4, B.S4]
#define EACH8(OP, R, STEP) \
	OP(R, V0, V1);   \
	ADD STEP, R;              \
	OP(R, V2, V3);   \
	ADD STEP, R;              \
	OP(R, V4, V5);   \
	ADD STEP, R;              \
	OP(R, V6, V7);   \
	ADD STEP, R;              \
	OP(R, V8, V9);   \
	ADD STEP, R;              \
	OP(R, V10, V11); \
	ADD STEP, R;              \
	OP(R, V12, V13); \
	ADD STEP, R;              \
	OP(R, V14, V15)

// scores(dst []float32, stride int, q []float32, k []byte, step, blocks int): half a block at a time.
// R0 dst, R1 stride, R2 q, R3 Dh, R4 k, R5 step, R6 blocks left; inner R7 k, R8 q, R9 elements left, R10 half.
#define SCORES(LOAD8, size) \
	MOVD dst_base+0(FP), R0;  \
	MOVD stride+24(FP), R1;   \
	MOVD q_base+32(FP), R2;   \
	MOVD q_len+40(FP), R3;    \
	MOVD k_base+56(FP), R4;   \
	MOVD step+80(FP), R5;     \
	MOVD blocks+88(FP), R6;   \
	LSL  $2, R1;              \
	LSR  $3, R3;              \
blk: \
	MOVD $0, R10;             \
half: \
	MOVD $size, R7;           \
	MADD R7, R4, R10, R7;     \
	MOVD R2, R8;              \
	MOVD R3, R9;              \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16; \
	VEOR V2.B16, V2.B16, V2.B16; \
	VEOR V3.B16, V3.B16, V3.B16; \
	VEOR V4.B16, V4.B16, V4.B16; \
	VEOR V5.B16, V5.B16, V5.B16; \
	VEOR V6.B16, V6.B16, V6.B16; \
	VEOR V7.B16, V7.B16, V7.B16; \
	VEOR V8.B16, V8.B16, V8.B16; \
	VEOR V9.B16, V9.B16, V9.B16; \
	VEOR V10.B16, V10.B16, V10.B16; \
	VEOR V11.B16, V11.B16, V11.B16; \
	VEOR V12.B16, V12.B16, V12.B16; \
	VEOR V13.B16, V13.B16, V13.B16; \
	VEOR V14.B16, V14.B16, V14.B16; \
	VEOR V15.B16, V15.B16, V15.B16; \
elem: \
	LOAD8(R7);                \
	VLD1.P 32(R8), [V20.S4, V21.S4]; \
	QUERY(0, 20, 0);         \
	QUERY(1, 20, 1);         \
	QUERY(2, 20, 2);         \
	QUERY(3, 20, 3);         \
	QUERY(4, 21, 0);         \
	QUERY(5, 21, 1);         \
	QUERY(6, 21, 2);         \
	QUERY(7, 21, 3);         \
	ADD  $(16*size), R7;      \
	SUBS $1, R9;              \
	BNE  elem;                \
	ADD  R10<<2, R0, R7;      \
	EACH8(ST2, R7, R1);      \
	ADD  $8, R10;             \
	CMP  $16, R10;            \
	BLT  half;                \
	ADD  R5, R4;              \
	ADD  $64, R0;             \
	SUBS $1, R6;              \
	BNE  blk;                 \
	RET

// OP(value, R7) for the vectors V20-V27 of the weights at R6 in the eight rows; uses R7.
#define WEIGHTS(OP) \
	MOVD R6, R7; \
	OP(V20);   \
	ADD  R10, R7; \
	OP(V21);   \
	ADD  R10, R7; \
	OP(V22);   \
	ADD  R10, R7; \
	OP(V23);   \
	ADD  R10, R7; \
	OP(V24);   \
	ADD  R10, R7; \
	OP(V25);   \
	ADD  R10, R7; \
	OP(V26);   \
	ADD  R10, R7; \
	OP(V27);
#define FOUR(V) VLD1 (R7), [V.S4]
#define ONE(V) VLD1 (R7), V.S[0]

// All sums += the value at R5, which moves on, times lane i of the weights.
#define VALUE(LOAD8, i) \
	LOAD8(R5);  \
	QUERY(0, 20, i); \
	QUERY(1, 21, i); \
	QUERY(2, 22, i); \
	QUERY(3, 23, i); \
	QUERY(4, 24, i); \
	QUERY(5, 25, i); \
	QUERY(6, 26, i); \
	QUERY(7, 27, i); \
	ADD R8, R5

// mix(acc, p []float32, stride, n int, v []byte, step int): eight columns at a time, over all values each, by four and
// then one. R0 acc, R1 bytes of a row of acc, R2 p, R10 stride, R3 n, R4 v, R8 step, R11 columns left; inner R5 v, R6
// p, R9 values left, R7.
#define MIX(LOAD8, size) \
	MOVD acc_base+0(FP), R0;  \
	MOVD acc_len+8(FP), R11;  \
	MOVD p_base+24(FP), R2;   \
	MOVD stride+48(FP), R10;  \
	MOVD n+56(FP), R3;        \
	MOVD v_base+64(FP), R4;   \
	MOVD step+88(FP), R8;     \
	LSR  $3, R11;             \
	LSL  $2, R11, R1;         \
	LSL  $2, R10;             \
cols: \
	MOVD R0, R7;              \
	EACH8(LD2, R7, R1);       \
	MOVD R4, R5;              \
	MOVD R2, R6;              \
	SUBS $4, R3, R9;          \
	BLT  rest;                \
four: \
	WEIGHTS(FOUR);            \
	VALUE(LOAD8, 0);          \
	VALUE(LOAD8, 1);          \
	VALUE(LOAD8, 2);          \
	VALUE(LOAD8, 3);          \
	ADD  $16, R6;             \
	SUBS $4, R9;              \
	BGE  four;                \
rest: \
	ADDS $4, R9;              \
	BEQ  store;               \
one: \
	WEIGHTS(ONE);             \
	VALUE(LOAD8, 0);          \
	ADD  $4, R6;              \
	SUBS $1, R9;              \
	BNE  one;                 \
store: \
	MOVD R0, R7;              \
	EACH8(ST2, R7, R1);       \
	ADD  $(8*size), R4;       \
	ADD  $32, R0;             \
	SUBS $8, R11;             \
	BNE  cols;                \
	RET

// func scoresF16NEON(dst []float32, stride int, q []float32, k []byte, step, blocks int)
TEXT ·scoresF16NEON(SB), NOSPLIT, $0-96
	SCORES(LOAD8_F16, 2)

// func scoresF32NEON(dst []float32, stride int, q []float32, k []byte, step, blocks int)
TEXT ·scoresF32NEON(SB), NOSPLIT, $0-96
	SCORES(LOAD8_F32, 4)

// func mixF16NEON(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·mixF16NEON(SB), NOSPLIT, $0-96
	MIX(LOAD8_F16, 2)

// func mixF32NEON(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·mixF32NEON(SB), NOSPLIT, $0-96
	MIX(LOAD8_F32, 4)

// The sums of 16 columns, in the registers d to d+3, += V16-V19 times a weight in all lanes of register w.
#define FOUR_SUMS(w, d) \
	FMLA(16, w, d);   \
	FMLA(17, w, d+1); \
	FMLA(18, w, d+2); \
	FMLA(19, w, d+3)

// func pairMixF32NEON(acc, p []float32, stride, n int, v []byte, step int)
// 32 columns at a time, over all values each. R0 acc, R1 bytes of a row of acc, R2 p, R10 stride, R3 n, R4 v, R8 step,
// R11 columns left; inner R5 v, R6 and R7 the weights, R9 values left.
TEXT ·pairMixF32NEON(SB), NOSPLIT, $0-96
	MOVD acc_base+0(FP), R0
	MOVD acc_len+8(FP), R11
	MOVD p_base+24(FP), R2
	MOVD stride+48(FP), R10
	MOVD n+56(FP), R3
	MOVD v_base+64(FP), R4
	MOVD step+88(FP), R8
	LSR  $3, R11
	LSL  $2, R11, R1
	LSL  $2, R10
cols:
	MOVD R4, R5
	MOVD R2, R6
	ADD  R10, R2, R7
	MOVD R3, R9
	ADD  R1, R0, R12
	ADD  $64, R0, R13
	ADD  $64, R12, R14
	VLD1 (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1 (R13), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1 (R12), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1 (R14), [V12.S4, V13.S4, V14.S4, V15.S4]
value:
	MOVD R5, R15
	VLD1R.P 4(R6), [V20.S4]
	VLD1R.P 4(R7), [V21.S4]
	VLD1.P 64(R15), [V16.S4, V17.S4, V18.S4, V19.S4]
	FOUR_SUMS(20, 0)
	FOUR_SUMS(21, 8)
	VLD1 (R15), [V16.S4, V17.S4, V18.S4, V19.S4]
	FOUR_SUMS(20, 4)
	FOUR_SUMS(21, 12)
	ADD  R8, R5
	SUBS $1, R9
	BNE  value
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0)
	VST1 [V4.S4, V5.S4, V6.S4, V7.S4], (R13)
	VST1 [V8.S4, V9.S4, V10.S4, V11.S4], (R12)
	VST1 [V12.S4, V13.S4, V14.S4, V15.S4], (R14)
	ADD  $128, R4
	ADD  $128, R0
	SUBS $32, R11
	BNE  cols
	RET
