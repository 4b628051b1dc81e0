//go:build !noasm

#include "textflag.h"

// Four rows of weights at a time, one to each quarter of a register, meet up to four rows of activations: what an instruction costs is
// shared by four rows, weights are taken apart once for all activations, and the sums of four blocks, one to a register, leave their
// reduction as one register of [row, block]. The bits are those of the rows leaves, whose order of sums (dot_amd64.h) this keeps: block b goes
// to lane b mod 4 of its row.
//
// Arguments of quad(dst []float32, stride int, w []byte, q []int8, d []float32, h []int16, rows, n int): DI dst, R8 rows of weights left, SI,
// SI+R12, SI+2·R12 and BX place in the rows, R12 bytes of a row, DX q, CX d, R13 h, R14 place in a row of d or h in bytes (q is eight times as
// far), R9 its end, R15 what is fetched ahead: the next four rows and 8 KiB. For a row of activations AX is DX and R11 is R14 in that row;
// R10 and 0(SP) lead to the next.
// K1-K3 dwords or words of rows 1-3, K4 scales that come from the second part of a row. Z0-Z7 weights, two registers to a block; Z8-Z11
// products; Z16-Z19 sums of each row of activations; Z24 scales, Z27 words of 1, Z28, Z29 places of the scales, Z30 words of the offset.
#define QUAD_ARGS(size, off, first, second, fromSecond) \
	MOVQ  dst_base+0(FP), DI;       \
	MOVQ  w_base+32(FP), SI;        \
	MOVQ  w_len+40(FP), AX;         \
	MOVQ  q_base+56(FP), DX;        \
	MOVQ  d_base+80(FP), CX;        \
	MOVQ  h_base+104(FP), R13;      \
	MOVQ  n+136(FP), R10;           \
	MOVQ  R10, R9;                  \
	SHRQ  $3, R9;                   \
	MOVQ  R9, 0(SP);                \
	MOVQ  R10, R12;                 \
	SHRQ  $5, R12;                  \
	IMUL3Q $size, R12, R12;         \
	LEAQ  (SI)(AX*1), R8;           \
	LEAQ  8192(SI)(R12*4), R15;     \
	MOVL  $0x00f0, AX;              \
	KMOVW AX, K1;                   \
	SHLL  $4, AX;                   \
	KMOVW AX, K2;                   \
	SHLL  $4, AX;                   \
	KMOVW AX, K3;                   \
	MOVL  $fromSecond, AX;          \
	KMOVD AX, K4;                   \
	WORDS(off, Z30);                \
	WORDS(0x00010001, Z27);         \
	MOVQ  $first, AX;               \
	VPBROADCASTQ AX, Z29;           \
	MOVQ  $second, AX;              \
	VPBROADCASTQ AX, Z28

#define WORDS(imm, Z) MOVL $imm, AX; VPBROADCASTD AX, Z

// Z = 16 bytes at o of the four rows.
#define LOAD4(o, Z) \
	VBROADCASTI32X4 (o)(SI), Z;             \
	VBROADCASTI32X4 (o)(SI)(R12*1), K1, Z;  \
	VBROADCASTI32X4 (o)(SI)(R12*2), K2, Z;  \
	VBROADCASTI32X4 (o)(BX), K3, Z

// Z = the dword at o of the four rows, four times each.
#define DWORD4(o, Z) \
	VPBROADCASTD (o)(SI), Z;             \
	VPBROADCASTD (o)(SI)(R12*1), K1, Z;  \
	VPBROADCASTD (o)(SI)(R12*2), K2, Z;  \
	VPBROADCASTD (o)(BX), K3, Z

// Words 4r to 4r+3 of Z = four words of the 64 bytes at o of row r, of the places IDX.
#define SCALES4(o, IDX, Z) \
	VPERMW (o)(SI), IDX, Z;             \
	VPERMW (o)(SI)(R12*1), IDX, K1, Z;  \
	VPERMW (o)(SI)(R12*2), IDX, K2, Z;  \
	VPERMW (o)(BX), IDX, K3, Z

// L, H = columns 0 to 15 and 16 to 31 of block b of four rows, as unsigned bytes.
#define Q8_0_QUAD(b, L, H) \
	LOAD4(34*b+2, L);  \
	LOAD4(34*b+18, H); \
	VPXORD Z31, L, L;  \
	VPXORD Z31, H, H
#define Q4_0_QUAD(b, L, H) \
	LOAD4(18*b+2, L);  \
	VPSRLW $4, L, H;   \
	VPANDD Z31, L, L;  \
	VPANDD Z31, H, H
