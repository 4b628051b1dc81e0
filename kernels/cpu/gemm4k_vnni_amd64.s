//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "prefetch_amd64.h"
#include "gemm4_amd64.h"

// gemm4 for the types with blocks of 256, half a block at a time: the second half has sums of its own, which wait in
// memory, at 128(BP). HEADS sets Z24 and Z25, scales and minima or the scales of the first and the second sixteen
// columns, and leaves those for the second half at 0(BP) and 64(BP), which is a multiple of 64. Z26 for anything beside
// ACT.
#define GEMM4K(HEADS, FIRST, SECOND, ACT, LATE, size) \
	LEAQ 63(SP), BP;        \
	ANDQ $-64, BP;          \
outputs4: \
	BEGIN4;                 \
	EACH_LATER(CLEAR);      \
blk: \
	HEADS;                  \
	FIRST;                  \
	ACTS(ACT, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, half) \
	ADDQ $16, R14;          \
	VMOVUPS 0(BP), Z24;     \
	VMOVUPS 64(BP), Z25;    \
	SECOND;                 \
	ACTS(LATE, 128, 192, 256, 320, 384, 448, 512, 576, all) \
	MOVE4(size, blk);       \
	EACH_LATER(JOIN);       \
	END4(outputs4, put)

// OP of the sums of the first half of a block and those of the second.
#define EACH_LATER(OP) \
	OP(Z16, 128(BP)); \
	OP(Z17, 192(BP)); \
	OP(Z18, 256(BP)); \
	OP(Z19, 320(BP)); \
	OP(Z20, 384(BP)); \
	OP(Z21, 448(BP)); \
	OP(Z22, 512(BP)); \
	OP(Z23, 576(BP))
#define CLEAR(A, B) VMOVUPS A, B
#define JOIN(A, B) VADDPS B, A, A
#define LATER(ACT, o) \
	VMOVUPS (o)(BP), Z26; \
	ACT(Z26);             \
	VMOVUPS Z26, (o)(BP)

// V, W = the nibbles of the 64 bytes at R that are columns 0 to 15 and 16 to 31 of four blocks: sixteen bytes to a
// quarter, those in v and in w, from which the shifts Z29 take the low or the high nibbles.
#define NIBBLES(R, v, w, V, W) \
	VMOVDQU32  R, Z8;           \
	VSHUFI32X4 $v, Z8, Z8, V;   \
	VSHUFI32X4 $w, Z8, Z8, W;   \
	VPSRLVD    Z29, V, V;       \
	VPSRLVD    Z29, W, W;       \
	VPANDD     Z31, V, V;       \
	VPANDD     Z31, W, W

// V and W |= the bits Z15 of the 32 bytes at R and R16, rotated by Z26, which differs from block to block.
#define HIGH(R, R16, V, W) \
	VBROADCASTI32X4 R, Z8;        \
	VBROADCASTI32X4 R16, Z9;      \
	VPROLVD    Z26, Z8, Z8;       \
	VPROLVD    Z26, Z9, Z9;       \
	VPTERNLOGD $0xf8, Z15, Z8, V; \
	VPTERNLOGD $0xf8, Z15, Z9, W

// Half a block of four rows of Q4_K; the lines from this one on are prefetched. In each 32 bytes two blocks.
#define Q4_K_HALF(o, line) \
	NIBBLES((o)(SI), 0xa0, 0xf5, Z0, Z1);         \
	PREFETCH_NEXT(line);                                  \
	PREFETCH_NEXT(line+1);                                \
	NIBBLES((o)(SI)(R12*1), 0xa0, 0xf5, Z2, Z3);  \
	PREFETCH_NEXT(line+2);                                \
	NIBBLES((o)(SI)(R12*2), 0xa0, 0xf5, Z4, Z5);  \
	PREFETCH_NEXT(line+3);                                \
	NIBBLES((o)(BX), 0xa0, 0xf5, Z6, Z7)

