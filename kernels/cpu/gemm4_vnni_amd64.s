//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "prefetch_amd64.h"
#include "gemm4_amd64.h"

// gemm4 for types with blocks of 32: ROWS sets Z0-Z7 and Z24.
#define GEMM4(ROWS, ACT, size) \
outputs4: \
	BEGIN4;              \
four: \
	ROWS;                \
	ACTS(ACT, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, all) \
	MOVE4(4*size, four); \
	END4(outputs4, put)

// As SUM5, of sums of any size.
#define SUM8 \
	VPUNPCKLDQ  Z9, Z8, Z12;   \
	VPUNPCKHDQ  Z9, Z8, Z13;   \
	VPADDD      Z13, Z12, Z12; \
	VPUNPCKLDQ  Z11, Z10, Z13; \
	VPUNPCKHDQ  Z11, Z10, Z8;  \
	VPADDD      Z8, Z13, Z13;  \
	VPUNPCKLQDQ Z13, Z12, Z8;  \
	VPUNPCKHQDQ Z13, Z12, Z9;  \
	VPADDD      Z8, Z14, Z14;  \
	VPADDD      Z9, Z14, Z14

// Adds four blocks of a token to A.
#define ACT(SUM, A) \
	DOTS;          \
	OFFSET;        \
	SUM;           \
	ADD4(Z24, A)
#define Q8_0_ACT(A) ACT(SUM8, A)
#define Q4_0_ACT(A) ACT(SUM4, A)
#define Q5_0_ACT(A) ACT(SUM5, A)

// L, H = the low and the high nibbles of L.
#define NIBBLES(L, H) \
	VPSRLW $4, L, H;   \
	VPANDD Z31, L, L;  \
	VPANDD Z31, H, H

// A row of Q8_0, 136 bytes, by 64 from its beginning and from byte 68, in which scales are the words Z26, and from
// bytes 18 and 72. Z15 makes signed bytes unsigned ones, Z29 and Z25 where the first and the last sixteen columns are,
// K4 those of the blocks further back.
#define Q8_0_ROW(R, R68, R18, R72, L, H) \
	VMOVDQU32 R, Z8;        \
	VMOVDQU32 R68, Z9;      \
	VPERMW Z8, Z29, L;      \
	VPERMW Z9, Z29, K4, L;  \
	VPERMW R18, Z25, H;     \
	VPERMW R72, Z25, K4, H; \
	VPXORD Z15, L, L;       \
	VPXORD Z15, H, H
#define Q8_0_ROWS \
	Q8_0_ROW((SI), 68(SI), 18(SI), 72(SI), Z0, Z1);                             \
	VPERMW Z8, Z26, Z10;                                                        \
	VPERMW Z9, Z26, Z11;                                                        \
	PREFETCH_NEXT(0);                                                                   \
	PREFETCH_NEXT(1);                                                                   \
	Q8_0_ROW((SI)(R12*1), 68(SI)(R12*1), 18(SI)(R12*1), 72(SI)(R12*1), Z2, Z3); \
	VPERMW Z8, Z26, K1, Z10;                                                    \
	VPERMW Z9, Z26, K1, Z11;                                                    \
	PREFETCH_NEXT(2);                                                                   \
	PREFETCH_NEXT(3);                                                                   \
	Q8_0_ROW((SI)(R12*2), 68(SI)(R12*2), 18(SI)(R12*2), 72(SI)(R12*2), Z4, Z5); \
	VPERMW Z8, Z26, K2, Z10;                                                    \
	VPERMW Z9, Z26, K2, Z11;                                                    \
	PREFETCH_NEXT(4);                                                                   \
	PREFETCH_NEXT(5);                                                                   \
	Q8_0_ROW((BX), 68(BX), 18(BX), 72(BX), Z6, Z7);                             \
	VPERMW Z8, Z26, K3, Z10;                                                    \
	VPERMW Z9, Z26, K3, Z11;                                                    \
	PREFETCH_NEXT(6);                                                                   \
	PREFETCH_NEXT(7);                                                                   \
	PREFETCH_NEXT(8);                                                                   \
	VPBLENDD $0xf0, Y11, Y10, Y10;                                              \
	VCVTPH2PS Y10, Z24

