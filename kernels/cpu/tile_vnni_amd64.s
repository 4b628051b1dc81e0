//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "tile_amd64.h"

// Sixteen weight rows, one to a lane of 32 bits: Z0-Z7 hold 32 columns of them, four to a register, which are
// multiplied with the same four activations in every lane.

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

// A token. Z30, Z29 words of -128: for both halves, or for the first and the second.
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

// TILE for two panels, with two tokens at a time by the macro TWO, and a last one by ONE; nothing is prefetched.
// NEXT_ROW goes on to the next row.
#define NEXT_ROW \
	ADDQ R9, R13;  \
	ADDQ R10, R14; \
	ADDQ $64, R12
#define TILE_OF_TWO(LOAD, ONE, TWO) \
blk: \
	LOAD; \
	MOVQ DX, R13;              \
	MOVQ CX, R14;              \
	MOVQ tokens-8(SP), R11;    \
	SUBQ $2, R11;              \
	JLT  one;                  \
two: \
	TWO; \
	NEXT_ROW;                  \
	SUBQ $2, R11;              \
	JGE  two;                  \
one: \
	CMPQ R11, $-2;             \
	JEQ  end;                  \
	ONE; \
	NEXT_ROW;                  \
end: \
	CMPQ R12, 0(SP);           \
	JNE  lane;                 \
	MOVQ DI, R12;              \
lane: \
	ADDQ $512, SI;             \
	ADDQ $128, AX;             \
	ADDQ $64, BX;              \
	ADDQ $32, DX;              \
	ADDQ $4, CX;               \
	SUBQ $512, 48(SP);         \
	JNZ  blk;                  \
	VZEROUPPER;                \
	RET

// Two panels at a time: the activations are loaded once for both, and their sums too, by which the offset counts. Z0-Z7
// the weights of the first panel, Z8-Z15 those of the second; Z16-Z19 sums of integers, Z24-Z27 scales and minima of
// both, Z28, Z29 sums. R8 is from the sums of the first to those of the second; 24(SP), 32(SP), 40(SP) the same of
// weights, scales and minima, 48(SP) bytes of weights left.
#define TILE2_ARGS \
	TILE_ARGS(4);                 \
	MOVQ tileArgs_wBytes(R11), R8; \
	SHRQ $1, R8;                  \
	MOVQ R8, 24(SP);              \
	MOVQ R8, 48(SP);              \
	MOVQ tileArgs_dsBytes(R11), R13; \
	SHRQ $1, R13;                 \
	MOVQ R13, 32(SP);             \
	MOVQ tileArgs_minsBytes(R11), R13; \
	SHRQ $1, R13;                 \
	MOVQ R13, 40(SP);             \
	MOVQ tileArgs_accBytes(R11), R8; \
	SHRQ $1, R8;                  \
	SUBQ R8, 0(SP)

// OP of the eight registers from W and the 512 bytes of weights at M.
#define EIGHT(OP, M, A, B, C, D, E, F, G, H) \
	OP(0 M, A);   \
	OP(64 M, B);  \
	OP(128 M, C); \
	OP(192 M, D); \
	OP(256 M, E); \
	OP(320 M, F); \
	OP(384 M, G); \
	OP(448 M, H)
#define FLIP(M, Z) VPXORD M, Z31, Z
#define TAKE(M, Z) VMOVDQU32 M, Z
#define LOAD2(OP) \
	MOVQ 24(SP), R13; \
	EIGHT(OP, (SI), Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7); \
	EIGHT(OP, (SI)(R13*1), Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15); \
	MOVQ 32(SP), R13; \
	VMOVUPS (AX), Z24; \
	VMOVUPS (AX)(R13*1), Z25
#define LOAD2_32 LOAD2(FLIP)
#define LOAD2_K \
	LOAD2(TAKE); \
	MOVQ 40(SP), R13; \
	VMOVUPS (BX), Z26; \
	VMOVUPS (BX)(R13*1), Z27
