//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"
#include "tile_arm64.h"

// The panel of SMMLA: a register has the same eight columns of two weight rows, which are multiplied with those of two
// tokens. For four tokens 16 SMMLA, 4 operations that put their sums in order, 12 in float32, and 2 (8 for all sixteen
// weight rows) that bring the activations together give 512 products: 8.5 cycles where there are four units, with
// SDOT 11.

// P and Q, of columns 0-15 and 16-31 of a token, and R and S of the next = columns 0-7, 8-15, 16-23, 24-31 of both.
#define TOGETHER(P, Q, R, S, A, B, C, D) \
	VZIP1 R.D2, P.D2, A.D2; \
	VZIP2 R.D2, P.D2, B.D2; \
	VZIP1 S.D2, Q.D2, C.D2; \
	VZIP2 S.D2, Q.D2, D.D2
#define LOAD_Q2 \
	FLDPQ.P 32(R6), (F16, F17); \
	FLDPQ.P 32(R7), (F18, F19); \
	TOGETHER(V16, V17, V18, V19, V0, V1, V2, V3)
#define LOAD_Q4 \
	LOAD_Q2; \
	FLDPQ.P 32(R8), (F20, F21); \
	FLDPQ.P 32(R9), (F22, F23); \
	TOGETHER(V20, V21, V22, V23, V4, V5, V6, V7)

#define FIRST 12
#define SECOND 16
#define FREE 16
#define FREE6 20

// Adds to p on the products of the columns of q and w: rows 0 and 1 of the weights, then 2 and 3, with a pair of
// activations; then with the other pair.
#define COLUMNS2(q, w, p) \
	SMMLA(q, w, p); \
	SMMLA(q, w+1, p+1)
#define COLUMNS4(q, w, p) \
	COLUMNS2(q, w, p); \
	COLUMNS2(q+4, w, p+2)
#define HALF(COLUMNS, q, w, p) \
	COLUMNS(q, w, p); \
	COLUMNS(q+1, w+2, p)

// C, D = the four sums of each of two tokens, from A and B.
#define UNZIP(A, B, C, D) \
	VUZP1 B.S4, A.S4, C.S4; \
	VUZP2 B.S4, A.S4, D.S4
#define DOT2 \
	ZERO2(16); \
	HALF(COLUMNS2, 0, 8, 16); \
	HALF(COLUMNS2, 2, 12, 16); \
	UNZIP(V16, V17, V12, V13)
#define DOT4 \
	ZERO4(16); \
	HALF(COLUMNS4, 0, 8, 16); \
	HALF(COLUMNS4, 2, 12, 16); \
	UNZIP(V16, V17, V12, V13); \
	UNZIP(V18, V19, V14, V15)
#define HALVES2 \
	ZERO2(16); \
	ZERO2(20); \
	HALF(COLUMNS2, 0, 8, 16); \
	HALF(COLUMNS2, 2, 12, 20); \
	UNZIP(V16, V17, V12, V13); \
	UNZIP(V20, V21, V16, V17)
#define HALVES4 \
	ZERO4(16); \
	ZERO4(20); \
	HALF(COLUMNS4, 0, 8, 16); \
	HALF(COLUMNS4, 2, 12, 20); \
	UNZIP(V16, V17, V12, V13); \
	UNZIP(V18, V19, V14, V15); \
	UNZIP(V20, V21, V16, V17); \
	UNZIP(V22, V23, V18, V19)

TEXT ·tile32SMMLA(SB), NOSPLIT, $16-8
	TILE(QUAD(GROUP32), PAIR(GROUP32), 2)

TEXT ·tileKSMMLA(SB), NOSPLIT, $16-8
	TILE(QUADK, PAIRK, 3)

TEXT ·tile6SMMLA(SB), NOSPLIT, $16-8
	TILE(QUAD(GROUP6), PAIR(GROUP6), 3)
