//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"

#define HALF(w, q, p) \
	ZERO(p); \
	SDOT(q, w, p)
#define WHOLE(w, q, p) \
	HALF(w, q, p); \
	SDOT(q+1, w+1, p)

#include "gemv_arm64.h"

TEXT ·gemvQ8_0SDOT(SB), NOSPLIT, $0-8
	GEMV_Q8_0

TEXT ·gemvQ4_0SDOT(SB), NOSPLIT, $0-8
	GEMV_Q4_0

TEXT ·gemvQ5_0SDOT(SB), NOSPLIT, $0-8
	GEMV_Q5_0

TEXT ·gemvQ4_KSDOT(SB), NOSPLIT, $0-8
	GEMV_Q4_K

TEXT ·gemvQ5_KSDOT(SB), NOSPLIT, $0-8
	GEMV_Q5_K

TEXT ·gemvQ6_KSDOT(SB), NOSPLIT, $0-8
	GEMV_Q6_K
