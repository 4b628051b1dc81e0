//go:build !noasm

#include "textflag.h"
#include "quad_amd64.h"

// Where the scales of four blocks are, in words: those of K4 in a second part of the row, by Z28, the others by Z29.
#define PLACES(first, second, fromSecond) \
	MOVL  $fromSecond, AX;          \
	KMOVD AX, K4;                   \
	MOVQ  $first, AX;               \
	VPBROADCASTQ AX, Z29;           \
	MOVQ  $second, AX;              \
	VPBROADCASTQ AX, Z28

// Z = the dword at o of the four rows, four times each.
#define DWORD4(o, Z) \
	VPBROADCASTD (o)(SI), Z;             \
	VPBROADCASTD (o)(SI)(R12*1), K1, Z;  \
	VPBROADCASTD (o)(SI)(R12*2), K2, Z;  \
	VPBROADCASTD (o)(BX), K3, Z

// L, H = columns 0 to 15 and 16 to 31 of block b of four rows, as unsigned bytes.
#define Q8_0_QUAD(b, L, H) \
	FETCH(2*b);   \
	FETCH(2*b+1); \
	LOAD32(34*b+2, L, H); \
	VPXORD Z31, L, L; \
	VPXORD Z31, H, H
#define Q4_0_QUAD(b, L, H) \
	FETCH(b);          \
	LOAD4(18*b+2, L);  \
	VPSRLW $4, L, H;   \
	VPANDD Z31, L, L;  \
	VPANDD Z31, H, H
#define Q5_0_QUAD(b, L, H) \
	FETCH(b);                \
	LOAD4(22*b+6, L);        \
	DWORD4(22*b+2, Z8);      \
	VPSRLW   $4, L, H;       \
	VPANDD   Z31, L, L;      \
	VPANDD   Z31, H, H;      \
	VPSHUFB  Z25, Z8, Z9;    \ // byte i is the one with the high bit of weight i
	VPSHUFB  Z26, Z8, Z8;    \
	VPTESTMB Z20, Z9, K5;    \
	VPTESTMB Z20, Z8, K6;    \
	VPADDB   Z21, L, K5, L;  \
	VPADDB   Z21, H, K6, H

// As SUM_Q5_0, of sums of any size.
#define SUM_Q8_0 \
	VPUNPCKLDQ  Z9, Z8, Z12;   \
	VPUNPCKHDQ  Z9, Z8, Z13;   \
	VPADDD      Z13, Z12, Z12; \
	VPUNPCKLDQ  Z11, Z10, Z13; \
	VPUNPCKHDQ  Z11, Z10, Z15; \
	VPADDD      Z15, Z13, Z13; \
	VPUNPCKLQDQ Z13, Z12, Z8;  \
	VPUNPCKHQDQ Z13, Z12, Z9;  \
	VPADDD      Z8, Z14, Z14;  \
	VPADDD      Z9, Z14, Z14

// Y24 = the scales of four blocks, those of K4 from the 64 bytes at o, the others from the first 64.
#define SCALES_TWO(o) \
	SCALES4(0, Z29, Z24);    \
	SCALES4(o, Z28, Z8);     \
	VMOVDQU16 Z8, K4, Z24
#define Q8_0_SCALES FETCH(8); SCALES_TWO(64)
#define Q4_0_SCALES FETCH(4); SCALES4(0, Z29, Z24)
#define Q5_0_SCALES FETCH(4); FETCH(5); SCALES_TWO(24)

#define Q8_0_ACT(A) ACT(OFFSET, SUM_Q8_0, A)
#define Q4_0_ACT(A) ACT(OFFSET, SUM_Q4_0, A)
#define Q5_0_ACT(A) ACT(OFFSET, SUM_Q5_0, A)

// quad, for types whose scales the macro SCALES leaves in Y24 in half precision.
#define QUAD(BLOCK, ACT, SCALES, size) \
quad: \
	BEGIN4;                 \
four: \
	BLOCK(0, Z0, Z1);       \
	BLOCK(1, Z2, Z3);       \
	BLOCK(2, Z4, Z5);       \
	BLOCK(3, Z6, Z7);       \
	SCALES;                 \
	VCVTPH2PS Y24, Z24;     \
	ACTS(ACT, Z16, Z17, Z18, Z19, all) \
	MOVE4(4*size, four);    \
	END4(quad, put)

// func quadQ8_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·quadQ8_0VNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(34, 5, 0xff80ff80, 4096)
	PLACES(0x0000000000110000, 0x0013000200000000, 0xcccc)
	WORDS(0x80808080, Z31)
	QUAD(Q8_0_QUAD, Q8_0_ACT, Q8_0_SCALES, 34)

// func quadQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·quadQ4_0VNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(18, 5, 0xfff8fff8, 8192)
	PLACES(0x001b001200090000, 0, 0)
	WORDS(0x0f0f0f0f, Z31)
	QUAD(Q4_0_QUAD, Q4_0_ACT, Q4_0_SCALES, 18)

// func quadQ5_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
// Z20 bit i mod 8 in byte i, Z21 bit 4 of each byte, Z25, Z26 which byte has the high bits of columns 0 to 15, 16 to 31.
TEXT ·quadQ5_0VNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(22, 5, 0xfff0fff0, 8192)
	PLACES(0x00000016000b0000, 0x0015000000000000, 0x8888)
	WORDS(0x0f0f0f0f, Z31)
	MOVQ $0x8040201008040201, AX
	VPBROADCASTQ AX, Z20
	WORDS(0x10101010, Z21)
	VBROADCASTI32X4 quadbyte<>(SB), Z25
	WORDS(0x02020202, Z26)
	VPADDB Z26, Z25, Z26
	QUAD(Q5_0_QUAD, Q5_0_ACT, Q5_0_SCALES, 22)

// Which byte has the high bits of columns 0 to 15.
DATA quadbyte<>+0(SB)/8, $0x0000000000000000
DATA quadbyte<>+8(SB)/8, $0x0101010101010101
GLOBL quadbyte<>(SB), RODATA|NOPTR, $16
