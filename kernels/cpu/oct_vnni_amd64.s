//go:build !noasm

#include "textflag.h"
#include "quad_amd64.h"
#include "oct_amd64.h"

// oct for the types with blocks of 32, of which block b goes to lane b mod 4: two registers of sums to a row of activations, so that eight rows
// fit. Blocks 0 and 1 of four, and then 2 and 3: Z16-Z23 the sums of the former, Z24-Z31 of the latter. R13 h, Z14 words of the offset.
// K1-K3 rows 1 to 3 and 5 to 7, K5 rows 4 to 7: as words and dwords, or as qwords.
#define DWORD_MASKS \
	MASK(0x0c0c0c0c, K1); \
	MASK(0x30303030, K2); \
	MASK(0xc0c0c0c0, K3); \
	MASK(0xf0f0, K5)
#define QWORD_MASKS \
	MASK(0x22, K1); \
	MASK(0x44, K2); \
	MASK(0x88, K3); \
	MASK(0xf0, K5)

// Dword r, and 8+r, of Z = two words of the 64 bytes at o of row r, from the places in IDX.
#define WORDS8(o, IDX, Z, T) \
	VPERMW (o)(SI), IDX, Z;              \
	VPERMW (o)(SI)(R12*4), IDX, T;       \
	VPERMW (o)(BX), IDX, K1, Z;          \
	VPERMW (o)(BX)(R12*4), IDX, K1, T;   \
	VPERMW (o)(SI)(R12*2), IDX, K2, Z;   \
	VPERMW (o)(SI)(R8*2), IDX, K2, T;    \
	VPERMW (o)(BX)(R12*2), IDX, K3, Z;   \
	VPERMW (o)(BX)(R8*2), IDX, K3, T;    \
	VMOVDQA32 T, K5, Z

// Qword r of Z = the eight bytes at o of row r.
#define HEADS8(o, Z, T) \
	VPBROADCASTQ (o)(SI), Z;             \
	VPBROADCASTQ (o)(SI)(R12*4), T;      \
	VPBROADCASTQ (o)(BX), K1, Z;         \
	VPBROADCASTQ (o)(BX)(R12*4), K1, T;  \
	VPBROADCASTQ (o)(SI)(R12*2), K2, Z;  \
	VPBROADCASTQ (o)(SI)(R8*2), K2, T;   \
	VPBROADCASTQ (o)(BX)(R12*2), K3, Z;  \
	VPBROADCASTQ (o)(BX)(R8*2), K3, T;   \
	VMOVDQA64 T, K5, Z

// A, B, C, D = the low nibbles of the first and last eight bytes of the sixteen at o of the eight rows, and their high nibbles.
#define NIBBLES8(o, A, B, C, D) \
	SIXTEEN8(o, Z8, Z9);            \
	VPBROADCASTD nibble<>(SB), Z11; \
	VPUNPCKLQDQ  Z9, Z8, A;  \
	VPUNPCKHQDQ  Z9, Z8, B;  \
	VPSRLW $4, A, C;         \
	VPSRLW $4, B, D;         \
	VPANDD Z11, A, A;        \
	VPANDD Z11, B, B;        \
	VPANDD Z11, C, C;        \
	VPANDD Z11, D, D

// Adds blocks 2j and 2j+1 of a row of activations to A.
#define OCT_ACT(j, A) \
	OCT_DOT(j);                             \
	VPBROADCASTQ (8*j)(R13)(R11*1), Z10;    \
	VPDPWSSD Z14, Z10, Z8;                  \
	OCT_ADD(j, A)

// OCT_ACT for all rows of activations.
#define OCT_ACTS(j, A, B, C, D, E, F, G, H, end) \
	MOVQ DX, AX;    \
	MOVQ R14, R11;  \
	OCT_ACT(j, A);  \
	NEXT(1, end);   \
	OCT_ACT(j, B);  \
	NEXT(2, end);   \
	OCT_ACT(j, C);  \
	NEXT(3, end);   \
	OCT_ACT(j, D);  \
	NEXT(4, end);   \
	OCT_ACT(j, E);  \
	NEXT(5, end);   \
	OCT_ACT(j, F);  \
	NEXT(6, end);   \
	OCT_ACT(j, G);  \
	NEXT(7, end);   \
	OCT_ACT(j, H);  \
end:

