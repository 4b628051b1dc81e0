//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "words_arm64.h"

// func roundNEON(a *actsArgs)
// R0 q, R1 d, R2 blocks left, R3 s, R4 h, R5 x; V0-V7 the block; R7 the bits of infinity, R8 of 1e-36, F30 127.
TEXT ·roundNEON(SB), NOSPLIT, $0-8
	MOVD a+0(FP), R6
	MOVD actsArgs_q(R6), R0
	MOVD actsArgs_d(R6), R1
	MOVD actsArgs_n(R6), R2
	LSR  $5, R2
	MOVD actsArgs_s(R6), R3
	MOVD actsArgs_h(R6), R4
	MOVD actsArgs_x(R6), R5
	MOVD $0x7f800000, R7
	MOVD $0x03aa2425, R8
	MOVD $0x42fe0000, R9
	FMOVS R9, F30
block:
	VLD1.P 64(R5), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R5), [V4.S4, V5.S4, V6.S4, V7.S4]
	FABS(0, 16) // magnitudes order as integers do, infinity and NaN above all
	FABS(1, 17)
	FABS(2, 18)
	FABS(3, 19)
	FABS(4, 20)
	FABS(5, 21)
	FABS(6, 22)
	FABS(7, 23)
	VUMAX V17.S4, V16.S4, V16.S4
	VUMAX V19.S4, V18.S4, V18.S4
	VUMAX V21.S4, V20.S4, V20.S4
	VUMAX V23.S4, V22.S4, V22.S4
	VUMAX V18.S4, V16.S4, V16.S4
	VUMAX V22.S4, V20.S4, V20.S4
	VUMAX V20.S4, V16.S4, V16.S4
	UMAXV(16, 16)
	FMOVS F16, R6
	CMPW  R7, R6
	BHS   notfinite
	CMPW  R8, R6
	BLO   zero
	FDIVS F30, F16, F24 // d
	FDIVS F16, F30, F25
	FMULE(25, 0, 0)
	FMULE(25, 1, 1)
	FMULE(25, 2, 2)
	FMULE(25, 3, 3)
	FMULE(25, 4, 4)
	FMULE(25, 5, 5)
	FMULE(25, 6, 6)
	FMULE(25, 7, 7)
	FCVTNS(0, 0)
	FCVTNS(1, 1)
	FCVTNS(2, 2)
	FCVTNS(3, 3)
	FCVTNS(4, 4)
	FCVTNS(5, 5)
	FCVTNS(6, 6)
	FCVTNS(7, 7)
	VADD V1.S4, V0.S4, V16.S4 // h is the sums of both halves, s = d times that of both
	VADD V3.S4, V2.S4, V17.S4
	VADD V5.S4, V4.S4, V18.S4
	VADD V7.S4, V6.S4, V19.S4
	VADD V17.S4, V16.S4, V16.S4
	VADD V19.S4, V18.S4, V18.S4
	VADDP V18.S4, V16.S4, V16.S4
	VADDP V16.S4, V16.S4, V16.S4
	VUZP1 V16.H8, V16.H8, V17.H8
	FMOVS.P F17, 4(R4)
	VADDP V16.S4, V16.S4, V16.S4
	SCVTF(16, 16)
	FMULS F24, F16, F16
	FMOVS.P F16, 4(R3)
	FMOVS.P F24, 4(R1)
	VUZP1 V1.H8, V0.H8, V0.H8
	VUZP1 V3.H8, V2.H8, V2.H8
	VUZP1 V5.H8, V4.H8, V4.H8
	VUZP1 V7.H8, V6.H8, V6.H8
	VUZP1 V2.B16, V0.B16, V0.B16
	VUZP1 V6.B16, V4.B16, V1.B16
	VST1.P [V0.B16, V1.B16], 32(R0)
	SUBS $1, R2
	BNE  block
	RET
notfinite:
	MOVD $0x7fc00000, R9
	B    fill
zero:
	MOVD $0, R9
fill:
	MOVW.P R9, 4(R1)
	MOVW.P R9, 4(R3)
	MOVW.P ZR, 4(R4)
	ZERO(0)
	ZERO(1)
	VST1.P [V0.B16, V1.B16], 32(R0)
	SUBS $1, R2
	BNE  block
	RET