#define LOAD2_6 \
	LOAD2(FLIP); \
	VMOVUPS 64(AX), Z26; \
	VMOVUPS 64(AX)(R13*1), Z27

// A += products of four columns of the first panel, U, and B of the second, V.
#define COLUMNS(o, U, V, A, B) \
	VPBROADCASTD (o)(R13), Z20; \
	VPDPBUSD Z20, U, A; \
	VPDPBUSD Z20, V, B
#define FIRST2(A, B) \
	COLUMNS(0, Z0, Z8, A, B);  \
	COLUMNS(4, Z1, Z9, A, B);  \
	COLUMNS(8, Z2, Z10, A, B); \
	COLUMNS(12, Z3, Z11, A, B)
#define SECOND2(A, B) \
	COLUMNS(16, Z4, Z12, A, B); \
	COLUMNS(20, Z5, Z13, A, B); \
	COLUMNS(24, Z6, Z14, A, B); \
	COLUMNS(28, Z7, Z15, A, B)

// Adds the integers A and B times the scales D and E, times d, to Z28 and Z29. Z21 is d.
#define SCALED2(A, B, D, E) \
	VCVTDQ2PS A, A;       \
	VCVTDQ2PS B, B;       \
	VMULPS Z21, D, Z22;   \
	VMULPS Z21, E, Z23;   \
	VFMADD231PS A, Z22, Z28; \
	VFMADD231PS B, Z23, Z29
#define SUMS2 \
	VBROADCASTSS (R14), Z21;   \
	VMOVUPS (R12), Z28;        \
	VMOVUPS (R12)(R8*1), Z29
#define KEEP2 \
	VMOVUPS Z28, (R12);        \
	VMOVUPS Z29, (R12)(R8*1)

// Two tokens: their eight registers of products depend on one another in four chains, not two, so that fewer of them
// wait.
#define COLUMNS_BY2(o, U, V) \
	VPBROADCASTD (o)(R13), Z20;       \
	VPBROADCASTD (o)(R13)(R9*1), Z21; \
	VPDPBUSD Z20, U, Z16;             \
	VPDPBUSD Z20, V, Z17;             \
	VPDPBUSD Z21, U, Z18;             \
	VPDPBUSD Z21, V, Z19
#define PRODUCTS_BY2 \
	COLUMNS_BY2(0, Z0, Z8);   \
	COLUMNS_BY2(4, Z1, Z9);   \
	COLUMNS_BY2(8, Z2, Z10);  \
	COLUMNS_BY2(12, Z3, Z11); \
	COLUMNS_BY2(16, Z4, Z12); \
	COLUMNS_BY2(20, Z5, Z13); \
	COLUMNS_BY2(24, Z6, Z14); \
	COLUMNS_BY2(28, Z7, Z15)
#define END_32(A, B) \
	SUMS2;                     \
	SCALED2(A, B, Z24, Z25);   \
	KEEP2
#define END_K(A, B) \
	SUMS2;                     \
	SCALED2(A, B, Z24, Z25);   \
	VBROADCASTSS (R14)(R15*1), Z21; \
	VFNMADD231PS Z21, Z26, Z28; \
	VFNMADD231PS Z21, Z27, Z29; \
	KEEP2
#define ROWS2_32 \
	LEAQ (R14)(R10*1), BP;          \
	VPBROADCASTD (R14)(R15*1), Z16; \
	VPBROADCASTD (BP)(R15*1), Z18;  \
	VPMADDWD  Z30, Z16, Z16; \
	VPMADDWD  Z30, Z18, Z18; \
	VMOVDQA32 Z16, Z17;      \
	VMOVDQA32 Z18, Z19;      \
	PRODUCTS_BY2;            \
	END_32(Z16, Z17);        \
	NEXT_ROW;                \
	END_32(Z18, Z19)