// The same of Q5_K, whose high bits are bits 0 to 3 or 4 to 7 of the bytes at 16, by ROTATE.
#define Q5_K_ROW(R, R16, R32, V, W) \
	NIBBLES(R, 0xa0, 0xf5, V, W); \
	HIGH(R16, R32, V, W)
#define Q5_K_HALF(o, ROTATE, line) \
	VMOVDQU32 ROTATE, Z26;                                              \
	Q5_K_ROW((o)(SI), 16(SI), 32(SI), Z0, Z1);                        \
	PREFETCH_NEXT(line);                                                      \
	PREFETCH_NEXT(line+1);                                                    \
	Q5_K_ROW((o)(SI)(R12*1), 16(SI)(R12*1), 32(SI)(R12*1), Z2, Z3);   \
	PREFETCH_NEXT(line+2);                                                    \
	PREFETCH_NEXT(line+3);                                                    \
	Q5_K_ROW((o)(SI)(R12*2), 16(SI)(R12*2), 32(SI)(R12*2), Z4, Z5);   \
	PREFETCH_NEXT(line+4);                                                    \
	Q5_K_ROW((o)(BX), 16(BX), 32(BX), Z6, Z7)

// The same of Q6_K: in 64 bytes the low nibbles are blocks 0 and 1 and the high ones blocks 2 and 3.
#define Q6_K_ROW(R, H, H16, V, W) \
	NIBBLES(R, 0x88, 0xdd, V, W); \
	HIGH(H, H16, V, W)
#define Q6_K_HALF(ql, qh, line) \
	VMOVDQU32 quad6<>+96(SB), Z26;                                           \
	Q6_K_ROW((ql)(SI), (qh)(SI), (qh+16)(SI), Z0, Z1);                       \
	PREFETCH_NEXT(line);                                                             \
	PREFETCH_NEXT(line+1);                                                           \
	Q6_K_ROW((ql)(SI)(R12*1), (qh)(SI)(R12*1), (qh+16)(SI)(R12*1), Z2, Z3);  \
	PREFETCH_NEXT(line+2);                                                           \
	PREFETCH_NEXT(line+3);                                                           \
	Q6_K_ROW((ql)(SI)(R12*2), (qh)(SI)(R12*2), (qh+16)(SI)(R12*2), Z4, Z5);  \
	PREFETCH_NEXT(line+4);                                                           \
	PREFETCH_NEXT(line+5);                                                           \
	Q6_K_ROW((ql)(BX), (qh)(BX), (qh+16)(BX), Z6, Z7)

// Z = 16 bytes at o of the four rows, one to each quarter.
#define LOAD4(o, X, Y, Z) \
	VMOVDQU      (o)(SI), X;                \
	VINSERTI128  $1, (o)(SI)(R12*1), Y, Y;  \
	VINSERTI32X4 $2, (o)(SI)(R12*2), Z, Z;  \
	VINSERTI32X4 $3, (o)(BX), Z, Z

// Z = the integers of Z, a quarter for each row and a dword for each block, rotated by Z13 to a quarter for each block,
// times D.
#define SCALED(D, Z) \
	VPERMD    Z, Z13, Z;  \
	VCVTDQ2PS Z, Z;       \
	VMULPS    D, Z, Z

// Z24 and Z8 by D, Z25 and Z9 by E, SCALED: the first of each for the first half of a block, the others kept for the
// second.
#define SCALED_ALL(D, E) \
	SCALED(D, Z24);      \
	SCALED(E, Z25);      \
	SCALED(D, Z8);       \
	SCALED(E, Z9);       \
	VMOVUPS Z8, 0(BP);   \
	VMOVUPS Z9, 64(BP)

