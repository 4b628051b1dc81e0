// The products of eight weight rows, one to a lane of 32 bits, with one or two tokens, in AVX-VNNI: for tiles, whose
// weights come from a panel, and for gemm8, which unpack them themselves. Y0-Y7 are the 32 columns of a block, four to
// a register, as unsigned bytes, Y13 their scales; DS2 is where those of the second half of a block stand if it has its
// own, MINS where their minima stand. Y14 words that make up for the offset.

#define DS Y13
#include "products_amd64.h"

// Register p += products of columns 4i to 4i+3 of the row Q. PRODUCTS: of one row to Y8, of a second one to Y9; LATER:
// to Y11 and Y12.
#define PRODUCT(i, Q, p) \
	VPBROADCASTD (4*i)Q, Y10; \
	DPBUSD(10, i, p)
#define PRODUCTS_1(i) PRODUCT(i, Q0, 8)
#define PRODUCTS_2(i) PRODUCTS_1(i); PRODUCT(i, Q1, 9)
#define LATER_1(i) PRODUCT(i, Q0, 11)
#define LATER_2(i) LATER_1(i); PRODUCT(i, Q1, 12)
#define BLOCK(FIRST, SECOND) \
	FIRST(0);  \
	SECOND(4); \
	FIRST(1);  \
	SECOND(5); \
	FIRST(2);  \
	SECOND(6); \
	FIRST(3);  \
	SECOND(7)

// A = what makes up for the offset of the weights, by the words in Y14. HALVED: A for the first half, B for the second.
#define OFFSET(S, A) \
	VPBROADCASTD S, Y10; \
	VPMADDWD Y14, Y10, A
#define HALVED(S, A, B) \
	OFFSET(S, A); \
	VPSRLD   $16, Y10, B; \
	VPMADDWD Y14, B, B

// The end of a row of Q6_K.
#define ADD_6(A, B, D, O) \
	VCVTDQ2PS    A, A;          \
	VCVTDQ2PS    B, B;          \
	VBROADCASTSS D, Y10;        \
	VMULPS       DS, Y10, Y10;  \
	VFMADD213PS  O(R12), Y10, A; \
	VBROADCASTSS D, Y10;        \
	VMULPS       DS2, Y10, Y10; \
	VFMADD231PS  B, Y10, A;     \
	VMOVUPS      A, O(R12)

// One row, or two.
#define ROW32_1 \
	OFFSET(S0, Y8); \
	BLOCK(PRODUCTS_1, PRODUCTS_1); \
	ADD_32(Y8, D0, 0)
#define ROW32_2 \
	OFFSET(S0, Y8); \
	OFFSET(S1, Y9); \
	BLOCK(PRODUCTS_2, PRODUCTS_2); \
	ADD_32(Y8, D0, 0); \
	ADD_32(Y9, D1, 32)
#define ROWK_1 \
	VPXOR Y8, Y8, Y8; \
	BLOCK(PRODUCTS_1, PRODUCTS_1); \
	ADD_K(Y8, D0, S0, 0)
#define ROWK_2 \
	VPXOR Y8, Y8, Y8; \
	VPXOR Y9, Y9, Y9; \
	BLOCK(PRODUCTS_2, PRODUCTS_2); \
	ADD_K(Y8, D0, S0, 0); \
	ADD_K(Y9, D1, S1, 32)
#define ROW6_1 \
	HALVED(S0, Y8, Y11); \
	BLOCK(PRODUCTS_1, LATER_1); \
	ADD_6(Y8, Y11, D0, 0)
#define ROW6_2 \
	HALVED(S0, Y8, Y11); \
	HALVED(S1, Y9, Y12); \
	BLOCK(PRODUCTS_2, LATER_2); \
	ADD_6(Y8, Y11, D0, 0); \
	ADD_6(Y9, Y12, D1, 32)
