//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// func aboveNEON(x []float32, bar float32) int
// R1 place in x, R8 elements left; V4 bar. A part with a hit is gone through again one at a time.
TEXT ·aboveNEON(SB), NOSPLIT, $0-40
	MOVD x_base+0(FP), R0
	MOVD R0, R1
	MOVD x_len+8(FP), R8
	MOVD $bar+24(FP), R9
	VLD1R (R9), [V4.S4]
	SUBS $16, R8
	BLT  ones
many:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	FCMGT(4, 0, 0)
	FCMGT(4, 1, 1)
	FCMGT(4, 2, 2)
	FCMGT(4, 3, 3)
	VORR V1.B16, V0.B16, V0.B16
	VORR V3.B16, V2.B16, V2.B16
	VORR V2.B16, V0.B16, V0.B16
	UMAXV(0, 0)
	VMOV V0.S[0], R2
	CBNZW R2, again
	SUBS $16, R8
	BGE  many
	B    ones
again:
	SUB  $64, R1
ones:
	ADDS $16, R8
	BEQ  done
one:
	FMOVS (R1), F0
	FCMPS F4, F0
	BGT  done
	ADD  $4, R1
	SUBS $1, R8
	BNE  one
done:
	SUB  R0, R1
	LSR  $2, R1
	MOVD R1, ret+32(FP)
	RET

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

// func ropeNEON(x, cos, sin []float32)
// R1 and R4 first and second half of a head, R8 end of x, R9 elements of a half, R5 how many are left. Without FMA: the bits are those of plain Go.
TEXT ·ropeNEON(SB), NOSPLIT, $0-72
	MOVD x_base+0(FP), R1
	MOVD x_len+8(FP), R8
	MOVD cos_len+32(FP), R9
	ADD  R8<<2, R1, R8
head:
	MOVD cos_base+24(FP), R2
	MOVD sin_base+48(FP), R3
	ADD  R9<<2, R1, R4
	MOVD R9, R5
four:
	VLD1 (R1), [V0.S4]
	VLD1 (R4), [V1.S4]
	VLD1.P 16(R2), [V2.S4]
	VLD1.P 16(R3), [V3.S4]
	FMUL(2, 0, 4)
	FMUL(3, 1, 5)
	FSUB(5, 4, 4)
	FMUL(2, 1, 1)
	FMUL(3, 0, 0)
	FADD(0, 1, 1)
	VST1.P [V4.S4], 16(R1)
	VST1.P [V1.S4], 16(R4)
	SUBS $4, R5
	BNE  four
	MOVD R4, R1
	CMP  R8, R1
	BLT  head
	RET
