//go:build !noasm

#include "textflag.h"

// VPDPBUSD adds four products of an unsigned and a signed byte to an int32: Y2 = |W|, Y3 = Q with the sign of W.
#define DOTS(W, Q) \
	VPABSB   W, Y2;        \
	VMOVDQU  Q, Y5;        \
	VPSIGNB  W, Y5, Y5;    \
	VPXOR    Y3, Y3, Y3;   \
	VPDPBUSD Y5, Y2, Y3
#define DOTU(W, Q) \
	VPXOR    Y3, Y3, Y3;   \
	VPDPBUSD Q, W, Y3
#define DOTP(Q) \
	VMOVDQU  Q, Y8;        \
	VPSIGNB  Y4, Y8, Y8;   \
	VPXOR    Y7, Y7, Y7;   \
	VPDPBUSD Y8, Y5, Y7
#define ROWS_ONES
#define PANEL_ONES

#include "sum_amd64.h"
#include "dot_amd64.h"

// func rowsQ8_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ8_0VNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	ROWS32(Q8_0_LOAD, 34)

// func rowsQ4_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_0VNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q4_0_CONST
	ROWS32(Q4_0_LOAD, 18)

// func rowsQ5_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_0VNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q5_0_CONST
	ROWS32(Q5_0_LOAD, 22)

// func rowsQ4_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_KVNNI(SB), NOSPLIT, $32-144
	ROWS_ARGS
	ROWS_ONES
	Q4_K_CONST
	ROWSK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func rowsQ5_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_KVNNI(SB), NOSPLIT, $32-144
	ROWS_ARGS
	ROWS_ONES
	Q5_K_CONST
	ROWSK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func rowsQ6_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ6_KVNNI(SB), NOSPLIT, $64-144
	ROWS_ARGS
	ROWS_ONES
	Q6_K_CONST
	ROWS6

// func panelVNNI(dst *[4]float32, w []int8, ds, mins []float32, q []int8, d, s []float32)
TEXT ·panelVNNI(SB), NOSPLIT, $0-152
	PANEL_ONES
	PANEL_ARGS
	PANEL_SUMS
	PANEL_MINS
	PANEL_STORE
