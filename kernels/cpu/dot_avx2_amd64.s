//go:build !noasm

#include "textflag.h"

// Y2 = |W|, Y3 = Q with the sign of W; products of bytes, summed by twos, then by fours.
#define DOTS(W, Q) \
	VPABSB     W, Y2;        \
	VMOVDQU    Q, Y3;        \
	VPSIGNB    W, Y3, Y3;    \
	VPMADDUBSW Y3, Y2, Y3;   \
	VPMADDWD   Y10, Y3, Y3
#define DOTU(W, Q) \
	VPMADDUBSW Q, W, Y3;     \
	VPMADDWD   Y10, Y3, Y3
#define DOTP(Q) \
	VMOVDQU    Q, Y7;        \
	VPSIGNB    Y4, Y7, Y7;   \
	VPMADDUBSW Y7, Y5, Y7;   \
	VPMADDWD   Y14, Y7, Y7
#define ROWS_ONES SPLAT($0x00010001, X10, Y10)
#define PANEL_ONES SPLAT($0x00010001, X14, Y14)

#include "sum_amd64.h"
#include "dot_amd64.h"

// func rowsQ8_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ8_0AVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	ROWS32(Q8_0_LOAD, 34)

// func rowsQ4_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_0AVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q4_0_CONST
	ROWS32(Q4_0_LOAD, 18)

// func rowsQ5_0AVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_0AVX2(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q5_0_CONST
	ROWS32(Q5_0_LOAD, 22)

// func rowsQ4_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_KAVX2(SB), NOSPLIT, $32-144
	ROWS_ARGS
	ROWS_ONES
	Q4_K_CONST
	ROWSK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func rowsQ5_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_KAVX2(SB), NOSPLIT, $32-144
	ROWS_ARGS
	ROWS_ONES
	Q5_K_CONST
	ROWSK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func rowsQ6_KAVX2(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ6_KAVX2(SB), NOSPLIT, $64-144
	ROWS_ARGS
	ROWS_ONES
	Q6_K_CONST
	ROWS6

// func panelAVX2(dst *[4]float32, w []int8, ds, mins []float32, q []int8, d, s []float32)
TEXT ·panelAVX2(SB), NOSPLIT, $0-152
	PANEL_ONES
	PANEL_ARGS
	PANEL_SUMS
	PANEL_MINS
	PANEL_STORE

// func unpackQ8_0AVX2(w []int8, ds, mins []float32, src []byte)
TEXT ·unpackQ8_0AVX2(SB), NOSPLIT, $0-96
	UNPACK_ARGS
	UNPACK32(Q8_0_LOAD, 34)

// func unpackQ4_0AVX2(w []int8, ds, mins []float32, src []byte)
TEXT ·unpackQ4_0AVX2(SB), NOSPLIT, $0-96
	UNPACK_ARGS
	Q4_0_CONST
	UNPACK32(Q4_0_LOAD, 18)

// func unpackQ5_0AVX2(w []int8, ds, mins []float32, src []byte)
TEXT ·unpackQ5_0AVX2(SB), NOSPLIT, $0-96
	UNPACK_ARGS
	Q5_0_CONST
	UNPACK32(Q5_0_LOAD, 22)

// func unpackQ4_KAVX2(w []int8, ds, mins []float32, src []byte)
TEXT ·unpackQ4_KAVX2(SB), NOSPLIT, $0-96
	UNPACK_ARGS
	Q4_K_CONST
	UNPACKK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func unpackQ5_KAVX2(w []int8, ds, mins []float32, src []byte)
TEXT ·unpackQ5_KAVX2(SB), NOSPLIT, $0-96
	UNPACK_ARGS
	Q5_K_CONST
	UNPACKK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func unpackQ6_KAVX2(w []int8, ds, mins []float32, src []byte)
TEXT ·unpackQ6_KAVX2(SB), NOSPLIT, $0-96
	UNPACK_ARGS
	Q6_K_CONST
	UNPACK6