#define Q5_0_QUAD(b, L, H) \
	LOAD4(22*b+6, L);        \
	DWORD4(22*b+2, Z8);      \
	VPSRLW   $4, L, H;       \
	VPANDD   Z31, L, L;      \
	VPANDD   Z31, H, H;      \
	VPSHUFB  Z25, Z8, Z9;    \ // byte i is the one with the high bit of weight i
	VPSHUFB  Z26, Z8, Z8;    \
	VPTESTMB Z20, Z9, K5;     \
	VPTESTMB Z20, Z8, K6;     \
	VPADDB   Z21, L, K5, L;   \
	VPADDB   Z21, H, K6, H

// P = products of the weights L and H of block b with a row of activations.
#define DOT4(b, L, H, P) \
	VBROADCASTI32X4 (32*b)(AX)(R14*8), Z12;    \
	VBROADCASTI32X4 (32*b+16)(AX)(R14*8), Z13; \
	VPXORD   P, P, P;    \
	VPDPBUSD Z12, L, P;  \
	VPDPBUSD Z13, H, P

// Z8 = in each quarter the sums of Z8, Z9, Z10 and Z11, plus Z14. Sums of eight products fit 16 bits in Q5_0 (8·31·127), those of
// sixteen in Q4_0 (16·15·127).
#define SUM_Q8_0 \
	VPUNPCKLDQ  Z9, Z8, Z12;   \
	VPUNPCKHDQ  Z9, Z8, Z13;   \
	VPADDD      Z13, Z12, Z12; \
	VPUNPCKLDQ  Z11, Z10, Z13; \
	VPUNPCKHDQ  Z11, Z10, Z15; \
	VPADDD      Z15, Z13, Z13; \
	VPUNPCKLQDQ Z13, Z12, Z8;  \
	VPUNPCKHQDQ Z13, Z12, Z9;  \
	VPADDD      Z14, Z8, Z8;   \
	VPADDD      Z9, Z8, Z8
#define SUM_Q5_0 \
	VPACKSSDW Z9, Z8, Z12;       \
	VPACKSSDW Z11, Z10, Z13;     \
	VPMADDWD  Z27, Z12, Z12;     \
	VPMADDWD  Z27, Z13, Z13;     \
	VSHUFPS   $0x88, Z13, Z12, Z8; \
	VSHUFPS   $0xdd, Z13, Z12, Z9; \
	VPADDD    Z14, Z8, Z8;       \
	VPADDD    Z9, Z8, Z8
#define SUM_Q4_0 \
	VPACKSSDW Z9, Z8, Z12;    \
	VPACKSSDW Z11, Z10, Z13;  \
	VPMADDWD  Z27, Z12, Z12;  \
	VPMADDWD  Z27, Z13, Z13;  \
	VPACKSSDW Z13, Z12, Z12;  \
	VMOVDQA32 Z14, Z8;        \
	VPDPWSSD  Z27, Z12, Z8

// Y24 = the scales of four blocks: all in the first 64 bytes of them, or those of K4 in the 64 bytes at o.
#define SCALES_ONE SCALES4(0, Z29, Z24)
#define SCALES_TWO(o) \
	SCALES4(0, Z29, Z24);    \
	SCALES4(o, Z28, Z8);     \
	VMOVDQU16 Z8, K4, Z24

#define FETCH4(o) \
	PREFETCHT0 (o)(R15);     \
	PREFETCHT0 (o+64)(R15);  \
	PREFETCHT0 (o+128)(R15); \
	PREFETCHT0 (o+192)(R15)

// Four blocks of a row of activations, to be added to A; on to next, or to end if it was the number-th and last.
#define ACT(SUM, A, number, end) \
	DOT4(0, Z0, Z1, Z8);               \
	DOT4(1, Z2, Z3, Z9);               \
	DOT4(2, Z4, Z5, Z10);              \
	DOT4(3, Z6, Z7, Z11);              \
	VBROADCASTI32X4 (R13)(R11*1), Z14; \
	VPMADDWD Z30, Z14, Z14;            \
	SUM;                               \
	VCVTDQ2PS Z8, Z8;                  \
	VBROADCASTF32X4 (CX)(R11*1), Z12;  \
	VMULPS Z12, Z24, Z12;              \
	VFMADD231PS Z8, Z12, A;            \
	CMPQ rows+128(FP), $number;        \
	JEQ  end;                          \
	ADDQ R10, AX;                      \
	ADDQ 0(SP), R11

