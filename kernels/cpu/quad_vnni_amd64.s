//go:build !noasm

#include "textflag.h"

// Four rows of weights at a time, one to each quarter of a register, meet up to four rows of activations: what an instruction costs is
// shared by four rows, weights are taken apart once for all activations, and the sums of four blocks, one to a register, leave their
// reduction as one register of [row, block]. The bits are those of the rows leaves, whose order of sums (dot_amd64.h) this keeps: block b goes
// to lane b mod 4 of its row.
//
// Arguments of quad(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int): DI dst, R8 rows of weights left,
// SI, SI+R12, SI+2·R12 and BX place in the rows, R12 bytes of a row, DX q, CX d, R13 h, or s for types with minima, R14 place in a row of
// d, s or h in bytes (q is eight times as far), R9 its end, R15 what is fetched ahead: the next four rows and 8 KiB. For a row of activations
// AX is DX and R11 is R14 in that row; R10 and 0(SP) lead to the next. size is the bytes of a block of 2^log columns.
// K1-K3 dwords or words of rows 1-3. Z0-Z7 weights, two registers to a block; Z8-Z11 products; Z16-Z19 sums of each row of activations, of
// the second halves of blocks of 256 Z20-Z23; Z24 scales, Z27 words of 1, Z30 words of the offset.
#define QUAD_ARGS(size, log, off, ahead) \
	MOVQ  dst_base+0(FP), DI;       \
	MOVQ  w_base+32(FP), SI;        \
	MOVQ  w_len+40(FP), AX;         \
	MOVQ  q_base+56(FP), DX;        \
	MOVQ  d_base+80(FP), CX;        \
	MOVQ  h_base+128(FP), R13;      \
	MOVQ  n+160(FP), R10;           \
	MOVQ  R10, R9;                  \
	SHRQ  $3, R9;                   \
	MOVQ  R9, 0(SP);                \
	MOVQ  R10, R12;                 \
	SHRQ  $log, R12;                \
	IMUL3Q $size, R12, R12;         \
	LEAQ  (SI)(AX*1), R8;           \
	LEAQ  ahead(SI)(R12*4), R15;    \
	MOVL  $0x00f0, AX;              \
	KMOVW AX, K1;                   \
	SHLL  $4, AX;                   \
	KMOVW AX, K2;                   \
	SHLL  $4, AX;                   \
	KMOVW AX, K3;                   \
	WORDS(off, Z30);                \
	WORDS(0x00010001, Z27)

// Where the scales of four blocks are, in words: those of K4 in a second part of the row, by Z28, the others by Z29.
#define PLACES(first, second, fromSecond) \
	MOVL  $fromSecond, AX;          \
	KMOVD AX, K4;                   \
	MOVQ  $first, AX;               \
	VPBROADCASTQ AX, Z29;           \
	MOVQ  $second, AX;              \
	VPBROADCASTQ AX, Z28

#define WORDS(imm, Z) MOVL $imm, AX; VPBROADCASTD AX, Z

// Fetches a line of what is ahead. Many at once would keep loads waiting, so they stand between other instructions.
#define FETCH(line) PREFETCHT0 (64*(line))(R15)

// Z = 16 bytes at o of the four rows.
#define LOAD4(o, Z) \
	VBROADCASTI32X4 (o)(SI), Z;             \
	VBROADCASTI32X4 (o)(SI)(R12*1), K1, Z;  \
	VBROADCASTI32X4 (o)(SI)(R12*2), K2, Z;  \
	VBROADCASTI32X4 (o)(BX), K3, Z

// L, H = 16 bytes each at o and o+16 of the four rows. (A shuffle for every register is less than LOAD4 takes.)
#define LOAD32(o, L, H) \
	VMOVDQU32    (o)(SI), Y8;                   \
	VINSERTI64X4 $1, (o)(SI)(R12*1), Z8, Z8;    \
	VMOVDQU32    (o)(SI)(R12*2), Y9;            \
	VINSERTI64X4 $1, (o)(BX), Z9, Z9;           \
	VSHUFI32X4   $0x88, Z9, Z8, L;              \
	VSHUFI32X4   $0xdd, Z9, Z8, H

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
	FETCH(2*b);   \
	FETCH(2*b+1); \
	LOAD32(34*b+2, L, H); \
	VPXORD Z31, L, L;  \
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

// Adds to Z14 in each quarter the sums of Z8, Z9, Z10 and Z11. Sums of eight products fit 16 bits in Q5_0 (8·31·127), those of
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
	VPADDD      Z8, Z14, Z14;  \
	VPADDD      Z9, Z14, Z14
