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

TEXT ·gemvQ8_0NEON(SB), NOSPLIT, $0-8
	GEMV_Q8_0

TEXT ·gemvQ4_0NEON(SB), NOSPLIT, $0-8
	GEMV_Q4_0

TEXT ·gemvQ5_0NEON(SB), NOSPLIT, $0-8
	GEMV_Q5_0

TEXT ·gemvQ4_KNEON(SB), NOSPLIT, $0-8
	GEMV_Q4_K

TEXT ·gemvQ5_KNEON(SB), NOSPLIT, $0-8
	GEMV_Q5_K

TEXT ·gemvQ6_KNEON(SB), NOSPLIT, $0-8
	GEMV_Q6_K
