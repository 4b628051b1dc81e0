//go:build !noasm

#include "textflag.h"
#include "quad_amd64.h"

// Eight rows of weights at a time, with eight columns of each to a register, meet up to eight rows of activations, eight columns of which are
// broadcast from memory: that takes no vector unit, as a broadcast of sixteen does, and a sum has one step less than that of a quad. The bits
// are those of the rows leaves, whose order of sums (dot_amd64.h) this keeps: block b goes to lane b mod 4 of its row.
//
// Arguments of oct(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int): DI dst, 8(SP) end of w,
// SI and BX places in rows 0 and 1, R12 and R8 bytes of a row and of three, DX q, CX d, R13 h, R14 place in a row of d or h in bytes
// (q is eight times as far), R9 its end, R15 what is fetched: eight rows and ahead bytes further on. For a row of activations AX is DX and
// R11 is R14 in that row; R10 and 0(SP) lead to the next.
// Z0-Z3 columns 0 to 7, 8 to 15, 16 to 23 and 24 to 31 of block 0 or 2 of four, Z4-Z7 those of block 1 or 3, as unsigned bytes; Z8-Z12 for
// anything; Z13 scales of both blocks, row by row, as are sums: Z16-Z23 those of blocks 0 and 1, one register to a row of activations,
// Z24-Z31 those of blocks 2 and 3. Z14 words of the offset, Z15 OTHERS.
// K1-K3 rows 1 to 3 and 5 to 7, K5 rows 4 to 7, for dwords or qwords; K4 every other dword, from the second on; K6, from the first on.
#define OCT_ARGS(size, off, ahead) \
	MOVQ  dst_base+0(FP), DI;       \
	MOVQ  w_base+32(FP), SI;        \
	MOVQ  w_len+40(FP), AX;         \
	ADDQ  SI, AX;                   \
	MOVQ  AX, 8(SP);                \
	MOVQ  q_base+56(FP), DX;        \
	MOVQ  d_base+80(FP), CX;        \
	MOVQ  h_base+128(FP), R13;      \
	MOVQ  n+160(FP), R10;           \
	MOVQ  R10, R9;                  \
	SHRQ  $3, R9;                   \
	MOVQ  R9, 0(SP);                \
	MOVQ  R10, R12;                 \
	SHRQ  $5, R12;                  \
	IMUL3Q $size, R12, R12;         \
	LEAQ  (R12)(R12*2), R8;         \
	LEAQ  ahead(SI)(R12*8), R15;    \
	MASK(0xaaaa, K4);               \
	MASK(0x5555, K6);               \
	WORDS(off, Z14);                \
	VMOVDQU32 others<>(SB), Z15

#define MASK(imm, K) MOVL $imm, AX; KMOVD AX, K
#define DWORD_MASKS \
	MASK(0x0c0c0c0c, K1); \ // for words
	MASK(0x30303030, K2); \
	MASK(0xc0c0c0c0, K3); \
	MASK(0xf0f0, K5)
#define QWORD_MASKS \
	MASK(0x22, K1); \
	MASK(0x44, K2); \
	MASK(0x88, K3); \
	MASK(0xf0, K5)

// A, B, C, D = bytes 0 to 7, 8 to 15, 16 to 23 and 24 to 31 from o on of the eight rows.
#define TURN8(o, A, B, C, D) \
	VMOVDQU32    (o)(SI), Y8;                  \
	VMOVDQU32    (o)(BX), Y9;                  \
	VMOVDQU32    (o)(SI)(R12*4), Y10;          \
	VMOVDQU32    (o)(BX)(R12*4), Y11;          \
	VINSERTI64X4 $1, (o)(SI)(R12*2), Z8, Z8;   \
	VINSERTI64X4 $1, (o)(BX)(R12*2), Z9, Z9;   \
	VINSERTI64X4 $1, (o)(SI)(R8*2), Z10, Z10;  \
	VINSERTI64X4 $1, (o)(BX)(R8*2), Z11, Z11;  \
	VPUNPCKLQDQ  Z9, Z8, C;        \
	VPUNPCKHQDQ  Z9, Z8, D;        \
	VPUNPCKLQDQ  Z11, Z10, Z8;     \
	VPUNPCKHQDQ  Z11, Z10, Z9;     \
	VSHUFI32X4   $0x88, Z8, C, A;  \
	VSHUFI32X4   $0x88, Z9, D, B;  \
	VSHUFI32X4   $0xdd, Z8, C, C;  \
	VSHUFI32X4   $0xdd, Z9, D, D

// A, B, C, D = the low nibbles of the first and last eight bytes of the sixteen at o of the eight rows, and their high nibbles.
#define NIBBLES8(o, A, B, C, D) \
	VMOVDQU      (o)(SI), X8;                \
	VMOVDQU      (o)(BX), X9;                \
	VINSERTI128  $1, (o)(SI)(R12*2), Y8, Y8; \
	VINSERTI128  $1, (o)(BX)(R12*2), Y9, Y9; \
	VINSERTI32X4 $2, (o)(SI)(R12*4), Z8, Z8; \
	VINSERTI32X4 $2, (o)(BX)(R12*4), Z9, Z9; \
	VINSERTI32X4 $3, (o)(SI)(R8*2), Z8, Z8;  \
	VINSERTI32X4 $3, (o)(BX)(R8*2), Z9, Z9;  \
	VPBROADCASTD nibble<>(SB), Z11;          \
	VPUNPCKLQDQ  Z9, Z8, A;  \
	VPUNPCKHQDQ  Z9, Z8, B;  \
	VPSRLW $4, A, C;         \
	VPSRLW $4, B, D;         \
	VPANDD Z11, A, A;        \
	VPANDD Z11, B, B;        \
	VPANDD Z11, C, C;        \
	VPANDD Z11, D, D

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

