//go:build !noasm

#include "textflag.h"
#include "quad_amd64.h"

// quad for the types with blocks of 256, half a block at a time. SCALES sets Z24 and Z25 for the first half, Z26 and Z28 for the second.
#define QUADK(SCALES, FIRST, SECOND, ACT, size) \
quad: \
	BEGIN4;                 \
	VPXORD Z20, Z20, Z20;   \
	VPXORD Z21, Z21, Z21;   \
	VPXORD Z22, Z22, Z22;   \
	VPXORD Z23, Z23, Z23;   \
blk: \
	SCALES;                 \
	FIRST;                  \
	ACTS(ACT, Z16, Z17, Z18, Z19, half) \
	ADDQ $16, R14;          \
	VMOVAPS Z26, Z24;       \
	VMOVAPS Z28, Z25;       \
	SECOND;                 \
	ACTS(ACT, Z20, Z21, Z22, Z23, all) \
	MOVE4(size, blk);       \
	VADDPS Z20, Z16, Z16;   \
	VADDPS Z21, Z17, Z17;   \
	VADDPS Z22, Z18, Z18;   \
	VADDPS Z23, Z19, Z19;   \
	END4(quad, put)

// Of the 64 bytes at o of four rows Z0, Z1 = the low nibbles of the first 32, A, B the high ones, C, D the low nibbles of the others, Z6, Z7 the
// high ones. Fetches four lines.
#define NIBBLES4(o, line, A, B, C, D) \
	VMOVDQU32  (o)(SI), Z0;          \
	VMOVDQU32  (o)(SI)(R12*1), Z1;   \
	VMOVDQU32  (o)(SI)(R12*2), C;    \
	VMOVDQU32  (o)(BX), D;           \
	FETCH(line);                     \
	VSHUFI32X4 $0x88, Z1, Z0, Z8;    \
	VSHUFI32X4 $0xdd, Z1, Z0, Z9;    \
	VSHUFI32X4 $0x88, D, C, Z10;     \
	VSHUFI32X4 $0xdd, D, C, Z11;     \
	FETCH(line+1);                   \
	VSHUFI32X4 $0x88, Z10, Z8, Z0;   \
	VSHUFI32X4 $0x88, Z11, Z9, Z1;   \
	VSHUFI32X4 $0xdd, Z10, Z8, C;    \
	VSHUFI32X4 $0xdd, Z11, Z9, D;    \
	FETCH(line+2);                   \
	VPSRLW $4, Z0, A;   \
	VPSRLW $4, Z1, B;   \
	VPSRLW $4, C, Z6;   \
	VPSRLW $4, D, Z7;   \
	VPANDD Z31, Z0, Z0; \
	VPANDD Z31, Z1, Z1; \
	FETCH(line+3);      \
	VPANDD Z31, A, A;   \
	VPANDD Z31, B, B;   \
	VPANDD Z31, C, C;   \
	VPANDD Z31, D, D;   \
	VPANDD Z31, Z6, Z6; \
	VPANDD Z31, Z7, Z7

// L and H |= the bits of Z15 in Z10 and Z11, which SHIFT brings to their place.
#define BITS4(SHIFT, n, L, H) \
	SHIFT $n, Z10, Z8; \
	SHIFT $n, Z11, Z9; \
	VPTERNLOGD $0xf8, Z15, Z8, L; \
	VPTERNLOGD $0xf8, Z15, Z9, H

// Z = the integers Z times D.
#define SCALED(D, Z) \
	VCVTDQ2PS Z, Z;  \
	VMULPS D, Z, Z

