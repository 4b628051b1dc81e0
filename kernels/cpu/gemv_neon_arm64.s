//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"

// |weight| ≤ 128 and |activation| ≤ 127: two products add up to at most 32512 and fit in 16 bits.
#define HALF(w, q, p) \
	SMULL(q, w, p); \
	SMLAL2(q, w, p); \
	SADDLP(p, p)
#define WHOLE(w, q, p) \
	HALF(w, q, p); \
	SMULL(q+1, w+1, 10); \
	SMLAL2(q+1, w+1, 10); \
	SADALP(10, p)

#include "gemv_arm64.h"

// func gemvQ8_0NEON(a *gemmArgs)
TEXT ·gemvQ8_0NEON(SB), NOSPLIT, $0-8
	GEMV_ARGS
	GEMV32(Q8_0_LOAD, NO_OFF, NO_OFF, 34)

// func gemvQ4_0NEON(a *gemmArgs)
TEXT ·gemvQ4_0NEON(SB), NOSPLIT, $0-8
	GEMV_ARGS
	Q4_0_CONST
	GEMV32(Q4_0_LOAD, Q4_0_OFF4, Q4_0_OFF1, 18)

// func gemvQ5_0NEON(a *gemmArgs)
TEXT ·gemvQ5_0NEON(SB), NOSPLIT, $0-8
	GEMV_ARGS
	Q5_0_CONST
	GEMV32(Q5_0_LOAD, NO_OFF, NO_OFF, 22)

// func gemvQ4_KNEON(a *gemmArgs)
TEXT ·gemvQ4_KNEON(SB), NOSPLIT, $0-8
	GEMV_ARGS
	Q4_K_CONST
	GEMVK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func gemvQ5_KNEON(a *gemmArgs)
TEXT ·gemvQ5_KNEON(SB), NOSPLIT, $0-8
	GEMV_ARGS
	Q5_K_CONST
	GEMVK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func gemvQ6_KNEON(a *gemmArgs)
TEXT ·gemvQ6_KNEON(SB), NOSPLIT, $0-8
	GEMV_ARGS
	Q6_K_CONST
	GEMV6