// Adds blocks 2j and 2j+1 of a row of activations to A.
#define OCT_ACT(j, A) \
	VPXORD Z8, Z8, Z8;                      \
	VPXORD Z9, Z9, Z9;                      \
	VPBROADCASTQ (64*j)(AX)(R14*8), Z10;    \
	VPDPBUSD Z10, Z0, Z8;                   \
	VPBROADCASTQ (64*j+32)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z4, Z9;                   \
	VPBROADCASTQ (64*j+8)(AX)(R14*8), Z10;  \
	VPDPBUSD Z10, Z1, Z8;                   \
	VPBROADCASTQ (64*j+40)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z5, Z9;                   \
	VPBROADCASTQ (64*j+16)(AX)(R14*8), Z10; \
	VPDPBUSD Z10, Z2, Z8;                   \
	VPBROADCASTQ (64*j+48)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z6, Z9;                   \
	VPBROADCASTQ (64*j+24)(AX)(R14*8), Z10; \
	VPDPBUSD Z10, Z3, Z8;                   \
	VPBROADCASTQ (64*j+56)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z7, Z9;                   \
	VPBLENDMD Z9, Z8, K4, Z10;              \ // Z8 and Z9 have two sums for each row: one of each
	VPERMT2D Z9, Z15, Z8;                   \ // and the others
	VPADDD   Z10, Z8, Z8;                   \
	VPBROADCASTQ (8*j)(R13)(R11*1), Z10;    \
	VPDPWSSD Z14, Z10, Z8;                  \
	VCVTDQ2PS Z8, Z8;                       \
	VPBROADCASTQ (8*j)(CX)(R11*1), Z11;     \
	VMULPS   Z11, Z13, Z11;                 \
	VFMADD231PS Z8, Z11, A

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

// The lanes of A and B summed up, to the eight numbers at R11, which moves on by a row; to end if that was the number-th and last.
#define OCT_PUT(A, B, number, end) \
	VADDPS B, A, A;             \
	VPERMILPS $0xb1, A, Z0;     \
	VADDPS Z0, A, A;            \
	VCOMPRESSPS A, K6, Z0;      \
	VMOVUPS Y0, (R11);          \
	CMPQ rows+152(FP), $number; \
	JEQ  end;                   \
	ADDQ AX, R11

// oct: FIRST and SECOND set Z0-Z7 and Z13 for two blocks of four each.
#define OCT(FIRST, SECOND, size) \
oct: \
	LEAQ (SI)(R12*1), BX;   \
	XORL R14, R14;          \
	VPXORD Z16, Z16, Z16;   \
	VPXORD Z17, Z17, Z17;   \
	VPXORD Z18, Z18, Z18;   \
	VPXORD Z19, Z19, Z19;   \
	VPXORD Z20, Z20, Z20;   \
	VPXORD Z21, Z21, Z21;   \
	VPXORD Z22, Z22, Z22;   \
	VPXORD Z23, Z23, Z23;   \
	VPXORD Z24, Z24, Z24;   \
	VPXORD Z25, Z25, Z25;   \
	VPXORD Z26, Z26, Z26;   \
	VPXORD Z27, Z27, Z27;   \
	VPXORD Z28, Z28, Z28;   \
	VPXORD Z29, Z29, Z29;   \
	VPXORD Z30, Z30, Z30;   \
	VPXORD Z31, Z31, Z31;   \
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
put: \
	ADDQ $32, DI;           \
	LEAQ (BX)(R8*2), SI;    \
	CMPQ SI, 8(SP);         \
	JLT  oct;               \
	VZEROUPPER;             \
	RET

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
	OCT_ARGS(34, 0xff80ff80, 4096)
	DWORD_MASKS
	OCT(Q8_0_TWO(0, 0), Q8_0_SECOND, 34)

// func octQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ4_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(18, 0xfff8fff8, 8192)
	DWORD_MASKS
	OCT(Q4_0_FIRST, Q4_0_SECOND, 18)

// func octQ5_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ5_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(22, 0xfff0fff0, 8192)
	QWORD_MASKS
	OCT(Q5_0_TWO(0, 0), Q5_0_SECOND, 22)

// OTHERS: of two registers the second dword of each qword of the first one and the first of the second one.
DATA others<>+0(SB)/8, $0x0000001000000001
DATA others<>+8(SB)/8, $0x0000001200000003
DATA others<>+16(SB)/8, $0x0000001400000005
DATA others<>+24(SB)/8, $0x0000001600000007
DATA others<>+32(SB)/8, $0x0000001800000009
DATA others<>+40(SB)/8, $0x0000001a0000000b
DATA others<>+48(SB)/8, $0x0000001c0000000d
DATA others<>+56(SB)/8, $0x0000001e0000000f
GLOBL others<>(SB), RODATA|NOPTR, $64

DATA nibble<>+0(SB)/4, $0x0f0f0f0f
GLOBL nibble<>(SB), RODATA|NOPTR, $4

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
