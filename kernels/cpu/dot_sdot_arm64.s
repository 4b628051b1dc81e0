//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

#define HALF(w, q, p) \
	ZERO(p); \
	SDOT(q, w, p)
#define WHOLE(p) \
	HALF(2, 4, p); \
	SDOT(5, 3, p)

#include "dot_arm64.h"

// func rowsQ8_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ8_0SDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	ROWS32(Q8_0_LOAD)

// func rowsQ4_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_0SDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q4_0_CONST
	ROWS32(Q4_0_LOAD)

// func rowsQ5_0SDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_0SDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q5_0_CONST
	ROWS32(Q5_0_LOAD)

// func rowsQ4_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ4_KSDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	K_CONST
	ROWSK(Q4_K_BEGIN, Q4_K_BIT)

// func rowsQ5_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ5_KSDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	K_CONST
	ROWSK(Q5_K_BEGIN, Q5_K_BIT)

// func rowsQ6_KSDOT(dst []float32, w []byte, q []int8, d, s []float32, h []int16)
TEXT ·rowsQ6_KSDOT(SB), NOSPLIT, $0-144
	ROWS_ARGS
	Q6_K_CONST
	ROWS6
