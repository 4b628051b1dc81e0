//go:build !noasm

#include "textflag.h"
#include "tile_amd64.h"

// Eight rows of weights, one to a lane of 32 bits: eight registers hold 32 columns of them, four to a register, which meet the same
// four activations in every lane.

#define WORDS(imm, X, Y) MOVL imm, R13; VMOVD R13, X; VPBROADCASTD X, Y

// Y0-Y7 = the magnitudes of the weights; their signs stay in the panel.
#define LOAD_SIGNED \
	VPABSB (SI), Y0;    \
	VPABSB 32(SI), Y1;  \
	VPABSB 64(SI), Y2;  \
	VPABSB 96(SI), Y3;  \
	VPABSB 128(SI), Y4; \
	VPABSB 160(SI), Y5; \
	VPABSB 192(SI), Y6; \
	VPABSB 224(SI), Y7

// Y0-Y7 = weights plus the bytes at bias, so that none is negative.
#define LOAD_SMALL(bias) \
	VPBROADCASTD bias, Y8;  \
	VPADDB (SI), Y8, Y0;    \
	VPADDB 32(SI), Y8, Y1;  \
	VPADDB 64(SI), Y8, Y2;  \
	VPADDB 96(SI), Y8, Y3;  \
	VPADDB 128(SI), Y8, Y4; \
	VPADDB 160(SI), Y8, Y5; \
	VPADDB 192(SI), Y8, Y6; \
	VPADDB 224(SI), Y8, Y7
#define LOAD_Q4_0 LOAD_SMALL(biases<>+0(SB))
#define LOAD_Q5_0 LOAD_SMALL(biases<>+4(SB))
#define LOAD_Q6_K LOAD_SMALL(biases<>+8(SB))

DATA biases<>+0(SB)/4, $0x08080808
DATA biases<>+4(SB)/4, $0x10101010
DATA biases<>+8(SB)/4, $0x20202020
GLOBL biases<>(SB), RODATA|NOPTR, $12

// Y0-Y7 = weights of at most five bits that are never negative.
#define LOAD_K \
	VMOVDQU (SI), Y0;    \
	VMOVDQU 32(SI), Y1;  \
	VMOVDQU 64(SI), Y2;  \
	VMOVDQU 96(SI), Y3;  \
	VMOVDQU 128(SI), Y4; \
	VMOVDQU 160(SI), Y5; \
	VMOVDQU 192(SI), Y6; \
	VMOVDQU 224(SI), Y7

// Two rows of activations: places of their q, their d, and their s or h.
#define Q0 (R13)
#define Q1 (R13)(R9*1)
#define D0 (R14)
#define D1 (R14)(R10*1)
#define S0 (R14)(R15*1)
#define S1 (R14)(BP*1)

// P = products of columns 4i to 4i+3 of the row Q, by twos. SUM adds them to A.
#define PRODUCTS(i, W, Q, P) \
	VPBROADCASTD (4*i)Q, P; \
	VPMADDUBSW   P, W, P
#define SUM(i, W, Q, T, A) \
	PRODUCTS(i, W, Q, T); \
	VPADDW T, A, A

// Products of bytes, from magnitudes and activations that take the signs, by fours: two of 128 and 127 fit in 16 bits.
#define BYTES(i, W, Q, P) \
	VPBROADCASTD (4*i)Q, P;        \
	VPSIGNB      (32*i)(SI), P, P; \
	VPMADDUBSW   P, W, P;          \
	VPMADDWD     Y14, P, P
#define FIRST_BYTES_1 BYTES(0, Y0, Q0, Y8)
#define FIRST_BYTES_2 FIRST_BYTES_1; BYTES(0, Y0, Q1, Y9)
#define BYTES_1(i, W) \
	BYTES(i, W, Q0, Y10);  \
	VPADDD Y10, Y8, Y8
#define BYTES_2(i, W) \
	BYTES_1(i, W); \
	BYTES(i, W, Q1, Y11); \
	VPADDD Y11, Y9, Y9
#define EIGHTBITS(FIRST, STEP) \
	FIRST; \
	STEP(1, Y1); \
	STEP(2, Y2); \
	STEP(3, Y3); \
	STEP(4, Y4); \
	STEP(5, Y5); \
	STEP(6, Y6); \
	STEP(7, Y7)

// Weights of four bits: sixteen products of 15 and 127 fit in 16 bits, those of all columns.
#define SET_1(i, W) PRODUCTS(i, W, Q0, Y8)
#define SET_2(i, W) SET_1(i, W); PRODUCTS(i, W, Q1, Y9)
#define SUM_1(i, W) SUM(i, W, Q0, Y10, Y8)
#define SUM_2(i, W) SUM_1(i, W); SUM(i, W, Q1, Y11, Y9)
#define FOURBITS(SET, SUM) \
	SET(0, Y0); \
	SUM(1, Y1); \
	SUM(2, Y2); \
	SUM(3, Y3); \
	SUM(4, Y4); \
	SUM(5, Y5); \
	SUM(6, Y6); \
	SUM(7, Y7)
