//go:build !noasm

#include "textflag.h"

// Four rows of weights at a time, one to each quarter of a register: what an instruction costs is shared by four rows, and the sums of
// four blocks, one to a register, leave their reduction as one register of [row, block]. The bits are those of the rows leaves, whose
// order of sums (dot_amd64.h) this keeps: block b goes to lane b mod 4 of its row.
//
// Arguments of quad(dst []float32, w []byte, q []int8, d, s []float32, h []int16), a multiple of four rows of a multiple of four
// blocks: DI dst, R8 rows left, SI, SI+R12, SI+2·R12 and BX place in the rows, R12 bytes of a row, DX q, CX d, R13 h, R14 place in d
// and h in bytes (q is eight times as far), R9 its end, R15 what is fetched ahead: the next four rows and 8 KiB.
// K1-K3 dwords or words of rows 1-3, K4 scales that come from the second part of a row; Z16 sums, Z4-Z7 products, Z30 words of the
// offset, Z29, Z28 places of the scales.
#define QUAD_ARGS(size, off, first, second, fromSecond) \
	MOVQ  dst_base+0(FP), DI;       \
	MOVQ  dst_len+8(FP), R8;        \
	MOVQ  w_base+24(FP), SI;        \
	MOVQ  q_base+48(FP), DX;        \
	MOVQ  d_base+72(FP), CX;        \
	MOVQ  d_len+80(FP), R9;         \
	MOVQ  h_base+120(FP), R13;      \
	IMUL3Q $size, R9, R12;          \
	SHLQ  $2, R9;                   \
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

// P = products of weights L, columns 0 to 15 of a block, and H, 16 to 31, with the activations at o.
#define DOT4(L, H, o, P) \
	VBROADCASTI32X4 (o)(DX)(R14*8), Z2;    \
	VBROADCASTI32X4 (o+16)(DX)(R14*8), Z3; \
	VPXORD   P, P, P;                      \
	VPDPBUSD Z2, L, P;                     \
	VPDPBUSD Z3, H, P

// P = products of block b.
#define Q4_0_QUAD(b, P) \
	LOAD4(18*b+2, Z0);  \
	VPSRLW $4, Z0, Z1;  \
	VPANDD Z31, Z0, Z0; \
	VPANDD Z31, Z1, Z1; \
	DOT4(Z0, Z1, 32*b, P)
#define Q5_0_QUAD(b, P) \
	LOAD4(22*b+6, Z0);        \
	DWORD4(22*b+2, Z8);       \
	VPSRLW   $4, Z0, Z1;      \
	VPANDD   Z31, Z0, Z0;     \
	VPANDD   Z31, Z1, Z1;     \
	VPSHUFB  Z25, Z8, Z9;     \ // byte i is the one with the high bit of weight i
	VPSHUFB  Z24, Z8, Z8;     \
	VPTESTMB Z26, Z9, K5;     \
	VPTESTMB Z26, Z8, K6;     \
	VPADDB   Z27, Z0, K5, Z0; \
	VPADDB   Z27, Z1, K6, Z1; \
	DOT4(Z0, Z1, 32*b, P)

// Z4 = in each quarter the sums of Z4, Z5, Z6 and Z7, plus Z10. Sums of eight products fit 16 bits in Q5_0 (8·31·127), those of
// sixteen in Q4_0 (16·15·127). Z23 words of 1.
#define SUM_Q5_0 \
	VPACKSSDW Z5, Z4, Z0;      \
	VPACKSSDW Z7, Z6, Z2;      \
	VPMADDWD  Z23, Z0, Z0;     \
	VPMADDWD  Z23, Z2, Z2;     \
	VSHUFPS   $0x88, Z2, Z0, Z4; \
	VSHUFPS   $0xdd, Z2, Z0, Z5; \
	VPADDD    Z10, Z4, Z4;     \
	VPADDD    Z5, Z4, Z4
#define SUM_Q4_0 \
	VPACKSSDW Z5, Z4, Z0;   \
	VPACKSSDW Z7, Z6, Z2;   \
	VPMADDWD  Z23, Z0, Z0;  \
	VPMADDWD  Z23, Z2, Z2;  \
	VPACKSSDW Z2, Z0, Z0;   \
	VMOVDQA32 Z10, Z4;      \
	VPDPWSSD  Z23, Z0, Z4