// The scales of Q4_K and Q5_K, and their minima: see scalesK.
#define HEADS_K \
	PREFETCH_NEXT(0);                            \
	LOAD4(0, X0, Y0, Z0);                \
	VMOVDQU32 quadk<>+64(SB), Z13;       \
	VMOVDQU quadk<>+128(SB), Y10;        \
	VPERMW Z0, Z10, Z1;                  \
	VPSRLD $16, Z0, Z2;                  \
	VPERMW Z2, Z10, Z2;                  \
	VCVTPH2PS Y1, Z1;                    \
	VCVTPH2PS Y2, Z2;                    \
	VPANDD.BCST quadk<>+32(SB), Z0, Z3;  \ // the first four of each: bytes 4 to 7 scales, 8 to 11 minima
	VPSRLW $2, Z0, Z4;                   \
	VPSHUFD $0xff, Z0, Z5;               \ // the last four: two bits from Z4, four from Z5
	VBROADCASTI32X4 quadk<>+40(SB), Z6;  \
	VPSRLVD Z6, Z5, Z5;                  \
	VPANDD Z31, Z5, Z5;                  \
	VPTERNLOGD.BCST $0xf8, quadk<>+36(SB), Z4, Z5; \
	VBROADCASTI32X4 quadk<>+0(SB), Z6;   \
	VBROADCASTI32X4 quadk<>+16(SB), Z7;  \
	VPSHUFB Z6, Z3, Z24;                 \
	VPSHUFB Z7, Z3, Z25;                 \
	VPSHUFB Z6, Z5, Z8;                  \
	VPSHUFB Z7, Z5, Z9;                  \
	SCALED_ALL(Z1, Z2)

// The scales of Q6_K, of columns 0 to 15 and 16 to 31 of each block.
#define HEADS_6 \
	PREFETCH_NEXT(0);                            \
	LOAD4(192, X0, Y0, Z0);              \
	VPBROADCASTW 208(SI), Y1;            \
	VPBROADCASTW 208(SI)(R12*1), K1, Y1; \
	VPBROADCASTW 208(SI)(R12*2), K2, Y1; \
	VPBROADCASTW 208(BX), K3, Y1;        \
	VCVTPH2PS Y1, Z1;                    \
	VMOVDQU32 quadk<>+64(SB), Z13;       \
	VBROADCASTI32X4 quad6<>+0(SB), Z6;   \
	VBROADCASTI32X4 quad6<>+16(SB), Z7;  \
	VPSHUFB Z6, Z0, Z25;                 \ // two bytes, in the upper half of each dword
	VPSHUFB Z7, Z0, Z9;                  \
	PREFETCH_NEXT(1);                            \
	VPSLLD $8, Z25, Z24;                 \
	VPSLLD $8, Z9, Z8;                   \
	VPSRAD $24, Z24, Z24;                \
	VPSRAD $24, Z25, Z25;                \
	VPSRAD $24, Z8, Z8;                  \
	VPSRAD $24, Z9, Z9;                  \
	SCALED_ALL(Z1, Z1)

// Adds four blocks of a token to A and subtracts their minima.
#define ACT_K(SUM, A) \
	DOTS;          \
	NO_OFFSET;     \
	SUM;           \
	ADD4(Z24, A);  \
	QUARTERS(R13); \
	VFNMADD231PS Z12, Z25, A
#define Q4_K_ACT(A) ACT_K(SUM4, A)
#define Q5_K_ACT(A) ACT_K(SUM5, A)
#define Q4_K_LATER(o) LATER(Q4_K_ACT, o)
#define Q5_K_LATER(o) LATER(Q5_K_ACT, o)

// Adds four blocks of a token to A, columns 0 to 15 first, which have scales and an offset of their own.
#define HALF(W, P) \
	VPXORD   P, P, P;   \
	VPDPBUSD Z12, W, P
#define HALVES(V, W, X, Y, o, OFF, D, A) \
	VMOVDQU32 (o)(AX)(R14*8), Z12; \
	HALF(V, Z8);   \
	HALF(W, Z9);   \
	HALF(X, Z10);  \
	HALF(Y, Z11);  \
	OFF;           \
	SUM5;          \
	ADD4(D, A)
