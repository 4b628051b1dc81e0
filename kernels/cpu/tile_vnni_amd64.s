//go:build !noasm

#include "textflag.h"
#include "tile_amd64.h"

// Sixteen rows of weights, one to a lane of 32 bits: Z0-Z7 hold 32 columns of them, four to a register, which meet the same four
// activations in every lane.

#define WORDS(imm, Z) MOVL imm, R13; VPBROADCASTD R13, Z

// Z0-Z7 = the weights plus 128, as unsigned bytes; Z24, Z25 scales of both half blocks.
#define LOAD_SIGNED \
	VPXORD (SI), Z31, Z0;    \
	VPXORD 64(SI), Z31, Z1;  \
	VPXORD 128(SI), Z31, Z2; \
	VPXORD 192(SI), Z31, Z3; \
	VPXORD 256(SI), Z31, Z4; \
	VPXORD 320(SI), Z31, Z5; \
	VPXORD 384(SI), Z31, Z6; \
	VPXORD 448(SI), Z31, Z7; \
	VMOVUPS (AX), Z24;       \
	VMOVUPS 64(AX), Z25

// Z0-Z7 = weights that are never negative; Z24 scales, Z25 minima.
#define LOAD_K \
	VMOVDQU32 (SI), Z0;    \
	VMOVDQU32 64(SI), Z1;  \
	VMOVDQU32 128(SI), Z2; \
	VMOVDQU32 192(SI), Z3; \
	VMOVDQU32 256(SI), Z4; \
	VMOVDQU32 320(SI), Z5; \
	VMOVDQU32 384(SI), Z6; \
	VMOVDQU32 448(SI), Z7; \
	VMOVUPS (AX), Z24;     \
	VMOVUPS (BX), Z25

// Z8 += products of the first or the second sixteen columns.
#define FIRST(Z) \
	VPDPBUSD.BCST (R13), Z0, Z;   \
	VPDPBUSD.BCST 4(R13), Z1, Z;  \
	VPDPBUSD.BCST 8(R13), Z2, Z;  \
	VPDPBUSD.BCST 12(R13), Z3, Z
#define SECOND(Z) \
	VPDPBUSD.BCST 16(R13), Z4, Z; \
	VPDPBUSD.BCST 20(R13), Z5, Z; \
	VPDPBUSD.BCST 24(R13), Z6, Z; \
	VPDPBUSD.BCST 28(R13), Z7, Z

// Adds the integers A times the scales D, times d, to Z10.
#define SCALED(A, D) \
	VCVTDQ2PS A, A;               \
	VMULPS.BCST (R14), D, Z9;     \
	VFMADD231PS A, Z9, Z10

// A row of activations. Z30, Z29 words of -128: for both halves, or for the first and the second.
#define ROW_32 \
	VPXOR X8, X8, X8;                    \
	VPDPWSSD.BCST (R14)(R15*1), Z30, Z8; \
	FIRST(Z8);                           \
	SECOND(Z8);                          \
	VMOVUPS (R12), Z10;                  \
	SCALED(Z8, Z24);                     \
	VMOVUPS Z10, (R12)
#define ROW_K \
	VPXOR X8, X8, X8;                       \
	FIRST(Z8);                              \
	SECOND(Z8);                             \
	VMOVUPS (R12), Z10;                     \
	SCALED(Z8, Z24);                        \
	VFNMADD231PS.BCST (R14)(R15*1), Z25, Z10; \
	VMOVUPS Z10, (R12)
#define ROW_6 \
	VPXOR X8, X8, X8;                     \
	VPXOR X11, X11, X11;                  \
	VPDPWSSD.BCST (R14)(R15*1), Z30, Z8;  \
	VPDPWSSD.BCST (R14)(R15*1), Z29, Z11; \
	FIRST(Z8);                            \
	SECOND(Z11);                          \
	VMOVUPS (R12), Z10;                   \
	SCALED(Z8, Z24);                      \
	SCALED(Z11, Z25);                     \
	VMOVUPS Z10, (R12)

// func tile32VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tile32VNNI(SB), NOSPLIT, $24-232
	TILE_ARGS(4)
	TILE_OFFSETS
	WORDS($0x80808080, Z31)
	WORDS($0xff80ff80, Z30)
	TILE(LOAD_SIGNED, ROW_32, 512, 128, 64)

// func tileKVNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileKVNNI(SB), NOSPLIT, $24-232
	TILE_ARGS(4)
	TILE(LOAD_K, ROW_K, 512, 128, 64)

// func tile6VNNI(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tile6VNNI(SB), NOSPLIT, $24-232
	TILE_ARGS(4)
	TILE_OFFSETS
	WORDS($0x80808080, Z31)
	WORDS($0x0000ff80, Z30)
	WORDS($0xff800000, Z29)
	TILE(LOAD_SIGNED, ROW_6, 512, 128, 64)
