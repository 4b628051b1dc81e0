//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "prefetch_amd64.h"
#include "avxvnni_amd64.h"
#include "tile_amd64.h"

#define DS2 32(AX)
#define MINS 32(AX)
#include "products_avxvnni_amd64.h"
#include "gemm8k_amd64.h"

// Y0-Y7 = weights of Q8_0, plus 128: Y15.
#define PLUS128(A, Y) VPXOR Y15, Y, Y
#define GEMM8_Q8_0 \
	TRANSPOSE_LOW(2, Y10);    \
	LINE(0);             \
	LINE(1);             \
	TRANSPOSE_HIGH(18, Y10);  \
	LINE(2);             \
	LINE(3);             \
	GEMM8_SCALES(0);      \
	LINE(4);             \
	EACH(PLUS128, 0)

// func gemm8Q8_0AVXVNNI(a *gemmArgs)
TEXT ·gemm8Q8_0AVXVNNI(SB), 0, $2712-8
	WORDS($0x80808080, X15, Y15)
	WORDS($0xff80ff80, X14, Y14)
	GEMM832(GEMM8_Q8_0, 34, ROW32_1, ROW32_2)

// func gemm8Q4_0AVXVNNI(a *gemmArgs)
TEXT ·gemm8Q4_0AVXVNNI(SB), 0, $2712-8
	WORDS($0xfff8fff8, X14, Y14)
	GEMM832(GEMM8_Q4_0, 18, ROW32_1, ROW32_2)

// func gemm8Q5_0AVXVNNI(a *gemmArgs)
TEXT ·gemm8Q5_0AVXVNNI(SB), 0, $2712-8
	WORDS($0xfff0fff0, X14, Y14)
	GEMM832(GEMM8_Q5_0, 22, ROW32_1, ROW32_2)

// func gemm8Q4_KAVXVNNI(a *gemmArgs)
TEXT ·gemm8Q4_KAVXVNNI(SB), 0, $5528-8
	GEMM8K(HEADS_K, BLOCKS_Q4_K(ROWK_1, ROWK_2), 144, gemmArgs_s, 0)

// func gemm8Q5_KAVXVNNI(a *gemmArgs)
TEXT ·gemm8Q5_KAVXVNNI(SB), 0, $5528-8
	GEMM8K(HEADS_K, BLOCKS_Q5_K(ROWK_1, ROWK_2), 176, gemmArgs_s, 0)

// func gemm8Q6_KAVXVNNI(a *gemmArgs)
TEXT ·gemm8Q6_KAVXVNNI(SB), 0, $5528-8
	WORDS($0x0000ffe0, X14, Y14)
	GEMM8K(HEADS_6, BLOCKS_Q6_K(ROW6_1, ROW6_2), 210, gemmArgs_h, 82)
