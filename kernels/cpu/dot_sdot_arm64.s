//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

#define DOTS \
	VEOR V6.B16, V6.B16, V6.B16; \
	VEOR V7.B16, V7.B16, V7.B16; \
	SDOT(4, 2, 6); \
	SDOT(5, 3, 7); \
	SCVTF(6, 6); \
	SCVTF(7, 7)

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

// func panelSDOT(dst *[4]float32, w []int8, ds, mins []float32, q []int8, d, s []float32)
TEXT ·panelSDOT(SB), NOSPLIT, $0-152
	PANEL_ARGS
	PANEL_SUMS
	PANEL_MINS
	PANEL_STORE
