//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "prefetch_amd64.h"
#include "tile_amd64.h"

#define DS (AX)
#define DS2 32(AX)
#define MINS 32(AX)
#include "products_avx2_amd64.h"
#include "gemm8k_amd64.h"

// Weights of Q8_0: those of the first half of a block are multiplied with all tokens, what they give waits on the stack
// for those of the second. Meanwhile what is prefetched is in 8(SP) and R12 in 32(SP). BX is set again with the next
// block.
#define GEMM8_Q8_0 \
	TRANSPOSE_HIGH(2, Y10);     \
	LINE(0);               \
	MAGNITUDES;            \
	LINE(1);               \
	GEMM8_SCALES(0);        \
	MOVQ R12, 32(SP);      \
	LEAQ 64(AX), R12;      \
	PAIRS(Q8_0_FIRST_1, Q8_0_FIRST_2, firsttwo, firstone, firstend) \
	MOVQ 8(SP), R14;       \
	MOVQ 32(SP), R12;      \
	TRANSPOSE_HIGH(18, Y10);    \
	LINE(2);               \
	LINE(3);               \
	MAGNITUDES;            \
	LINE(4);               \
	LEAQ 64(AX), BX

// func gemm8Q8_0AVX2(a *gemmArgs)
TEXT ·gemm8Q8_0AVX2(SB), 0, $2712-8
	WORDS($0x00010001, X14, Y14)
	GEMM832(GEMM8_Q8_0, 34, Q8_0_1, Q8_0_2)

// func gemm8Q4_0AVX2(a *gemmArgs)
TEXT ·gemm8Q4_0AVX2(SB), 0, $2712-8
	WORDS($0x00010001, X14, Y14)
	WORDS($0xfff8fff8, X15, Y15)
	GEMM832(GEMM8_Q4_0, 18, Q4_0_1, Q4_0_2)

// func gemm8Q5_0AVX2(a *gemmArgs)
TEXT ·gemm8Q5_0AVX2(SB), 0, $2712-8
	WORDS($0x00010001, X14, Y14)
	WORDS($0xfff0fff0, X15, Y15)
	GEMM832(GEMM8_Q5_0, 22, Q5_0_1, Q5_0_2)

// func gemm8Q4_KAVX2(a *gemmArgs)
TEXT ·gemm8Q4_KAVX2(SB), 0, $5528-8
	WORDS($0x00010001, X14, Y14)
	GEMM8K(HEADS_K, BLOCKS_Q4_K(Q4_K_1, Q4_K_2), 144, gemmArgs_s, 0)

// func gemm8Q5_KAVX2(a *gemmArgs)
TEXT ·gemm8Q5_KAVX2(SB), 0, $5528-8
	WORDS($0x00010001, X14, Y14)
	GEMM8K(HEADS_K, BLOCKS_Q5_K(Q5_K_1, Q5_K_2), 176, gemmArgs_s, 0)

// func gemm8Q6_KAVX2(a *gemmArgs)
TEXT ·gemm8Q6_KAVX2(SB), 0, $5528-8
	WORDS($0x00010001, X14, Y14)
	GEMM8K(HEADS_6, BLOCKS_Q6_K(Q6_K_1, Q6_K_2), 210, gemmArgs_h, 82)