#define OFFSET_LATER \
	VPSRLD   $16, (R13)(R11*1), X14; \
	VPMADDWD X30, X14, X14;          \
	VPERMD   Z14, Z28, Z14
#define Q6_K_ACT(A) \
	HALVES(Z0, Z2, Z4, Z6, 0, OFFSET, Z24, A); \
	HALVES(Z1, Z3, Z5, Z7, 64, OFFSET_LATER, Z25, A)
#define Q6_K_LATER(o) LATER(Q6_K_ACT, o)

// func gemm4Q4_KVNNI(a *gemmArgs)
TEXT ·gemm4Q4_KVNNI(SB), 0, $712-8
	GEMM4_ARGS(144, 8, 0, 4096)
	MOVQ a+0(FP), AX
	MOVQ gemmArgs_s(AX), R13
	VMOVDQU32 quadk<>+160(SB), Z29
	GEMM4K(HEADS_K, Q4_K_HALF(16, 1), Q4_K_HALF(80, 5), Q4_K_ACT, Q4_K_LATER, 144)

// func gemm4Q5_KVNNI(a *gemmArgs)
// Z15 bit 4 of each byte.
TEXT ·gemm4Q5_KVNNI(SB), 0, $712-8
	GEMM4_ARGS(176, 8, 0, 4096)
	MOVQ a+0(FP), AX
	MOVQ gemmArgs_s(AX), R13
	WORDS(0x10101010, Z15)
	VMOVDQU32 quadk<>+160(SB), Z29
	GEMM4K(HEADS_K, Q5_K_HALF(48, quad5<>+0(SB), 1), Q5_K_HALF(112, quad5<>+64(SB), 6), Q5_K_ACT, Q5_K_LATER, 176)

// func gemm4Q6_KVNNI(a *gemmArgs)
// Z15 bits 4 and 5 of each byte, Z30 words of the offset for columns 0 to 15 of a block, zeros for the others.
TEXT ·gemm4Q6_KVNNI(SB), 0, $712-8
	GEMM4_ARGS(210, 8, 0x0000ffe0, 4096)
	WORDS(0x30303030, Z15)
	VMOVDQU32 quad6<>+32(SB), Z29
	GEMM4K(HEADS_6, Q6_K_HALF(0, 128, 2), Q6_K_HALF(64, 160, 8), Q6_K_ACT, Q6_K_LATER, 210)

// Bytes 4 to 7 and 8 to 11, each to a dword; the low six bits of bytes, bits 4 and 5; how far to shift the dwords with
// the low bits of the last four scales and minima; dword 4r+b at 4b+r; words of d of rows, at 4b+r; shifts for low and
// high nibbles alternately.
DATA quadk<>+0(SB)/8, $0x8080800580808004
DATA quadk<>+8(SB)/8, $0x8080800780808006
DATA quadk<>+16(SB)/8, $0x8080800980808008
DATA quadk<>+24(SB)/8, $0x8080800b8080800a
DATA quadk<>+32(SB)/4, $0x3f3f3f3f
DATA quadk<>+36(SB)/4, $0x30303030
DATA quadk<>+40(SB)/8, $0
DATA quadk<>+48(SB)/8, $4
DATA quadk<>+56(SB)/8, $0
DATA quadk<>+64(SB)/8, $0x0000000400000000
DATA quadk<>+72(SB)/8, $0x0000000c00000008
DATA quadk<>+80(SB)/8, $0x0000000500000001
DATA quadk<>+88(SB)/8, $0x0000000d00000009
DATA quadk<>+96(SB)/8, $0x0000000600000002
DATA quadk<>+104(SB)/8, $0x0000000e0000000a
DATA quadk<>+112(SB)/8, $0x0000000700000003
DATA quadk<>+120(SB)/8, $0x0000000f0000000b
DATA quadk<>+128(SB)/8, $0x0018001000080000
DATA quadk<>+136(SB)/8, $0x0018001000080000
DATA quadk<>+144(SB)/8, $0x0018001000080000
DATA quadk<>+152(SB)/8, $0x0018001000080000
DATA quadk<>+160(SB)/8, $0x0000000000000000
DATA quadk<>+168(SB)/8, $0x0000000000000000
DATA quadk<>+176(SB)/8, $0x0000000400000004
DATA quadk<>+184(SB)/8, $0x0000000400000004
DATA quadk<>+192(SB)/8, $0x0000000000000000
DATA quadk<>+200(SB)/8, $0x0000000000000000
DATA quadk<>+208(SB)/8, $0x0000000400000004
DATA quadk<>+216(SB)/8, $0x0000000400000004
GLOBL quadk<>(SB), RODATA|NOPTR, $224