#define FOURBITS_1 \
	FOURBITS(SET_1, SUM_1); \
	VPMADDWD Y14, Y8, Y8
#define FOURBITS_2 \
	FOURBITS(SET_2, SUM_2); \
	VPMADDWD Y14, Y8, Y8; \
	VPMADDWD Y14, Y9, Y9

// Weights of five bits: eight products of 31 and 127 fit, those of a half block.
#define LATER_SET_1(i, W) PRODUCTS(i, W, Q0, Y12)
#define LATER_SET_2(i, W) LATER_SET_1(i, W); PRODUCTS(i, W, Q1, Y13)
#define LATER_SUM_1(i, W) SUM(i, W, Q0, Y10, Y12)
#define LATER_SUM_2(i, W) LATER_SUM_1(i, W); SUM(i, W, Q1, Y11, Y13)
#define FIVEBITS(SET, SUM, LATER_SET, LATER_SUM) \
	SET(0, Y0); \
	SUM(1, Y1); \
	SUM(2, Y2); \
	SUM(3, Y3); \
	LATER_SET(4, Y4); \
	LATER_SUM(5, Y5); \
	LATER_SUM(6, Y6); \
	LATER_SUM(7, Y7)
#define BOTH_HALVES(T, A) \
	VPMADDWD Y14, A, A; \
	VPMADDWD Y14, T, T; \
	VPADDD   T, A, A
#define FIVEBITS_1 \
	FIVEBITS(SET_1, SUM_1, LATER_SET_1, LATER_SUM_1); \
	BOTH_HALVES(Y12, Y8)
#define FIVEBITS_2 \
	FIVEBITS(SET_2, SUM_2, LATER_SET_2, LATER_SUM_2); \
	BOTH_HALVES(Y12, Y8); \
	BOTH_HALVES(Y13, Y9)

// Weights of six bits: four products of 63 and 127 fit. A += products of columns 4i to 4i+7; FIRST_SIX: A = those less A.
#define SIX(i, V, W, Q) \
	PRODUCTS(i, V, Q, Y10);     \
	SUM((i+1), W, Q, Y11, Y10); \
	VPMADDWD Y14, Y10, Y10
#define FIRST_SIX(i, V, W, Q, A) \
	SIX(i, V, W, Q); \
	VPSUBD A, Y10, A
#define NEXT_SIX(i, V, W, Q, A) \
	SIX(i, V, W, Q); \
	VPADDD Y10, A, A
#define SIXBITS_1 \
	FIRST_SIX(0, Y0, Y1, Q0, Y8);  \
	FIRST_SIX(4, Y4, Y5, Q0, Y12); \
	NEXT_SIX(2, Y2, Y3, Q0, Y8);   \
	NEXT_SIX(6, Y6, Y7, Q0, Y12)
#define SIXBITS_2 \
	FIRST_SIX(0, Y0, Y1, Q0, Y8);  \
	FIRST_SIX(0, Y0, Y1, Q1, Y9);  \
	FIRST_SIX(4, Y4, Y5, Q0, Y12); \
	FIRST_SIX(4, Y4, Y5, Q1, Y13); \
	NEXT_SIX(2, Y2, Y3, Q0, Y8);   \
	NEXT_SIX(2, Y2, Y3, Q1, Y9);   \
	NEXT_SIX(6, Y6, Y7, Q0, Y12);  \
	NEXT_SIX(6, Y6, Y7, Q1, Y13)

// A += what makes up for the offset of the weights, by the words in Y15.
#define OFFSET(S, A) \
	VPBROADCASTD S, Y10;      \
	VPMADDWD Y15, Y10, Y10;   \
	VPADDD   Y10, A, A

// A = 32 times the first word of S, B = 32 times the second: shifts, because the units that multiply are the busiest.
#define HALVED(S, A, B) \
	VPBROADCASTD S, Y10; \
	VPSLLD $16, Y10, A;  \
	VPSRAD $16, Y10, B;  \
	VPSRAD $11, A, A;    \
	VPSLLD $5, B, B

// Adds the integers A times the scales at D, times those at ds, to SUM.
#define SCALED(A, D, ds, SUM) \
	VCVTDQ2PS    A, A;            \
	VBROADCASTSS D, Y10;          \
	VMULPS       ds, Y10, Y10;    \
	VFMADD231PS  A, Y10, SUM

// The end of a row: its sums are at O.
#define ADD_32(A, D, O) \
	VMOVUPS O(R12), Y11; \
	SCALED(A, D, (AX), Y11); \
	VMOVUPS Y11, O(R12)
#define ADD_K(A, D, S, O) \
	VMOVUPS O(R12), Y11;         \
	SCALED(A, D, (AX), Y11);     \
	VBROADCASTSS S, Y10;         \
	VFNMADD231PS (BX), Y10, Y11; \
	VMOVUPS Y11, O(R12)