#define ROWS2_K \
	VPXORD Z16, Z16, Z16;    \
	VPXORD Z17, Z17, Z17;    \
	VPXORD Z18, Z18, Z18;    \
	VPXORD Z19, Z19, Z19;    \
	PRODUCTS_BY2;            \
	END_K(Z16, Z17);         \
	NEXT_ROW;                \
	END_K(Z18, Z19)
#define ROWS2_6 \
	ROW2_6;   \
	NEXT_ROW; \
	ROW2_6

#define ROW2_32 \
	VPBROADCASTD (R14)(R15*1), Z16; \
	VPMADDWD  Z30, Z16, Z16; \
	VMOVDQA32 Z16, Z17;      \
	FIRST2(Z16, Z17);        \
	SECOND2(Z16, Z17);       \
	END_32(Z16, Z17)
#define ROW2_K \
	VPXORD Z16, Z16, Z16;    \
	VPXORD Z17, Z17, Z17;    \
	FIRST2(Z16, Z17);        \
	SECOND2(Z16, Z17);       \
	END_K(Z16, Z17)
#define ROW2_6 \
	VPBROADCASTD (R14)(R15*1), Z20; \
	VPMADDWD  Z30, Z20, Z16; \
	VPSLLD    $16, Z30, Z19;  \
	VPMADDWD  Z19, Z20, Z18; \
	VMOVDQA32 Z16, Z17;      \
	VMOVDQA32 Z18, Z19;      \
	FIRST2(Z16, Z17);        \
	SECOND2(Z18, Z19);       \
	SUMS2;                   \
	SCALED2(Z16, Z17, Z24, Z25); \
	SCALED2(Z18, Z19, Z26, Z27); \
	KEEP2

// func tile32VNNI(a *tileArgs)
TEXT ·tile32VNNI(SB), NOSPLIT, $32-8
	TILE_ARGS(4)
	TILE_OFFSETS
	WORDS($0x80808080, Z31)
	WORDS($0xff80ff80, Z30)
	TILE(LOAD_SIGNED, ROW_32, 512, 128, 64)

// func tileKVNNI(a *tileArgs)
TEXT ·tileKVNNI(SB), NOSPLIT, $32-8
	TILE_ARGS(4)
	TILE(LOAD_K, ROW_K, 512, 128, 64)

// func tile6VNNI(a *tileArgs)
TEXT ·tile6VNNI(SB), NOSPLIT, $32-8
	TILE_ARGS(4)
	TILE_OFFSETS
	WORDS($0x80808080, Z31)
	WORDS($0x0000ff80, Z30)
	WORDS($0xff800000, Z29)
	TILE(LOAD_SIGNED, ROW_6, 512, 128, 64)

// func tile32x2VNNI(a *tileArgs)
TEXT ·tile32x2VNNI(SB), NOSPLIT, $64-8
	TILE2_ARGS
	TILE_OFFSETS
	WORDS($0x80808080, Z31)
	WORDS($0xff80ff80, Z30)
	TILE_OF_TWO(LOAD2_32, ROW2_32, ROWS2_32)

// func tileKx2VNNI(a *tileArgs)
TEXT ·tileKx2VNNI(SB), NOSPLIT, $64-8
	TILE2_ARGS
	TILE_OF_TWO(LOAD2_K, ROW2_K, ROWS2_K)

// func tile6x2VNNI(a *tileArgs)
TEXT ·tile6x2VNNI(SB), NOSPLIT, $64-8
	TILE2_ARGS
	TILE_OFFSETS
	WORDS($0x80808080, Z31)
	WORDS($0x0000ff80, Z30)
	TILE_OF_TWO(LOAD2_6, ROW2_6, ROWS2_6)

// func epilogueAVX512(a *sumArgs)
TEXT ·epilogueAVX512(SB), NOSPLIT, $0-8
	EPILOGUE(6, Z0, Z1, Z2, Z3, Z31)