// oct: FIRST and SECOND set Z0-Z7 and Z13 for two blocks of four each.
#define OCT(FIRST, SECOND, size) \
oct: \
	OCT_BEGIN;              \
four: \
	FIRST;                  \
	OCT_ACTS(0, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, half) \
	SECOND;                 \
	OCT_ACTS(1, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31, all) \
	ADDQ $(32*size), R15;   \
	ADDQ $(4*size), SI;     \
	ADDQ $(4*size), BX;     \
	ADDQ $16, R14;          \
	CMPQ R14, R9;           \
	JLT  four;              \
	MOVQ DI, R11;           \
	MOVQ stride+24(FP), AX; \
	SHLQ $2, AX;            \
	OCT_PUT(Z16, Z24, 1, put); \
	OCT_PUT(Z17, Z25, 2, put); \
	OCT_PUT(Z18, Z26, 3, put); \
	OCT_PUT(Z19, Z27, 4, put); \
	OCT_PUT(Z20, Z28, 5, put); \
	OCT_PUT(Z21, Z29, 6, put); \
	OCT_PUT(Z22, Z30, 7, put); \
	OCT_PUT(Z23, Z31, 8, put); \
	OCT_END(oct, put)

// Two blocks of Q8_0 from o on; the lines from this one on are fetched.
#define Q8_0_TWO(o, line) \
	TURN8(o+2, Z0, Z1, Z2, Z3);       \
	FETCH(line);                      \
	FETCH(line+1);                    \
	TURN8(o+36, Z4, Z5, Z6, Z7);      \
	FETCH(line+2);                    \
	FETCH(line+3);                    \
	VPBROADCASTD octq8<>+0(SB), Z12;  \
	VPXORD Z12, Z0, Z0;               \
	VPXORD Z12, Z1, Z1;               \
	VPXORD Z12, Z2, Z2;               \
	VPXORD Z12, Z3, Z3;               \
	FETCH(line+4);                    \
	FETCH(line+5);                    \
	VPXORD Z12, Z4, Z4;               \
	VPXORD Z12, Z5, Z5;               \
	VPXORD Z12, Z6, Z6;               \
	VPXORD Z12, Z7, Z7;               \
	FETCH(line+6);                    \
	FETCH(line+7);                    \
	VPBROADCASTD octq8<>+4(SB), Z12;  \
	WORDS8(o, Z12, Z8, Z9);           \
	VCVTPH2PS Y8, Z13
#define Q8_0_SECOND FETCH(8); Q8_0_TWO(68, 9)

// Two blocks of Q4_0 from o on; Z12 the scales of four.
#define Q4_0_TWO(o, line) \
	NIBBLES8(o+2, Z0, Z1, Z2, Z3);   \
	FETCH(line);                     \
	FETCH(line+1);                   \
	NIBBLES8(o+20, Z4, Z5, Z6, Z7);  \
	FETCH(line+2);                   \
	FETCH(line+3)
#define Q4_0_FIRST \
	VMOVDQU32 octq4<>(SB), Z10;      \
	WORDS8(0, Z10, Z12, Z9);         \
	VCVTPH2PS Y12, Z13;              \
	FETCH(4);                        \
	Q4_0_TWO(0, 0)
#define Q4_0_SECOND \
	VEXTRACTI64X4 $1, Z12, Y12;      \
	VCVTPH2PS Y12, Z13;              \
	Q4_0_TWO(36, 5)

// Adds bit 4 to the bytes of W whose bit is set in byte 2+i of their row of HEADS.
#define BITS8(i, HEADS, W) \
	VPSHUFB  octq5<>+(64*i)(SB), HEADS, Z8; \
	VPTESTMB Z13, Z8, K7;                   \
	VPADDB   Z12, W, K7, W

// A block of Q5_0 from o on. Z12 bit 4 of each byte, Z13 bit i mod 8 in byte i.
#define Q5_0_ONE(o, A, B, C, D, HEADS, line) \
	NIBBLES8(o+6, A, B, C, D); \
	FETCH(line);               \
	HEADS8(o, HEADS, Z9);      \
	FETCH(line+1);             \
	BITS8(0, HEADS, A);        \
	BITS8(1, HEADS, B);        \
	BITS8(2, HEADS, C);        \
	BITS8(3, HEADS, D)