#define PACK4 \
	VPACKSSDW Z9, Z8, Z12;         \
	VPACKSSDW Z11, Z10, Z13;       \
	VSHUFPS   $0x88, Z13, Z12, Z8; \
	VSHUFPS   $0xdd, Z13, Z12, Z9
#define SUM_Q5_0 \
	PACK4;                 \
	VPDPWSSD Z27, Z8, Z14; \
	VPDPWSSD Z27, Z9, Z14
#define SUM_Q4_0 \
	PACK4;                 \
	VPADDW   Z9, Z8, Z8;   \
	VPDPWSSD Z27, Z8, Z14

// Y24 = the scales of four blocks, those of K4 from the 64 bytes at o, the others from the first 64.
#define SCALES_TWO(o) \
	SCALES4(0, Z29, Z24);    \
	SCALES4(o, Z28, Z8);     \
	VMOVDQU16 Z8, K4, Z24
#define Q8_0_SCALES FETCH(8); SCALES_TWO(64)
#define Q4_0_SCALES FETCH(4); SCALES4(0, Z29, Z24)
#define Q5_0_SCALES FETCH(4); FETCH(5); SCALES_TWO(24)

// Z14 = the integers that make up for the offset of the weights, or zeros.
#define OFFSET \
	VBROADCASTI32X4 (R13)(R11*1), Z14; \
	VPMADDWD Z30, Z14, Z14
#define NO_OFFSET VPXORD Z14, Z14, Z14

// Adds the integers Z14 times the scales D, times d, to A.
#define ADD4(D, A) \
	VCVTDQ2PS Z14, Z14;                  \
	VBROADCASTF32X4 (CX)(R11*1), Z12;  \
	VMULPS Z12, D, Z12;                \
	VFMADD231PS Z14, Z12, A

// Adds four blocks of a row of activations to A.
#define ACT(OFFSET, SUM, A) \
	DOT4(0, Z0, Z1, Z8);   \
	DOT4(1, Z2, Z3, Z9);   \
	DOT4(2, Z4, Z5, Z10);  \
	DOT4(3, Z6, Z7, Z11);  \
	OFFSET;                \
	SUM;                   \
	ADD4(Z24, A)
#define Q8_0_ACT(A) ACT(OFFSET, SUM_Q8_0, A)
#define Q4_0_ACT(A) ACT(OFFSET, SUM_Q4_0, A)
#define Q5_0_ACT(A) ACT(OFFSET, SUM_Q5_0, A)

// To the next row of activations, or to end if that was the number-th and last.
#define NEXT(number, end) \
	CMPQ rows+152(FP), $number;        \
	JEQ  end;                          \
	ADDQ R10, AX;                      \
	ADDQ 0(SP), R11

// ACT for all rows of activations, whose sums are A, B, C and D.
#define ACTS(ACT, A, B, C, D, end) \
	MOVQ DX, AX;   \
	MOVQ R14, R11; \
	ACT(A);        \
	NEXT(1, end);  \
	ACT(B);        \
	NEXT(2, end);  \
	ACT(C);        \
	NEXT(3, end);  \
	ACT(D);        \
end:

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
	CMPQ rows+152(FP), $number;       \
	JEQ  end;                         \
	ADDQ AX, R11

// Begins four rows of weights.
#define BEGIN4 \
	LEAQ (SI)(R12*2), BX;   \
	ADDQ R12, BX;           \
	XORL R14, R14;          \
	VPXORD Z16, Z16, Z16;   \
	VPXORD Z17, Z17, Z17;   \
	VPXORD Z18, Z18, Z18;   \
	VPXORD Z19, Z19, Z19

// Moves on by size bytes of each row, which were the last 16 bytes of a row of d; to more if there are more.
#define MOVE4(size, more) \
	ADDQ $(4*size), R15;    \
	ADDQ $size, SI;         \
	ADDQ $size, BX;         \
	ADDQ $16, R14;          \
	CMPQ R14, R9;           \
	JLT  more

// Puts the sums of four rows; to more if there are more of them, else returns.
#define END4(more, put) \
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
	JLT  more;              \
	VZEROUPPER;             \
	RET

// quad for the types with blocks of 32.
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

