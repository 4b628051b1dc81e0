//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avxvnni_amd64.h"
#include "tile_amd64.h"

#define DS2 32(AX)
#define MINS (BX)
#include "products_avxvnni_amd64.h"

// The tiles of tile_avx2_amd64.s with the products of AVX-VNNI: eight weight rows, one to a lane of 32 bits.

// Y0-Y7 = the weights plus 128, as unsigned bytes.
#define LOAD_SIGNED \
	VPXOR (SI), Y15, Y0;    \
	VPXOR 32(SI), Y15, Y1;  \
	VPXOR 64(SI), Y15, Y2;  \
	VPXOR 96(SI), Y15, Y3;  \
	VPXOR 128(SI), Y15, Y4; \
	VPXOR 160(SI), Y15, Y5; \
	VPXOR 192(SI), Y15, Y6; \
	VPXOR 224(SI), Y15, Y7; \
	VMOVUPS (AX), Y13

// Y0-Y7 = weights that are never negative.
#define LOAD_K \
	VMOVDQU (SI), Y0;    \
	VMOVDQU 32(SI), Y1;  \
	VMOVDQU 64(SI), Y2;  \
	VMOVDQU 96(SI), Y3;  \
	VMOVDQU 128(SI), Y4; \
	VMOVDQU 160(SI), Y5; \
	VMOVDQU 192(SI), Y6; \
	VMOVDQU 224(SI), Y7; \
	VMOVUPS (AX), Y13

// func tile32AVXVNNI(a *tileArgs)
TEXT ·tile32AVXVNNI(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	TILE_OFFSETS
	WORDS($0x80808080, X15, Y15)
	WORDS($0xff80ff80, X14, Y14)
	LEAQ (R15)(R10*1), BP
	TILE2(LOAD_SIGNED, ROW32_1, ROW32_2)

// func tileKAVXVNNI(a *tileArgs)
TEXT ·tileKAVXVNNI(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	LEAQ (R15)(R10*1), BP
	TILE2(LOAD_K, ROWK_1, ROWK_2)

// func tile6AVXVNNI(a *tileArgs)
TEXT ·tile6AVXVNNI(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	TILE_OFFSETS
	WORDS($0x80808080, X15, Y15)
	WORDS($0x0000ff80, X14, Y14)
	LEAQ (R15)(R10*1), BP
	TILE2(LOAD_SIGNED, ROW6_1, ROW6_2)