// Two blocks of Q5_0 from o on.
#define Q5_0_TWO(o, line) \
	VPBROADCASTD octq5<>+256(SB), Z12;            \
	VPBROADCASTQ octq5<>+264(SB), Z13;            \
	Q5_0_ONE(o, Z0, Z1, Z2, Z3, Z10, line);       \
	FETCH(line+2);                                \
	Q5_0_ONE(o+22, Z4, Z5, Z6, Z7, Z11, line+3);  \
	VPSLLD $16, Z11, Z11;                         \
	VPTERNLOGD.BCST $0xec, octq5<>+260(SB), Z11, Z10; \ // the scales of both
	VPMOVQD Z10, Y10;                             \
	VCVTPH2PS Y10, Z13
#define Q5_0_SECOND FETCH(5); Q5_0_TWO(44, 6)

// func octQ8_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ8_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(34, 5, 4096)
	MOVQ h_base+128(FP), R13
	WORDS(0xff80ff80, Z14)
	DWORD_MASKS
	OCT(Q8_0_TWO(0, 0), Q8_0_SECOND, 34)

// func octQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ4_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(18, 5, 8192)
	MOVQ h_base+128(FP), R13
	WORDS(0xfff8fff8, Z14)
	DWORD_MASKS
	OCT(Q4_0_FIRST, Q4_0_SECOND, 18)

// func octQ5_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ5_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(22, 5, 8192)
	MOVQ h_base+128(FP), R13
	WORDS(0xfff0fff0, Z14)
	QWORD_MASKS
	OCT(Q5_0_TWO(0, 0), Q5_0_SECOND, 22)

// What makes signed bytes unsigned ones; the scales of two blocks.
DATA octq8<>+0(SB)/4, $0x80808080
DATA octq8<>+4(SB)/4, $0x00110000
GLOBL octq8<>(SB), RODATA|NOPTR, $8

// The scales of blocks 0 and 1, and of 2 and 3.
DATA octq4<>+0(SB)/8, $0x0009000000090000
DATA octq4<>+8(SB)/8, $0x0009000000090000
DATA octq4<>+16(SB)/8, $0x0009000000090000
DATA octq4<>+24(SB)/8, $0x0009000000090000
DATA octq4<>+32(SB)/8, $0x001b0012001b0012
DATA octq4<>+40(SB)/8, $0x001b0012001b0012
DATA octq4<>+48(SB)/8, $0x001b0012001b0012
DATA octq4<>+56(SB)/8, $0x001b0012001b0012
GLOBL octq4<>(SB), RODATA|NOPTR, $64

// Bytes 2, 3, 4 and 5 of each qword, eight times; bit 4 of each byte; the low words; bit i mod 8 in byte i.
DATA octq5<>+0(SB)/8, $0x0202020202020202
DATA octq5<>+8(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octq5<>+16(SB)/8, $0x0202020202020202
DATA octq5<>+24(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octq5<>+32(SB)/8, $0x0202020202020202
DATA octq5<>+40(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octq5<>+48(SB)/8, $0x0202020202020202
DATA octq5<>+56(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octq5<>+64(SB)/8, $0x0303030303030303
DATA octq5<>+72(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octq5<>+80(SB)/8, $0x0303030303030303
DATA octq5<>+88(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octq5<>+96(SB)/8, $0x0303030303030303
DATA octq5<>+104(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octq5<>+112(SB)/8, $0x0303030303030303
DATA octq5<>+120(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octq5<>+128(SB)/8, $0x0404040404040404
DATA octq5<>+136(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octq5<>+144(SB)/8, $0x0404040404040404
DATA octq5<>+152(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octq5<>+160(SB)/8, $0x0404040404040404
DATA octq5<>+168(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octq5<>+176(SB)/8, $0x0404040404040404
DATA octq5<>+184(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octq5<>+192(SB)/8, $0x0505050505050505
DATA octq5<>+200(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octq5<>+208(SB)/8, $0x0505050505050505
DATA octq5<>+216(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octq5<>+224(SB)/8, $0x0505050505050505
DATA octq5<>+232(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octq5<>+240(SB)/8, $0x0505050505050505
DATA octq5<>+248(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octq5<>+256(SB)/4, $0x10101010
DATA octq5<>+260(SB)/4, $0x0000ffff
DATA octq5<>+264(SB)/8, $0x8040201008040201
GLOBL octq5<>(SB), RODATA|NOPTR, $272