// A row of Q4_0, 72 bytes. Z8 the first 64; the last eight are the last of the weights. Z29 where these are, Z26 where
// scales are; K4 the last qword.
#define Q4_0_ROW(R, R64, L, H) \
	VMOVDQU32 R, Z8;         \
	VPERMW Z8, Z29, L;       \
	VPBROADCASTQ R64, K4, L; \
	NIBBLES(L, H)
#define Q4_0_ROWS \
	Q4_0_ROW((SI), 64(SI), Z0, Z1);               \
	VPERMW Z8, Z26, Z24;                          \
	PREFETCH_NEXT(0);                                     \
	Q4_0_ROW((SI)(R12*1), 64(SI)(R12*1), Z2, Z3); \
	VPERMW Z8, Z26, K1, Z24;                      \
	PREFETCH_NEXT(1);                                     \
	PREFETCH_NEXT(2);                                     \
	Q4_0_ROW((SI)(R12*2), 64(SI)(R12*2), Z4, Z5); \
	VPERMW Z8, Z26, K2, Z24;                      \
	PREFETCH_NEXT(3);                                     \
	Q4_0_ROW((BX), 64(BX), Z6, Z7);               \
	VPERMW Z8, Z26, K3, Z24;                      \
	PREFETCH_NEXT(4);                                     \
	VCVTPH2PS Y24, Z24

// A row of Q5_0, 88 bytes: R the first 64, R24 the last. T its scales, then the high bits of columns 0 to 15 of all
// blocks and those of columns 16 to 31, which are masks, on the stack from o on. Z29 where nibbles are, K4 those of the
// last 64 bytes, Z26 and K5 the same of T.
#define Q5_0_ROW(R, R24, L, H, T, YT, o) \
	VMOVDQU32 R, Z8;       \
	VMOVDQU32 R24, Z9;     \
	VPERMW Z8, Z29, L;     \
	VPERMW Z9, Z29, K4, L; \
	VPERMW Z8, Z26, T;     \
	VPERMW Z9, Z26, K5, T; \
	VMOVDQU YT, (o)(SP);   \
	NIBBLES(L, H)
#define Q5_0_HIGH(L, H, o) \
	KMOVQ (o+8)(SP), K6;  \
	VPADDB Z15, L, K6, L; \
	KMOVQ (o+16)(SP), K7; \
	VPADDB Z15, H, K7, H
#define Q5_0_ROWS \
	Q5_0_ROW((SI), 24(SI), Z0, Z1, Z10, Y10, 0);                 \
	PREFETCH_NEXT(0);                                                    \
	Q5_0_ROW((SI)(R12*1), 24(SI)(R12*1), Z2, Z3, Z11, Y11, 32);  \
	PREFETCH_NEXT(1);                                                    \
	VPUNPCKLQDQ X11, X10, X24;                                   \
	Q5_0_ROW((SI)(R12*2), 24(SI)(R12*2), Z4, Z5, Z10, Y10, 64);  \
	PREFETCH_NEXT(2);                                                    \
	Q5_0_ROW((BX), 24(BX), Z6, Z7, Z11, Y11, 96);               \
	PREFETCH_NEXT(3);                                                    \
	VPUNPCKLQDQ X11, X10, X10;                                   \
	VINSERTI32X4 $1, X10, Y24, Y24;                              \
	VPERMW Z24, Z25, Z24;                                        \
	VCVTPH2PS Y24, Z24;                                          \
	PREFETCH_NEXT(4);                                                    \
	Q5_0_HIGH(Z0, Z1, 0);                                        \
	Q5_0_HIGH(Z2, Z3, 32);                                       \
	PREFETCH_NEXT(5);                                                    \
	Q5_0_HIGH(Z4, Z5, 64);                                       \
	Q5_0_HIGH(Z6, Z7, 96)

