//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"
#include "tile_arm64.h"

// The panel of SDOT: a register has the same four columns of four weight rows, which are multiplied with four
// activations in every lane. For four tokens 32 SDOT and 12 operations in float32 give 512 products: 11 cycles where
// there are four units, with 17 loads and stores beside them.

#define LOAD_Q2 \
	FLDPQ.P 32(R6), (F0, F1); \
	FLDPQ.P 32(R7), (F2, F3)
#define LOAD_Q4 \
	LOAD_Q2; \
	FLDPQ.P 32(R8), (F4, F5); \
	FLDPQ.P 32(R9), (F6, F7)

#define FIRST 16
#define SECOND 20
#define FREE 12
#define FREE6 12

// Adds to p on the products of columns 4i to 4i+3 of a half block, weights w: the first half for o = 0, the second for
// o = 1.
#define COLUMNS2(i, o, w, p) \
	SDOTE(i, o, w, p); \
	SDOTE(i, o+2, w, p+1)
#define COLUMNS4(i, o, w, p) \
	COLUMNS2(i, o, w, p); \
	SDOTE(i, o+4, w, p+2); \
	SDOTE(i, o+6, w, p+3)
#define HALF(COLUMNS, o, w, p) \
	COLUMNS(0, o, w, p); \
	COLUMNS(1, o, w+1, p); \
	COLUMNS(2, o, w+2, p); \
	COLUMNS(3, o, w+3, p)
#define DOT2 \
	ZERO2(16); \
	HALF(COLUMNS2, 0, 8, 16); \
	HALF(COLUMNS2, 1, 12, 16)
#define DOT4 \
	ZERO4(16); \
	HALF(COLUMNS4, 0, 8, 16); \
	HALF(COLUMNS4, 1, 12, 16)
#define HALVES2 \
	ZERO2(16); \
	ZERO2(20); \
	HALF(COLUMNS2, 0, 8, 16); \
	HALF(COLUMNS2, 1, 12, 20)
#define HALVES4 \
	ZERO4(16); \
	ZERO4(20); \
	HALF(COLUMNS4, 0, 8, 16); \
	HALF(COLUMNS4, 1, 12, 20)

TEXT ·tile32SDOT(SB), NOSPLIT, $16-8
	TILE(QUAD(GROUP32), PAIR(GROUP32), 2)

TEXT ·tileKSDOT(SB), NOSPLIT, $16-8
	TILE(QUADK, PAIRK, 3)

TEXT ·tile6SDOT(SB), NOSPLIT, $16-8
	TILE(QUAD(GROUP6), PAIR(GROUP6), 3)