#define ADD_6(A, B, D, O) \
	VMOVUPS O(R12), Y11; \
	SCALED(A, D, (AX), Y11);   \
	SCALED(B, D, 32(AX), Y11); \
	VMOVUPS Y11, O(R12)

// One row, or two.
#define Q8_0_1 \
	EIGHTBITS(FIRST_BYTES_1, BYTES_1); \
	ADD_32(Y8, D0, 0)
#define Q8_0_2 \
	EIGHTBITS(FIRST_BYTES_2, BYTES_2); \
	ADD_32(Y8, D0, 0);     \
	ADD_32(Y9, D1, 32)
#define Q4_0_1 \
	FOURBITS_1; \
	OFFSET(S0, Y8); \
	ADD_32(Y8, D0, 0)
#define Q4_0_2 \
	FOURBITS_2; \
	OFFSET(S0, Y8); \
	OFFSET(S1, Y9); \
	ADD_32(Y8, D0, 0); \
	ADD_32(Y9, D1, 32)
#define Q5_0_1 \
	FIVEBITS_1; \
	OFFSET(S0, Y8); \
	ADD_32(Y8, D0, 0)
#define Q5_0_2 \
	FIVEBITS_2; \
	OFFSET(S0, Y8); \
	OFFSET(S1, Y9); \
	ADD_32(Y8, D0, 0); \
	ADD_32(Y9, D1, 32)
#define Q4_K_1 \
	FOURBITS_1; \
	ADD_K(Y8, D0, S0, 0)
#define Q4_K_2 \
	FOURBITS_2; \
	ADD_K(Y8, D0, S0, 0); \
	ADD_K(Y9, D1, S1, 32)
#define Q5_K_1 \
	FIVEBITS_1; \
	ADD_K(Y8, D0, S0, 0)
#define Q5_K_2 \
	FIVEBITS_2; \
	ADD_K(Y8, D0, S0, 0); \
	ADD_K(Y9, D1, S1, 32)
#define Q6_K_1 \
	HALVED(S0, Y8, Y12); \
	SIXBITS_1; \
	ADD_6(Y8, Y12, D0, 0)
#define Q6_K_2 \
	HALVED(S0, Y8, Y12); \
	HALVED(S1, Y9, Y13); \
	SIXBITS_2; \
	ADD_6(Y8, Y12, D0, 0); \
	ADD_6(Y9, Y13, D1, 32)

// func tileQ8_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ8_0AVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_SIGNED, Q8_0_1, Q8_0_2)

// func tileQ4_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ4_0AVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	TILE_OFFSETS
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	WORDS($0xfff8fff8, X15, Y15)
	TILE2(LOAD_Q4_0, Q4_0_1, Q4_0_2)

// func tileQ5_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	TILE_OFFSETS
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	WORDS($0xfff0fff0, X15, Y15)
	TILE2(LOAD_Q5_0, Q5_0_1, Q5_0_2)

// func tileQ4_KAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ4_KAVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_K, Q4_K_1, Q4_K_2)

// func tileQ5_KAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_K, Q5_K_1, Q5_K_2)

// func tileQ6_KAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	TILE_OFFSETS
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_Q6_K, Q6_K_1, Q6_K_2)

// func foldAVX2(out, acc []float32)
// DI out, R8 elements left, SI acc, R9, R10 a lane and three lanes in bytes, AX the fifth lane if there are eight.
TEXT ·foldAVX2(SB), NOSPLIT, $0-48
	MOVQ out_base+0(FP), DI
	MOVQ out_len+8(FP), R8
	MOVQ acc_base+24(FP), SI
	MOVQ acc_len+32(FP), R11
	LEAQ (R8*4), R9
	LEAQ (R9)(R9*2), R10
	LEAQ (SI)(R9*4), AX
	CMPQ R11, R9 // four lanes, or eight
	JEQ  four
eight:
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(R9*1), Y1
	VMOVUPS (SI)(R9*2), Y2
	VMOVUPS (SI)(R10*1), Y3
	VADDPS (AX), Y0, Y0
	VADDPS (AX)(R9*1), Y1, Y1
	VADDPS (AX)(R9*2), Y2, Y2
	VADDPS (AX)(R10*1), Y3, Y3
	VADDPS Y2, Y0, Y0
	VADDPS Y3, Y1, Y1
	VADDPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, AX
	ADDQ $32, DI
	SUBQ $8, R8
	JNZ  eight
	VZEROUPPER
	RET
four:
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(R9*1), Y1
	VADDPS (SI)(R9*2), Y0, Y0
	VADDPS (SI)(R10*1), Y1, Y1
	VADDPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, R8
	JNZ  four
	VZEROUPPER
	RET

// func settleAVX2(dst []float32, stride int, acc []float32, rows int, add bool)
TEXT ·settleAVX2(SB), NOSPLIT, $0-65
	SETTLE(5, Y0, Y1, Y2, Y3, Y15)