// func gemm4Q8_0VNNI(a *gemmArgs)
TEXT ·gemm4Q8_0VNNI(SB), NOSPLIT, $8-8
	GEMM4_ARGS(34, 5, 0xff80ff80, 4096)
	MASK(0xffff0000, K4)
	WORDS(0x80808080, Z15)
	VMOVDQU32 quad8<>+0(SB), Z29
	VMOVDQU32 quad8<>+64(SB), Z25
	VMOVDQU32 quad8<>+128(SB), Z26
	GEMM4(Q8_0_ROWS, Q8_0_ACT, 34)

// func gemm4Q4_0VNNI(a *gemmArgs)
TEXT ·gemm4Q4_0VNNI(SB), NOSPLIT, $8-8
	GEMM4_ARGS(18, 5, 0xfff8fff8, 8192)
	MASK(0x80, K4)
	VMOVDQU32 quad4<>+0(SB), Z29
	VMOVDQU32 quad4<>+64(SB), Z26
	GEMM4(Q4_0_ROWS, Q4_0_ACT, 18)

// func gemm4Q5_0VNNI(a *gemmArgs)
// Z15 bit 4 of each byte, Z25 word 4r+b at 4b+r.
TEXT ·gemm4Q5_0VNNI(SB), NOSPLIT, $136-8
	GEMM4_ARGS(22, 5, 0xfff0fff0, 8192)
	MASK(0xffff0000, K4)
	MASK(0x0ccc, K5)
	WORDS(0x10101010, Z15)
	VMOVDQU32 quad5<>+0(SB), Z29
	VMOVDQU32 quad5<>+64(SB), Z26
	VMOVDQU32 quad5<>+128(SB), Z25
	GEMM4(Q5_0_ROWS, Q5_0_ACT, 22)

// Words of the first and of the last sixteen columns, and of scales.
DATA quad8<>+0(SB)/8, $0x0004000300020001
DATA quad8<>+8(SB)/8, $0x0008000700060005
DATA quad8<>+16(SB)/8, $0x0015001400130012
DATA quad8<>+24(SB)/8, $0x0019001800170016
DATA quad8<>+32(SB)/8, $0x0004000300020001
DATA quad8<>+40(SB)/8, $0x0008000700060005
DATA quad8<>+48(SB)/8, $0x0015001400130012
DATA quad8<>+56(SB)/8, $0x0019001800170016
DATA quad8<>+64(SB)/8, $0x0003000200010000
DATA quad8<>+72(SB)/8, $0x0007000600050004
DATA quad8<>+80(SB)/8, $0x0014001300120011
DATA quad8<>+88(SB)/8, $0x0018001700160015
DATA quad8<>+96(SB)/8, $0x000a000900080007
DATA quad8<>+104(SB)/8, $0x000e000d000c000b
DATA quad8<>+112(SB)/8, $0x001b001a00190018
DATA quad8<>+120(SB)/8, $0x001f001e001d001c
DATA quad8<>+128(SB)/8, $0x0000000000000000
DATA quad8<>+136(SB)/8, $0x0011001100110011
DATA quad8<>+144(SB)/8, $0x0000000000000000
DATA quad8<>+152(SB)/8, $0x0011001100110011
DATA quad8<>+160(SB)/8, $0x0000000000000000
DATA quad8<>+168(SB)/8, $0x0011001100110011
DATA quad8<>+176(SB)/8, $0x0000000000000000
DATA quad8<>+184(SB)/8, $0x0011001100110011
GLOBL quad8<>(SB), RODATA|NOPTR, $192

