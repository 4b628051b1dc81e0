//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// Products of bytes, summed by twos. Four of 63 and 127 fit in 16 bits, eight of 31 and 127: before they are widened,
// two of these sums are added in Q6_K and four in the other types.
#define DOTU(W, w, Q, P, p) VPMADDUBSW Q, W, P
#define ADDP VPADDW
#define WIDEN(P) VPMADDWD Y10, P, P
#define DOT_ONES SPLAT($0x00010001, X10, Y10)

// Q8_0 takes the magnitudes of its weights, and the activations with the sign of the weight: |W| ≤ 128 and |Q| ≤ 127,
// so two products add up to at most 32512. There is no offset.
#define Q8_0_CONST VPXOR Y9, Y9, Y9
#define Q8_0_DOT(w, q, P, p) \
	VMOVDQU    (2+w)(SI), Y1; \
	VPABSB     Y1, Y2;        \
	VMOVDQU    q(R11), P;     \
	VPSIGNB    Y1, P, P;      \
	VPMADDUBSW P, Y2, P;      \
	VPMADDWD   Y10, P, P
#define WIDE(P)

#include "sum_amd64.h"
#include "gemv_amd64.h"

// func gemvQ8_0AVX2(a *gemmArgs)
TEXT ·gemvQ8_0AVX2(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q8_0_CONST
	GEMV32(Q8_0_DOT, VPADDD, WIDE, 34)

// func gemvQ4_0AVX2(a *gemmArgs)
TEXT ·gemvQ4_0AVX2(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q4_0_CONST
	Q4_0_OFF
	GEMV32(Q4_0_DOT, ADDP, WIDEN, 18)

// func gemvQ5_0AVX2(a *gemmArgs)
TEXT ·gemvQ5_0AVX2(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q5_0_CONST
	Q5_0_OFF
	GEMV32(Q5_0_DOT, ADDP, WIDEN, 22)

// func gemvQ4_KAVX2(a *gemmArgs)
TEXT ·gemvQ4_KAVX2(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q4_K_CONST
	GEMVK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func gemvQ5_KAVX2(a *gemmArgs)
TEXT ·gemvQ5_KAVX2(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q5_K_CONST
	GEMVK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func gemvQ6_KAVX2(a *gemmArgs)
TEXT ·gemvQ6_KAVX2(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q6_K_CONST
	GEMV6
