//go:build !noasm

#include "textflag.h"

// Products of bytes, summed by twos. Four of 63 and 127 fit in 16 bits, eight of 31 and 127: before they are widened, two of these sums
// are added in Q6_K and four in the other types.
#define DOTU(W, w, Q, P, p) VPMADDUBSW Q, W, P
#define ADDP VPADDW
#define WIDEN(P) VPMADDWD Y10, P, P
#define ROWS_ONES SPLAT($0x00010001, X10, Y10)

// Q8_0 takes the magnitudes of its weights, and the activations with the sign of the weight: |W| ≤ 128 and |Q| ≤ 127, so two
// products add up to at most 32512. There is no offset.
#define Q8_0_CONST VPXOR Y9, Y9, Y9
#define Q8_0_DOT(w, q, P, p) \
	VMOVDQU    (2+w)(SI), Y1; \
	VPABSB     Y1, Y2;        \
	VMOVDQU    q(R11), P;     \
	VPSIGNB    Y1, P, P;      \
	VPMADDUBSW P, Y2, P;      \
	VPMADDWD   Y10, P, P
#define WIDE(P)

#include "sum_amd64.h"
#include "dot_amd64.h"

// To go before ROWS32: two rows of Q5_0 at a time, one to each half of the registers that hold the sums of blocks, if a row is a multiple of four
// blocks. What comes next is fetched in the order of memory, at DX. (The others have leaves for eight rows. For Q5_0 one was no faster from memory.)
#define Q5_0_PAIRS \
	IMUL3Q $22, R9, R10;       \
	TESTQ  $3, R9;             \
	JNZ    row;                \
	CMPQ   R8, $2;             \
	JLT    row;                \
	MOVQ   SI, DX;             \
pair: \
	MOVQ   q_base+48(FP), R11; \
	MOVQ   CX, R12;            \
	MOVQ   R13, R14;           \
	MOVQ   R9, R15;            \
	VXORPS X0, X0, X0;         \
both: \
	AHEAD(DX, 0);              \
	AHEAD(DX, 44);             \
	AHEAD(DX, 88);             \
	AHEAD(DX, 132);            \
	ADDQ $176, DX;             \
	QUAD(Q5_0_DOT, ADDP, WIDEN, 22); \
	VMOVDQA Y3, Y7;            \
	ADDQ R10, SI;              \
	QUAD(Q5_0_DOT, ADDP, WIDEN, 22); \
	HALVES(Y7, Y3, Y1, Y2);    \
	VPADDD Y1, Y2, Y3;         \
	VBROADCASTI128 (R14), Y4;  \
	VPMADDWD Y4, Y9, Y4;       \
	VPADDD Y4, Y3, Y3;         \
	VCVTDQ2PS Y3, Y3;          \
	QUAD_SCALES(22, X4);       \
	SUBQ R10, SI;              \
	QUAD_SCALES(22, X5);       \
	VPUNPCKLQDQ X4, X5, X5;    \
	VCVTPH2PS X5, Y7;          \
	VBROADCASTF128 (R12), Y4;  \
	VMULPS Y4, Y7, Y7;         \
	VFMADD231PS Y3, Y7, Y0;    \
	ADDQ $88, SI;              \
	ADDQ $128, R11;            \
	ADDQ $16, R12;             \
	ADDQ $16, R14;             \
	SUBQ $4, R15;              \
	JNZ  both;                 \
	VPERMILPS $0x4e, Y0, Y1;   \
	VADDPS    Y1, Y0, Y0;      \
	VMOVSHDUP Y0, Y1;          \
	VADDPS    Y1, Y0, Y0;      \
	VMOVSS    X0, (DI);        \
	VEXTRACTF128 $1, Y0, X0;   \
	VMOVSS    X0, 4(DI);       \
	ADDQ R10, SI;              \
	ADDQ $8, DI;               \
	SUBQ $2, R8;               \
	JZ   done;                 \
	CMPQ R8, $2;               \
	JGE  pair;                 \
	MOVQ q_base+48(FP), DX

// func rowsQ8_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ8_0AVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q8_0_CONST
	ROWS32(Q8_0_DOT, VPADDD, WIDE, 34)

// func rowsQ4_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_0AVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q4_0_CONST
	Q4_0_OFF
	ROWS32(Q4_0_DOT, ADDP, WIDEN, 18)

// func rowsQ5_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_0AVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q5_0_CONST
	Q5_0_OFF
	Q5_0_PAIRS
	ROWS32(Q5_0_DOT, ADDP, WIDEN, 22)

// func rowsQ4_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_KAVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q4_K_CONST
	ROWSK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func rowsQ5_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_KAVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q5_K_CONST
	ROWSK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func rowsQ6_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ6_KAVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q6_K_CONST
	ROWS6