// Words of weights (those that are not there come from the next bytes), and of scales, four times.
DATA quad4<>+0(SB)/8, $0x0004000300020001
DATA quad4<>+8(SB)/8, $0x0008000700060005
DATA quad4<>+16(SB)/8, $0x000d000c000b000a
DATA quad4<>+24(SB)/8, $0x00110010000f000e
DATA quad4<>+32(SB)/8, $0x0016001500140013
DATA quad4<>+40(SB)/8, $0x001a001900180017
DATA quad4<>+48(SB)/8, $0x001f001e001d001c
DATA quad4<>+56(SB)/8, $0x0003000200010000
DATA quad4<>+64(SB)/8, $0x0000000000000000
DATA quad4<>+72(SB)/8, $0x0009000900090009
DATA quad4<>+80(SB)/8, $0x0012001200120012
DATA quad4<>+88(SB)/8, $0x001b001b001b001b
DATA quad4<>+96(SB)/8, $0x0000000000000000
DATA quad4<>+104(SB)/8, $0x0009000900090009
DATA quad4<>+112(SB)/8, $0x0012001200120012
DATA quad4<>+120(SB)/8, $0x001b001b001b001b
GLOBL quad4<>(SB), RODATA|NOPTR, $128

// Words of weights, and of heads, of two blocks in the first 64 bytes and of two in the last; the places that rotate
// scales.
DATA quad5<>+0(SB)/8, $0x0006000500040003
DATA quad5<>+8(SB)/8, $0x000a000900080007
DATA quad5<>+16(SB)/8, $0x00110010000f000e
DATA quad5<>+24(SB)/8, $0x0015001400130012
DATA quad5<>+32(SB)/8, $0x0010000f000e000d
DATA quad5<>+40(SB)/8, $0x0014001300120011
DATA quad5<>+48(SB)/8, $0x001b001a00190018
DATA quad5<>+56(SB)/8, $0x001f001e001d001c
DATA quad5<>+64(SB)/8, $0x0015000a000b0000
DATA quad5<>+72(SB)/8, $0x0016000b000c0001
DATA quad5<>+80(SB)/8, $0x0017000c000d0002
DATA quad5<>+88(SB)/8, $0x0000000000000000
DATA quad5<>+96(SB)/8, $0x0000000000000000
DATA quad5<>+104(SB)/8, $0x0000000000000000
DATA quad5<>+112(SB)/8, $0x0000000000000000
DATA quad5<>+120(SB)/8, $0x0000000000000000
DATA quad5<>+128(SB)/8, $0x000c000800040000
DATA quad5<>+136(SB)/8, $0x000d000900050001
DATA quad5<>+144(SB)/8, $0x000e000a00060002
DATA quad5<>+152(SB)/8, $0x000f000b00070003
DATA quad5<>+160(SB)/8, $0x0000000000000000
DATA quad5<>+168(SB)/8, $0x0000000000000000
DATA quad5<>+176(SB)/8, $0x0000000000000000
DATA quad5<>+184(SB)/8, $0x0000000000000000
GLOBL quad5<>(SB), RODATA|NOPTR, $192

// func interleaveVNNI(a *actsArgs)
// SI q, R8 bytes of it left; DI p of the group of four blocks, AX place of the block in it.
TEXT ·interleaveVNNI(SB), NOSPLIT, $0-8
	MOVQ a+0(FP), AX
	MOVQ actsArgs_p(AX), DI
	MOVQ actsArgs_q(AX), SI
	MOVQ actsArgs_n(AX), R8
	MOVQ actsArgs_from(AX), AX
	MOVQ AX, BX
	SHRQ $2, BX
	SHLQ $7, BX
	ADDQ BX, DI
	ANDQ $3, AX
	SHLQ $4, AX
block:
	VMOVDQU (SI), X0
	VMOVDQU 16(SI), X1
	VMOVDQU X0, (DI)(AX*1)
	VMOVDQU X1, 64(DI)(AX*1)
	ADDQ $32, SI
	ADDQ $16, AX
	TESTQ $63, AX
	JNZ  same
	ADDQ $128, DI
	XORL AX, AX
same:
	SUBQ $32, R8
	JNZ  block
	RET