// Z24, Z26 = the scales of blocks 0 to 3 and 4 to 7 of Q5_K, Z25, Z28 their minima: see scalesK. Z29 places of d, Z30 of dmin.
#define SCALES4_K \
	FETCH(0);                           \
	LOAD4(0, Z0);                       \
	VPERMW Z0, Z29, Z1;                 \
	VPERMW Z0, Z30, Z2;                 \
	VCVTPH2PS Y1, Z1;                   \
	VCVTPH2PS Y2, Z2;                   \
	VPANDD.BCST quadk<>+32(SB), Z0, Z3; \ // the first four of each: bytes 4 to 7 scales, 8 to 11 minima
	VPSRLW $2, Z0, Z4;                  \
	VPSHUFD $0xff, Z0, Z5;              \ // the last four: two bits from Z4, four from Z5
	VBROADCASTI32X4 quadk<>+40(SB), Z6; \
	VPSRLVD Z6, Z5, Z5;                 \
	VPANDD Z31, Z5, Z5;                 \
	VPTERNLOGD.BCST $0xf8, quadk<>+36(SB), Z4, Z5; \
	VBROADCASTI32X4 quadk<>+0(SB), Z6;  \
	VBROADCASTI32X4 quadk<>+16(SB), Z7; \
	VPSHUFB Z6, Z3, Z24;                \
	VPSHUFB Z7, Z3, Z25;                \
	VPSHUFB Z6, Z5, Z26;                \
	VPSHUFB Z7, Z5, Z28;                \
	SCALED(Z1, Z24);                    \
	SCALED(Z2, Z25);                    \
	SCALED(Z1, Z26);                    \
	SCALED(Z2, Z28)

// Adds four blocks of a row of activations to A and subtracts their minima.
#define Q5_K_ACT(A) \
	ACT(NO_OFFSET, SUM_Q5_0, A);       \
	VBROADCASTF32X4 (R13)(R11*1), Z12; \
	VFNMADD231PS Z12, Z25, A

// Z0-Z7 = the weights of half a block; lines from this one on are fetched.
#define Q5_K_HALF(o, line, SHIFT0, n0, SHIFT1, n1, SHIFT2, n2, SHIFT3, n3) \
	NIBBLES4(o, line, Z2, Z3, Z4, Z5); \
	LOAD32(16, Z10, Z11);      \
	BITS4(SHIFT0, n0, Z0, Z1); \
	BITS4(SHIFT1, n1, Z2, Z3); \
	FETCH(line+4);             \
	BITS4(SHIFT2, n2, Z4, Z5); \
	BITS4(SHIFT3, n3, Z6, Z7)
#define Q5_K_FIRST Q5_K_HALF(48, 1, VPSLLW, 4, VPSLLW, 3, VPSLLW, 2, VPSLLW, 1)
#define Q5_K_SECOND Q5_K_HALF(112, 6, VPSLLW, 0, VPSRLW, 1, VPSRLW, 2, VPSRLW, 3)
#define Q6_K_HALF(ql, qh, line) \
	NIBBLES4(ql, line, Z4, Z5, Z2, Z3); \
	LOAD32(qh, Z10, Z11);            \
	BITS4(VPSLLW, 4, Z0, Z1);        \
	FETCH(line+4);                   \
	BITS4(VPSLLW, 2, Z2, Z3);        \
	BITS4(VPSLLW, 0, Z4, Z5);        \
	FETCH(line+5);                   \
	BITS4(VPSRLW, 2, Z6, Z7)

// Z24, Z25 = the scales of the first and second halves of blocks 0 to 3 of Q6_K, Z26, Z28 of blocks 4 to 7. Z29 places of d.
#define SCALES4_6 \
	FETCH(0);                           \
	LOAD4(192, Z0);                     \
	SCALES4(146, Z29, Z1);              \
	VCVTPH2PS Y1, Z1;                   \
	VBROADCASTI32X4 quad6<>+0(SB), Z6;  \
	VBROADCASTI32X4 quad6<>+16(SB), Z7; \
	VPSHUFB Z6, Z0, Z25;                \ // two bytes, in the upper half of each dword
	VPSHUFB Z7, Z0, Z28;                \
	FETCH(1);                           \
	VPSLLD $8, Z25, Z24;                \
	VPSLLD $8, Z28, Z26;                \
	VPSRAD $24, Z24, Z24;               \
	VPSRAD $24, Z25, Z25;               \
	VPSRAD $24, Z26, Z26;               \
	VPSRAD $24, Z28, Z28;               \
	SCALED(Z1, Z24);                    \
	SCALED(Z1, Z25);                    \
	SCALED(Z1, Z26);                    \
	SCALED(Z1, Z28)

