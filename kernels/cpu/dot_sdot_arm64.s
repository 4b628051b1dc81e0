//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

#define HALF(w, q, p) \
	ZERO(p); \
	SDOT(q, w, p)
#define WHOLE(w, q, p) \
	HALF(w, q, p); \
	SDOT(q+1, w+1, p)

#include "dot_arm64.h"

// func rowsQ8_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ8_0SDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS32(Q8_0_LOAD, NO_OFF, NO_OFF, 34)

// func rowsQ4_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_0SDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q4_0_CONST
	ROWS32(Q4_0_LOAD, Q4_0_OFF4, Q4_0_OFF1, 18)

// func rowsQ5_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_0SDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q5_0_CONST
	ROWS32(Q5_0_LOAD, NO_OFF, NO_OFF, 22)

// func rowsQ4_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_KSDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q4_K_CONST
	ROWSK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)

// func rowsQ5_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_KSDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q5_K_CONST
	ROWSK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// func rowsQ6_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ6_KSDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q6_K_CONST
	ROWS6
