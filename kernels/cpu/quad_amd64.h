#include "group_amd64.h"

// Four rows of weights at a time, one to each quarter of a register, meet up to four rows of activations: what an instruction costs is
// shared by four rows, weights are taken apart once for all activations, and the sums of four blocks, one to a register, leave their
// reduction as one register of [row, block]. The bits are those of the rows leaves, whose order of sums (dot_amd64.h) this keeps: block b goes
// to lane b mod 4 of its row, or mod 8 for the types with blocks of 256.
//
// Arguments of quad(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int): DI dst, R8 rows of weights left,
// SI, SI+R12, SI+2·R12 and BX place in the rows, R12 bytes of a row, DX q, CX d, R13 h, or s for types with minima, R14 place in a row of
// d, s or h in bytes (q is eight times as far), R9 its end, R15 what is fetched: four rows and ahead bytes further on. For a row of activations
// AX is DX and R11 is R14 in that row; R10 and 0(SP) lead to the next. size is the bytes of a block of 2^log columns, off words that make up
// for the offset of the weights.
// K1-K3 dwords or words of rows 1-3. Z0-Z7 weights, two registers to a block; Z8-Z11 products; Z16-Z19 sums of each row of activations, of
// the second halves of blocks of 256 Z20-Z23; Z24 scales, Z27 words of 1, Z30 words of the offset.
#define QUAD_ARGS(size, log, off, ahead) \
	GROUP_ARGS(size, log);          \
	MOVQ  h_base+128(FP), R13;      \
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

#define WORDS(imm, Z) MOVL $imm, AX; VPBROADCASTD AX, Z

// Z = 16 bytes at o of the four rows.
#define LOAD4(o, Z) \
	VBROADCASTI32X4 (o)(SI), Z;             \
	VBROADCASTI32X4 (o)(SI)(R12*1), K1, Z;  \
	VBROADCASTI32X4 (o)(SI)(R12*2), K2, Z;  \
	VBROADCASTI32X4 (o)(BX), K3, Z

// L, H = 16 bytes each at o and o+16 of the four rows. (A broadcast takes a shuffle unit: this has four shuffles, two of LOAD4 eight.)
#define LOAD32(o, L, H) \
	VMOVDQU32    (o)(SI), Y8;                   \
	VINSERTI64X4 $1, (o)(SI)(R12*1), Z8, Z8;    \
	VMOVDQU32    (o)(SI)(R12*2), Y9;            \
	VINSERTI64X4 $1, (o)(BX), Z9, Z9;           \
	VSHUFI32X4   $0x88, Z9, Z8, L;              \
	VSHUFI32X4   $0xdd, Z9, Z8, H

// Words 4r to 4r+3 of Z = four words of the 64 bytes at o of row r, of the places IDX.
#define SCALES4(o, IDX, Z) \
	VPERMW (o)(SI), IDX, Z;             \
	VPERMW (o)(SI)(R12*1), IDX, K1, Z;  \
	VPERMW (o)(SI)(R12*2), IDX, K2, Z;  \
	VPERMW (o)(BX), IDX, K3, Z

// P = products of the weights L and H of block b with a row of activations.
#define DOT4(b, L, H, P) \
	VBROADCASTI32X4 (32*b)(AX)(R14*8), Z12;    \
	VBROADCASTI32X4 (32*b+16)(AX)(R14*8), Z13; \
	VPXORD   P, P, P;    \
	VPDPBUSD Z12, L, P;  \
	VPDPBUSD Z13, H, P

// Adds to Z14 in each quarter the sums of Z8, Z9, Z10 and Z11. PACK4: Z8 = two words of each of them, Z9 = two others; these fit, as sums of eight
// products do in Q5_0 (8·31·127), and of four in Q6_K (4·63·127). In Q4_0 sums of sixteen do (16·15·127).
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

// Z14 = the integers that make up for the offset of the weights, or zeros.
#define OFFSET \
	VBROADCASTI32X4 (R13)(R11*1), Z14; \
	VPMADDWD Z30, Z14, Z14
#define NO_OFFSET VPXORD Z14, Z14, Z14

// Adds the integers Z14 times the scales D, times d, to A.
#define ADD4(D, A) \
	VCVTDQ2PS Z14, Z14;                \
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
