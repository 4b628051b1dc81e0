//go:build !noasm

#include "textflag.h"

// VPDPBUSD adds four products of an unsigned and a signed byte to an int32.
#define DOTU(W, w, Q, P, p) \
	VPXOR    P, P, P;    \
	VPDPBUSD Q, W, P
#define ADDP VPADDD
#define WIDEN(P)
#define ROWS_ONES

// Q8_0 takes its weights as unsigned bytes, 128 more than they are.
#define Q8_0_CONST \
	SPLAT($0x80808080, X15, Y15); \
	SPLAT($0xff80ff80, X9, Y9)
#define Q8_0_DOT(w, q, P, p) \
	VPXOR (2+w)(SI), Y15, Y1; \
	DOTU(Y1, 1, q(R11), P, p)

// Q5_0 takes its high bits as a mask of where to add 16.
#define Q5_0_MASKED(w, q, P, p) \
	VMOVDQU     (6+w)(SI), X1;   \
	VPSRLW      $4, X1, X2;      \
	VINSERTI128 $1, X2, Y1, Y1;  \
	VPAND       Y15, Y1, Y1;     \
	KMOVD       (2+w)(SI), K1;   \
	VPADDB      Y12, Y1, K1, Y1; \
	DOTU(Y1, 1, q(R11), P, p)

#include "sum_amd64.h"
#include "dot_amd64.h"

// func rowsQ8_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ8_0VNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q8_0_CONST
	ROWS32(Q8_0_DOT, ADDP, WIDEN, 34)

// func rowsQ4_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_0VNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q4_0_CONST
	Q4_0_OFF
	ROWS32(Q4_0_DOT, ADDP, WIDEN, 18)

// func rowsQ5_0VNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_0VNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q5_0_CONST
	Q5_0_OFF
	ROWS32(Q5_0_MASKED, ADDP, WIDEN, 22)

// func rowsQ4_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_KVNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q4_K_CONST
	ROWSK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func rowsQ5_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_KVNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q5_K_CONST
	ROWSK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func rowsQ6_KVNNI(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ6_KVNNI(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS_ONES
	Q6_K_CONST
	ROWS6