// The lanes of A summed up, to the four numbers at R11, which moves on by a row; to end if that was the number-th and last.
#define PUT4(A, number, end) \
	VPERMILPS $0x4e, A, Z0;           \
	VADDPS Z0, A, Z0;                 \
	VPERMILPS $0xb1, Z0, Z1;          \
	VADDPS Z1, Z0, Z0;                \
	VEXTRACTF32X4 $1, Z0, X1;         \
	VEXTRACTF32X4 $2, Z0, X2;         \
	VEXTRACTF32X4 $3, Z0, X3;         \
	VMOVSS X0, (R11);                 \
	VMOVSS X1, 4(R11);                \
	VMOVSS X2, 8(R11);                \
	VMOVSS X3, 12(R11);               \
	CMPQ rows+128(FP), $number;       \
	JEQ  end;                         \
	ADDQ AX, R11

#define QUAD(BLOCK, SUM, SCALES, FETCH, size) \
quad: \
	LEAQ (SI)(R12*2), BX;   \
	ADDQ R12, BX;           \
	XORL R14, R14;          \
	VPXORD Z16, Z16, Z16;   \
	VPXORD Z17, Z17, Z17;   \
	VPXORD Z18, Z18, Z18;   \
	VPXORD Z19, Z19, Z19;   \
four: \
	FETCH;                  \
	BLOCK(0, Z0, Z1);       \
	BLOCK(1, Z2, Z3);       \
	BLOCK(2, Z4, Z5);       \
	BLOCK(3, Z6, Z7);       \
	SCALES;                 \
	VCVTPH2PS Y24, Z24;     \
	MOVQ DX, AX;            \
	MOVQ R14, R11;          \
	ACT(SUM, Z16, 1, all);  \
	ACT(SUM, Z17, 2, all);  \
	ACT(SUM, Z18, 3, all);  \
	ACT(SUM, Z19, 4, all);  \
all: \
	ADDQ $(16*size), R15;   \
	ADDQ $(4*size), SI;     \
	ADDQ $(4*size), BX;     \
	ADDQ $16, R14;          \
	CMPQ R14, R9;           \
	JLT  four;              \
	MOVQ DI, R11;           \
	MOVQ stride+24(FP), AX; \
	SHLQ $2, AX;            \
	PUT4(Z16, 1, put);      \
	PUT4(Z17, 2, put);      \
	PUT4(Z18, 3, put);      \
	PUT4(Z19, 4, put);      \
put: \
	ADDQ $16, DI;           \
	MOVQ BX, SI;            \
	CMPQ SI, R8;            \
	JLT  quad;              \
	VZEROUPPER;             \
	RET

#define Q8_0_FETCH FETCH4(0); FETCH4(256); PREFETCHT0 512(R15)
#define Q4_0_FETCH FETCH4(0); PREFETCHT0 256(R15)
#define Q5_0_FETCH FETCH4(0); PREFETCHT0 256(R15); PREFETCHT0 320(R15)

// func quadQ8_0VNNI(dst []float32, stride int, w []byte, q []int8, d []float32, h []int16, rows, n int)
TEXT ·quadQ8_0VNNI(SB), NOSPLIT, $8-144
	QUAD_ARGS(34, 0xff80ff80, 0x0000000000110000, 0x0013000200000000, 0xcccc)
	WORDS(0x80808080, Z31)
	QUAD(Q8_0_QUAD, SUM_Q8_0, SCALES_TWO(64), Q8_0_FETCH, 34)

// func quadQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d []float32, h []int16, rows, n int)
TEXT ·quadQ4_0VNNI(SB), NOSPLIT, $8-144
	QUAD_ARGS(18, 0xfff8fff8, 0x001b001200090000, 0, 0)
	WORDS(0x0f0f0f0f, Z31)
	QUAD(Q4_0_QUAD, SUM_Q4_0, SCALES_ONE, Q4_0_FETCH, 18)

// func quadQ5_0VNNI(dst []float32, stride int, w []byte, q []int8, d []float32, h []int16, rows, n int)
// Z20 bit i mod 8 in byte i, Z21 bit 4 of each byte, Z25, Z26 which byte has the high bits of columns 0 to 15, 16 to 31.
TEXT ·quadQ5_0VNNI(SB), NOSPLIT, $8-144
	QUAD_ARGS(22, 0xfff0fff0, 0x00000016000b0000, 0x0015000000000000, 0x8888)
	WORDS(0x0f0f0f0f, Z31)
	MOVQ $0x8040201008040201, AX
	VPBROADCASTQ AX, Z20
	WORDS(0x10101010, Z21)
	VBROADCASTI32X4 quadbyte<>(SB), Z25
	WORDS(0x02020202, Z26)
	VPADDB Z26, Z25, Z26
	QUAD(Q5_0_QUAD, SUM_Q5_0, SCALES_TWO(24), Q5_0_FETCH, 22)

DATA quadbyte<>+0(SB)/8, $0x0000000000000000
DATA quadbyte<>+8(SB)/8, $0x0101010101010101
GLOBL quadbyte<>(SB), RODATA|NOPTR, $16
