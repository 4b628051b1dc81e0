//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// func rmsNormNEON(dst, x, g []float32, eps float32)
// V0-V3 sums of squares, two in each, in float64.
TEXT ·rmsNormNEON(SB), NOSPLIT, $0-76
	MOVD dst_base+0(FP), R0
	MOVD x_base+24(FP), R1
	MOVD x_len+32(FP), R8
	MOVD g_base+48(FP), R2
	ZERO(0)
	ZERO(1)
	ZERO(2)
	ZERO(3)
	MOVD R1, R3
	MOVD R8, R9
squares:
	VLD1.P 32(R3), [V4.S4, V5.S4]
	FCVTLD(4, 6)
	FCVTLD2(4, 7)
	FCVTLD(5, 16)
	FCVTLD2(5, 17)
	VFMLA V6.D2, V6.D2, V0.D2
	VFMLA V7.D2, V7.D2, V1.D2
	VFMLA V16.D2, V16.D2, V2.D2
	VFMLA V17.D2, V17.D2, V3.D2
	SUBS $8, R9
	BNE  squares
	FADD2(1, 0, 0)
	FADD2(3, 2, 2)
	FADD2(2, 0, 0)
	FADDP2(0, 0)
	SCVTFD R8, F1
	FDIVD  F1, F0, F0
	FMOVS  eps+72(FP), F1
	FCVTSD F1, F1
	FADDD  F1, F0, F0
	FSQRTD F0, F0
	FMOVD  $1.0, F1
	FDIVD  F0, F1, F0
	FCVTDS F0, F0
	VDUP   V0.S[0], V0.S4
scale:
	VLD1.P 32(R1), [V4.S4, V5.S4]
	VLD1.P 32(R2), [V6.S4, V7.S4]
	FMUL(0, 4, 4)
	FMUL(0, 5, 5)
	FMUL(6, 4, 4)
	FMUL(7, 5, 5)
	VST1.P [V4.S4, V5.S4], 32(R0)
	SUBS $8, R8
	BNE  scale
	RET