// Z24, Z26 = the scales of blocks 0 to 3 and 4 to 7 of Q4_K or Q5_K, Z25, Z28 their minima: see scalesK. Z29 places of d, Z30 of dmin.
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
	VCVTDQ2PS Z24, Z24;                 \
	VCVTDQ2PS Z25, Z25;                 \
	VCVTDQ2PS Z26, Z26;                 \
	VCVTDQ2PS Z28, Z28;                 \
	VMULPS Z1, Z24, Z24;                \
	VMULPS Z2, Z25, Z25;                \
	VMULPS Z1, Z26, Z26;                \
	VMULPS Z2, Z28, Z28

// Adds four blocks of a row of activations to A and subtracts their minima.
#define ACT_K(SUM, A) \
	ACT(NO_OFFSET, SUM, A);            \
	VBROADCASTF32X4 (R13)(R11*1), Z12; \
	VFNMADD231PS Z12, Z25, A
#define Q4_K_ACT(A) ACT_K(SUM_Q4_0, A)
#define Q5_K_ACT(A) ACT_K(SUM_Q5_0, A)

// Z0-Z7 = the weights of half a block; lines from this one on are fetched.
#define Q4_K_HALF(o, line) NIBBLES4(o, line, Z2, Z3, Z4, Z5)
#define Q5_K_HALF(o, line, SHIFT0, n0, SHIFT1, n1, SHIFT2, n2, SHIFT3, n3) \
	Q4_K_HALF(o, line);        \
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
	VCVTDQ2PS Z24, Z24;                 \
	VCVTDQ2PS Z25, Z25;                 \
	VCVTDQ2PS Z26, Z26;                 \
	VCVTDQ2PS Z28, Z28;                 \
	VMULPS Z1, Z24, Z24;                \
	VMULPS Z1, Z25, Z25;                \
	VMULPS Z1, Z26, Z26;                \
	VMULPS Z1, Z28, Z28

// P = products of the weights W with the sixteen activations at c.
#define DOT16(c, W, P) \
	VBROADCASTI32X4 (c)(AX)(R14*8), Z12; \
	VPXORD   P, P, P;   \
	VPDPBUSD Z12, W, P

// Adds the half blocks from c on, of the weights W0 to W3 and the scales D, to A. Sums of four products fit 16 bits (4·63·127).
#define HALVES4(c, W0, W1, W2, W3, D, A) \
	DOT16(c, W0, Z8);     \
	DOT16(c+32, W1, Z9);  \
	DOT16(c+64, W2, Z10); \
	DOT16(c+96, W3, Z11); \
	SUM_Q5_0;             \
	ADD4(D, A)
#define Q6_K_ACT(A) \
	OFFSET;               \
	HALVES4(0, Z0, Z2, Z4, Z6, Z24, A);    \
	VBROADCASTI32X4 (R13)(R11*1), Z14;     \
	VPSRLD $16, Z14, Z14;                  \
	VPMADDWD Z30, Z14, Z14;                \
	HALVES4(16, Z1, Z3, Z5, Z7, Z25, A)

// func quadQ8_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·quadQ8_0VNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(34, 5, 0xff80ff80, 8192)
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

// What Q4_K and Q5_K have in common: the place of s, and where d and dmin are.
#define QUADK_ARGS \
	MOVQ s_base+104(FP), R13;      \
	WORDS(0x0f0f0f0f, Z31);        \
	VMOVDQU32 quadd<>(SB), Y29;      \
	VPADDW Z27, Z29, Z30

// func quadQ4_KVNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·quadQ4_KVNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(144, 8, 0, 4096)
	QUADK_ARGS
	QUADK(SCALES4_K, Q4_K_HALF(16, 1), Q4_K_HALF(80, 5), Q4_K_ACT, 144)

// func quadQ5_KVNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
// Z15 bit 4 of each byte.
TEXT ·quadQ5_KVNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(176, 8, 0, 4096)
	QUADK_ARGS
	WORDS(0x10101010, Z15)
	QUADK(SCALES4_K, Q5_K_FIRST, Q5_K_SECOND, Q5_K_ACT, 176)

// func quadQ6_KVNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
// Z15 bits 4 and 5 of each byte.
TEXT ·quadQ6_KVNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(210, 8, 0x0000ffe0, 4096)
	WORDS(0x0f0f0f0f, Z31)
	WORDS(0x001f001f, Z29)
	WORDS(0x30303030, Z15)
	QUADK(SCALES4_6, Q6_K_HALF(0, 128, 2), Q6_K_HALF(64, 160, 8), Q6_K_ACT, 210)

DATA quadbyte<>+0(SB)/8, $0x0000000000000000
DATA quadbyte<>+8(SB)/8, $0x0101010101010101
GLOBL quadbyte<>(SB), RODATA|NOPTR, $16

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