// How far the dwords with the high bits of Q5_K rotate left to bring them to bit 4, in each half of a block.
DATA quad5<>+0(SB)/8, $0x0000000400000004
DATA quad5<>+8(SB)/8, $0x0000000400000004
DATA quad5<>+16(SB)/8, $0x0000000300000003
DATA quad5<>+24(SB)/8, $0x0000000300000003
DATA quad5<>+32(SB)/8, $0x0000000200000002
DATA quad5<>+40(SB)/8, $0x0000000200000002
DATA quad5<>+48(SB)/8, $0x0000000100000001
DATA quad5<>+56(SB)/8, $0x0000000100000001
DATA quad5<>+64(SB)/8, $0x0000000000000000
DATA quad5<>+72(SB)/8, $0x0000000000000000
DATA quad5<>+80(SB)/8, $0x0000001f0000001f
DATA quad5<>+88(SB)/8, $0x0000001f0000001f
DATA quad5<>+96(SB)/8, $0x0000001e0000001e
DATA quad5<>+104(SB)/8, $0x0000001e0000001e
DATA quad5<>+112(SB)/8, $0x0000001d0000001d
DATA quad5<>+120(SB)/8, $0x0000001d0000001d
GLOBL quad5<>(SB), RODATA|NOPTR, $128

// Bytes 0 to 7 and 8 to 15, two to the upper half of each dword; shifts for low and high nibbles; how far high bits
// rotate left, to bits 4 and 5.
DATA quad6<>+0(SB)/8, $0x0302808001008080
DATA quad6<>+8(SB)/8, $0x0706808005048080
DATA quad6<>+16(SB)/8, $0x0b0a808009088080
DATA quad6<>+24(SB)/8, $0x0f0e80800d0c8080
DATA quad6<>+32(SB)/8, $0x0000000000000000
DATA quad6<>+40(SB)/8, $0x0000000000000000
DATA quad6<>+48(SB)/8, $0x0000000000000000
DATA quad6<>+56(SB)/8, $0x0000000000000000
DATA quad6<>+64(SB)/8, $0x0000000400000004
DATA quad6<>+72(SB)/8, $0x0000000400000004
DATA quad6<>+80(SB)/8, $0x0000000400000004
DATA quad6<>+88(SB)/8, $0x0000000400000004
DATA quad6<>+96(SB)/8, $0x0000000400000004
DATA quad6<>+104(SB)/8, $0x0000000400000004
DATA quad6<>+112(SB)/8, $0x0000000200000002
DATA quad6<>+120(SB)/8, $0x0000000200000002
DATA quad6<>+128(SB)/8, $0x0000000000000000
DATA quad6<>+136(SB)/8, $0x0000000000000000
DATA quad6<>+144(SB)/8, $0x0000001e0000001e
DATA quad6<>+152(SB)/8, $0x0000001e0000001e
GLOBL quad6<>(SB), RODATA|NOPTR, $160