// Y9 = the scales of four blocks: all in the first 64 bytes of them, or those of K4 in the 64 bytes at o.
#define SCALES_ONE SCALES4(0, Z29, Z9)
#define SCALES_TWO(o) \
	SCALES4(0, Z29, Z9);     \
	SCALES4(o, Z28, Z8);     \
	VMOVDQU16 Z8, K4, Z9

#define FETCH4(o) \
	PREFETCHT0 (o)(R15);     \
	PREFETCHT0 (o+64)(R15);  \
	PREFETCHT0 (o+128)(R15); \
	PREFETCHT0 (o+192)(R15)

#define QUAD(BLOCK, SUM, SCALES, FETCH, size) \
quad: \
	LEAQ (SI)(R12*2), BX;             \
	ADDQ R12, BX;                     \
	XORL R14, R14;                    \
	VPXORD Z16, Z16, Z16;             \
four: \
	FETCH;                            \
	BLOCK(0, Z4);                     \
	BLOCK(1, Z5);                     \
	BLOCK(2, Z6);                     \
	BLOCK(3, Z7);                     \
	VBROADCASTI32X4 (R13)(R14*1), Z10; \
	VPMADDWD Z30, Z10, Z10;           \
	SUM;                              \
	SCALES;                           \
	VCVTPH2PS Y9, Z9;                 \
	VCVTDQ2PS Z4, Z4;                 \
	VBROADCASTF32X4 (CX)(R14*1), Z8;  \
	VMULPS Z8, Z9, Z9;                \
	VFMADD231PS Z4, Z9, Z16;          \
	ADDQ $(16*size), R15;             \
	ADDQ $(4*size), SI;               \
	ADDQ $(4*size), BX;               \
	ADDQ $16, R14;                    \
	CMPQ R14, R9;                     \
	JLT  four;                        \
	VPERMILPS $0x4e, Z16, Z0;         \
	VADDPS Z0, Z16, Z0;               \
	VPERMILPS $0xb1, Z0, Z1;          \
	VADDPS Z1, Z0, Z0;                \
	VEXTRACTF32X4 $1, Z0, X1;         \
	VEXTRACTF32X4 $2, Z0, X2;         \
	VEXTRACTF32X4 $3, Z0, X3;         \
	VMOVSS X0, (DI);                  \
	VMOVSS X1, 4(DI);                 \
	VMOVSS X2, 8(DI);                 \
	VMOVSS X3, 12(DI);                \
	ADDQ $16, DI;                     \
	MOVQ BX, SI;                      \
	SUBQ $4, R8;                      \
	JNZ  quad;                        \
	VZEROUPPER;                       \
	RET

// func quadQ4_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·quadQ4_0VNNI(SB), NOSPLIT, $0-144
	QUAD_ARGS(18, 0xfff8fff8, 0x001b001200090000, 0, 0)
	WORDS(0x0f0f0f0f, Z31)
	WORDS(0x00010001, Z23)
#define Q4_0_FETCH FETCH4(0); PREFETCHT0 256(R15)
	QUAD(Q4_0_QUAD, SUM_Q4_0, SCALES_ONE, Q4_0_FETCH, 18)

// func quadQ5_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
// Z27 bit 4 of each byte, Z26 bit i mod 8 in byte i, Z25, Z24 which byte has the bits of columns 0 to 15, 16 to 31.
TEXT ·quadQ5_0VNNI(SB), NOSPLIT, $0-144
	QUAD_ARGS(22, 0xfff0fff0, 0x00000016000b0000, 0x0015000000000000, 0x8888)
	WORDS(0x0f0f0f0f, Z31)
	WORDS(0x00010001, Z23)
	WORDS(0x10101010, Z27)
	MOVQ $0x8040201008040201, AX
	VPBROADCASTQ AX, Z26
	VBROADCASTI32X4 bytes01<>(SB), Z25
	WORDS(0x02020202, Z24)
	VPADDB Z24, Z25, Z24
#define Q5_0_FETCH FETCH4(0); PREFETCHT0 256(R15); PREFETCHT0 320(R15)
	QUAD(Q5_0_QUAD, SUM_Q5_0, SCALES_TWO(24), Q5_0_FETCH, 22)

DATA bytes01<>+0(SB)/8, $0x0000000000000000
DATA bytes01<>+8(SB)/8, $0x0101010101010101
GLOBL bytes01<>(SB), RODATA|NOPTR, $16
