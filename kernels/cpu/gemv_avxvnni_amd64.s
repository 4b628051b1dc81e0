//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avxvnni_amd64.h"

#define DOTU(W, w, Q, P, p) \
	VMOVDQU Q, Y10;  \
	VPXOR   P, P, P; \
	DPBUSD(10, w, p)
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

#include "sum_amd64.h"
#include "gemv_amd64.h"

// func gemvQ8_0AVXVNNI(a *gemmArgs)
TEXT ·gemvQ8_0AVXVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q8_0_CONST
	GEMV32(Q8_0_DOT, ADDP, WIDEN, 34)

// func gemvQ4_0AVXVNNI(a *gemmArgs)
TEXT ·gemvQ4_0AVXVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q4_0_CONST
	Q4_0_OFF
	GEMV32(Q4_0_DOT, ADDP, WIDEN, 18)

// func gemvQ5_0AVXVNNI(a *gemmArgs)
TEXT ·gemvQ5_0AVXVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q5_0_CONST
	Q5_0_OFF
	GEMV32(Q5_0_DOT, ADDP, WIDEN, 22)

// func gemvQ4_KAVXVNNI(a *gemmArgs)
TEXT ·gemvQ4_KAVXVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q4_K_CONST
	GEMVK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func gemvQ5_KAVXVNNI(a *gemmArgs)
TEXT ·gemvQ5_KAVXVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q5_K_CONST
	GEMVK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func gemvQ6_KAVXVNNI(a *gemmArgs)
TEXT ·gemvQ6_KAVXVNNI(SB), NOSPLIT, $0-8
	GEMV_ARGS
	DOT_ONES
	Q6_K_CONST
	GEMV6