// P = products of the weights W with the sixteen activations at c.
#define DOT16(c, W, P) \
	VBROADCASTI32X4 (c)(AX)(R14*8), Z12; \
	VPXORD   P, P, P;   \
	VPDPBUSD Z12, W, P

// Adds the half blocks from c on, of the weights W0 to W3 and the scales D, to A.
#define HALVES4(OFFSET, c, W0, W1, W2, W3, D, A) \
	DOT16(c, W0, Z8);     \
	DOT16(c+32, W1, Z9);  \
	DOT16(c+64, W2, Z10); \
	DOT16(c+96, W3, Z11); \
	OFFSET;               \
	SUM_Q5_0;             \
	ADD4(D, A)
#define OFFSET_SECOND \
	VBROADCASTI32X4 (R13)(R11*1), Z14; \
	VPSRLD $16, Z14, Z14;              \
	VPMADDWD Z30, Z14, Z14
#define Q6_K_ACT(A) \
	HALVES4(OFFSET, 0, Z0, Z2, Z4, Z6, Z24, A); \
	HALVES4(OFFSET_SECOND, 16, Z1, Z3, Z5, Z7, Z25, A)

// func quadQ5_KVNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
// Z15 bit 4 of each byte.
TEXT ·quadQ5_KVNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(176, 8, 0, 4096)
	MOVQ s_base+104(FP), R13
	WORDS(0x0f0f0f0f, Z31)
	VMOVDQU32 quadd<>(SB), Y29 // places of d
	VPADDW Z27, Z29, Z30       // and of dmin
	WORDS(0x10101010, Z15)
	QUADK(SCALES4_K, Q5_K_FIRST, Q5_K_SECOND, Q5_K_ACT, 176)

// func quadQ6_KVNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
// Z15 bits 4 and 5 of each byte, Z30 words of the offset for the first half of a block, zeros for the second.
TEXT ·quadQ6_KVNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(210, 8, 0x0000ffe0, 4096)
	WORDS(0x0f0f0f0f, Z31)
	WORDS(0x001f001f, Z29)
	WORDS(0x30303030, Z15)
	QUADK(SCALES4_6, Q6_K_HALF(0, 128, 2), Q6_K_HALF(64, 160, 8), Q6_K_ACT, 210)

// The words of d, the first of each quarter, four times each.
DATA quadd<>+0(SB)/8, $0
DATA quadd<>+8(SB)/8, $0x0008000800080008
DATA quadd<>+16(SB)/8, $0x0010001000100010
DATA quadd<>+24(SB)/8, $0x0018001800180018
GLOBL quadd<>(SB), RODATA|NOPTR, $32

// Bytes 4 to 7 and 8 to 11, each to a dword; the low six bits of bytes, bits 4 and 5; how far to shift the dwords with the low bits of the last
// four scales and minima.
DATA quadk<>+0(SB)/8, $0x8080800580808004
DATA quadk<>+8(SB)/8, $0x8080800780808006
DATA quadk<>+16(SB)/8, $0x8080800980808008
DATA quadk<>+24(SB)/8, $0x8080800b8080800a
DATA quadk<>+32(SB)/4, $0x3f3f3f3f
DATA quadk<>+36(SB)/4, $0x30303030
DATA quadk<>+40(SB)/8, $0
DATA quadk<>+48(SB)/8, $4
GLOBL quadk<>(SB), RODATA|NOPTR, $56

// Bytes 0 to 7 and 8 to 15, two to the upper half of each dword.
DATA quad6<>+0(SB)/8, $0x0302808001008080
DATA quad6<>+8(SB)/8, $0x0706808005048080
DATA quad6<>+16(SB)/8, $0x0b0a808009088080
DATA quad6<>+24(SB)/8, $0x0f0e80800d0c8080
GLOBL quad6<>(SB), RODATA|NOPTR, $32
