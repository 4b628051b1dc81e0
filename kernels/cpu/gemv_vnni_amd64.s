//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// VPDPBUSD adds four products of an unsigned and a signed byte to an int32.
#define DOTU(W, w, Q, P, p) \
	VPXOR    P, P, P;    \
	VPDPBUSD Q, W, P
#define ADDP VPADDD
#define WIDEN(P)
#define DOT_ONES

// Q8_0 takes its weights as unsigned bytes, 128 more than they are.
#define Q8_0_CONST \
	SPLAT($0x80808080, X15, Y15); \
	SPLAT($0xff80ff80, X9, Y9)
#define Q8_0_DOT(w, q, P, p) \
	VPXOR (2+w)(SI), Y15, Y1; \
	DOTU(Y1, 1, q(R11), P, p)

// Q5_0 takes its high bits as a mask of where to add 16.
#define Q5_0_MASKED(w, q, P, p) \
	VMOVDQU     (6+w)(SI), X1;   \
	VPSRLW      $4, X1, X2;      \
	VINSERTI128 $1, X2, Y1, Y1;  \
	VPAND       Y15, Y1, Y1;     \
	KMOVD       (2+w)(SI), K1;   \
	VPADDB      Y12, Y1, K1, Y1; \
	DOTU(Y1, 1, q(R11), P, p)

#include "sum_amd64.h"
#include "gemv_amd64.h"

// func gemvQ8_0VNNI(a *gemmArgs)
TEXT ·gemvQ8_0VNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q8_0_CONST
	GEMV32(Q8_0_DOT, ADDP, WIDEN, 34)

// func gemvQ4_0VNNI(a *gemmArgs)
TEXT ·gemvQ4_0VNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q4_0_CONST
	Q4_0_OFF
	GEMV32(Q4_0_DOT, ADDP, WIDEN, 18)

// func gemvQ5_0VNNI(a *gemmArgs)
TEXT ·gemvQ5_0VNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q5_0_CONST
	Q5_0_OFF
	GEMV32(Q5_0_MASKED, ADDP, WIDEN, 22)

// func gemvQ4_KVNNI(a *gemmArgs)
TEXT ·gemvQ4_KVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q4_K_CONST
	GEMVK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func gemvQ5_KVNNI(a *gemmArgs)
TEXT ·gemvQ5_KVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q5_K_CONST
	GEMVK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func gemvQ6_KVNNI(a *gemmArgs)
TEXT ·gemvQ6_KVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q6_K_CONST
	GEMV6
