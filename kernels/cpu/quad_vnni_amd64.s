//go:build !noasm

#include "textflag.h"
#include "quad_amd64.h"

// Columns 0 to 15 and 16 to 31 of block b of four rows, as unsigned bytes.
#define Q4_0_QUAD(b, L, H) \
	FETCH(b);          \
	LOAD4(18*b+2, L);  \
	VPSRLW $4, L, H;   \
	VPANDD Z31, L, L;  \
	VPANDD Z31, H, H

#define Q4_0_ACT(A) ACT(OFFSET, SUM_Q4_0, A)

// func quadQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
// Z29 where the scales of four blocks are, in words.
TEXT ·quadQ4_0VNNI(SB), NOSPLIT, $8-168
	QUAD_ARGS(18, 5, 0xfff8fff8, 8192)
	MOVQ $0x001b001200090000, AX
	VPBROADCASTQ AX, Z29
	WORDS(0x0f0f0f0f, Z31)
quad:
	BEGIN4
four:
	Q4_0_QUAD(0, Z0, Z1)
	Q4_0_QUAD(1, Z2, Z3)
	Q4_0_QUAD(2, Z4, Z5)
	Q4_0_QUAD(3, Z6, Z7)
	FETCH(4)
	SCALES4(0, Z29, Z24)
	VCVTPH2PS Y24, Z24
	ACTS(Q4_0_ACT, Z16, Z17, Z18, Z19, all)
	MOVE4(4*18, four)
	END4(quad, put)
