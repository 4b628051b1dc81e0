// The products of eight weight rows, one to a lane of 32 bits, with one or two tokens, in AVX2: for tiles, whose
// weights come from a panel, and for gemm8, which unpack them themselves. Y0-Y7 are the 32 columns of a block, four to
// a register, as unsigned bytes; DS is where their scales stand, DS2 where those of the second half of a block do if it
// has its own, MINS where their minima stand. Y14 words of 1, Y15 words that make up for the offset.

#include "products_amd64.h"

// P = products of columns 4i to 4i+3 of the row Q, by twos. SUM adds them to A.
#define PRODUCTS(i, W, Q, P) \
	VPBROADCASTD (4*i)Q, P; \
	VPMADDUBSW   P, W, P
#define SUM(i, W, Q, T, A) \
	PRODUCTS(i, W, Q, T); \
	VPADDW T, A, A

// Weights of eight bits, half a block at a time: Y0-Y3 the magnitudes of sixteen columns, Y4-Y7 the weights themselves,
// whose signs activations take; two products of 128 and 127 fit in 16 bits. P = products of columns 4i to 4i+3, by
// fours.
#define BYTES(i, W, S, Q, P) \
	VPBROADCASTD (4*(i))Q, P;  \
	VPSIGNB      S, P, P;      \
	VPMADDUBSW   P, W, P;      \
	VPMADDWD     Y14, P, P
#define MAGNITUDES \
	VPABSB Y4, Y0; \
	VPABSB Y5, Y1; \
	VPABSB Y6, Y2; \
	VPABSB Y7, Y3
#define FIRST_BYTES_1(i) BYTES(i, Y0, Y4, Q0, Y8)
#define FIRST_BYTES_2(i) \
	FIRST_BYTES_1(i); \
	BYTES(i, Y0, Y4, Q1, Y9)
#define BYTES_1(i, W, S) \
	BYTES(i, W, S, Q0, Y10); \
	VPADDD Y10, Y8, Y8
#define BYTES_2(i, W, S) \
	BYTES_1(i, W, S); \
	BYTES(i, W, S, Q1, Y11); \
	VPADDD Y11, Y9, Y9
#define EIGHTBITS(i, FIRST, STEP) \
	FIRST(i); \
	STEP((i+1), Y1, Y5); \
	STEP((i+2), Y2, Y6); \
	STEP((i+3), Y3, Y7)

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

// Weights of six bits: four products of 63 and 127 fit. A += products of columns 4i to 4i+7; FIRST_SIX: A = those less
// A.
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

// The end of a row of Q6_K.
#define ADD_6(A, B, D, O) \
	VMOVUPS O(R12), Y11; \
	SCALED(A, D, DS, Y11);   \
	SCALED(B, D, DS2, Y11); \
	VMOVUPS Y11, O(R12)

// One row, or two. Q8_0_FIRST: of the first half of a block, to R12; the others take that from BX, which moves on.
#define Q8_0_FIRST_1 \
	EIGHTBITS(0, FIRST_BYTES_1, BYTES_1); \
	VMOVDQU Y8, (R12)
#define Q8_0_FIRST_2 \
	EIGHTBITS(0, FIRST_BYTES_2, BYTES_2); \
	VMOVDQU Y8, (R12);   \
	VMOVDQU Y9, 32(R12)
#define Q8_0_1 \
	EIGHTBITS(4, FIRST_BYTES_1, BYTES_1); \
	VPADDD (BX), Y8, Y8; \
	ADD_32(Y8, D0, 0)
#define Q8_0_2 \
	EIGHTBITS(4, FIRST_BYTES_2, BYTES_2); \
	VPADDD (BX), Y8, Y8;   \
	VPADDD 32(BX), Y9, Y9; \
	ADDQ   $64, BX;        \
	ADD_32(Y8, D0, 0);     \
	ADD_32(Y9, D1, 32)
#define ROW32_1(PRODUCTS) \
	PRODUCTS; \
	OFFSET(S0, Y8); \
	ADD_32(Y8, D0, 0)
#define ROW32_2(PRODUCTS) \
	PRODUCTS; \
	OFFSET(S0, Y8); \
	OFFSET(S1, Y9); \
	ADD_32(Y8, D0, 0); \
	ADD_32(Y9, D1, 32)
#define Q4_0_1 ROW32_1(FOURBITS_1)
#define Q4_0_2 ROW32_2(FOURBITS_2)
#define Q5_0_1 ROW32_1(FIVEBITS_1)
#define Q5_0_2 ROW32_2(FIVEBITS_2)
#define ROWK_1(PRODUCTS) \
	PRODUCTS; \
	ADD_K(Y8, D0, S0, 0)
#define ROWK_2(PRODUCTS) \
	PRODUCTS; \
	ADD_K(Y8, D0, S0, 0); \
	ADD_K(Y9, D1, S1, 32)
#define Q4_K_1 ROWK_1(FOURBITS_1)
#define Q4_K_2 ROWK_2(FOURBITS_2)
#define Q5_K_1 ROWK_1(FIVEBITS_1)
#define Q5_K_2 ROWK_2(FIVEBITS_2)
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
