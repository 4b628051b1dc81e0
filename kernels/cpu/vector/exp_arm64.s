//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// The constants of exp.go as bits.
DATA expc<>+0(SB)/4, $0x3fb8aa3b  // log2 e
DATA expc<>+4(SB)/4, $0x3f317200  // ln 2, high part
DATA expc<>+8(SB)/4, $0x35bfbe8e  // ln 2, low part
DATA expc<>+12(SB)/4, $0x3efffffe // p0
DATA expc<>+16(SB)/4, $0x3e2aaa49 // p1
DATA expc<>+20(SB)/4, $0x3d2aac79 // p2
DATA expc<>+24(SB)/4, $0x3c091cf9 // p3
DATA expc<>+28(SB)/4, $0x3ab5120d // p4
DATA expc<>+32(SB)/4, $0x3f800000 // 1
DATA expc<>+36(SB)/4, $127
DATA expc<>+40(SB)/4, $0xc2d20000 // -105
DATA expc<>+44(SB)/4, $0x42b20000 // 89
GLOBL expc<>(SB), RODATA|NOPTR, $48

// EXP_CONST loads what EXP needs: V16 log2 e, V17, V18 ln 2, V19-V23 p0-p4, V24 1, V25 127, V26, V27 the limits. Uses
// R9.
#define EXP_CONST \
	MOVD $expc<>(SB), R9; \
	VLD1R.P 4(R9), [V16.S4]; \
	VLD1R.P 4(R9), [V17.S4]; \
	VLD1R.P 4(R9), [V18.S4]; \
	VLD1R.P 4(R9), [V19.S4]; \
	VLD1R.P 4(R9), [V20.S4]; \
	VLD1R.P 4(R9), [V21.S4]; \
	VLD1R.P 4(R9), [V22.S4]; \
	VLD1R.P 4(R9), [V23.S4]; \
	VLD1R.P 4(R9), [V24.S4]; \
	VLD1R.P 4(R9), [V25.S4]; \
	VLD1R.P 4(R9), [V26.S4]; \
	VLD1R.P 4(R9), [V27.S4]

// EXP sets V0 = exp(V0), as exp.go explains; uses V1, V2, V3. About 22 operations for four numbers.
#define EXP \
	FMAX(26, 0, 0); \
	FMIN(27, 0, 0); \
	FMUL(16, 0, 1); \
	FRINTN(1, 1); \ // n
	VFMLS V17.S4, V1.S4, V0.S4; \
	VFMLS V18.S4, V1.S4, V0.S4; \ // r
	VMOV V22.B16, V2.B16; \
	FMLA(0, 23, 2); \
	VMOV V21.B16, V3.B16; \
	FMLA(0, 2, 3); \
	VMOV V20.B16, V2.B16; \
	FMLA(0, 3, 2); \
	VMOV V19.B16, V3.B16; \
	FMLA(0, 2, 3); \ // p(r)
	FMUL(0, 3, 3); \
	VMOV V0.B16, V2.B16; \
	FMLA(0, 3, 2); \ // r²·p(r) + r
	FADD(24, 2, 0); \
	FCVTNS(1, 1); \
	SSHR(1, 1, 2); \ // 2ⁿ in two factors
	VSUB V2.S4, V1.S4, V1.S4; \
	VADD V25.S4, V1.S4, V1.S4; \
	VADD V25.S4, V2.S4, V2.S4; \
	VSHL $23, V1.S4, V1.S4; \
	VSHL $23, V2.S4, V2.S4; \
	FMUL(2, 0, 0); \
	FMUL(1, 0, 0)

// func expNEON(dst, x []float32, bias float32)
// R0 dst, R1 x, R8 elements left; V4 bias.
TEXT ·expNEON(SB), NOSPLIT, $0-52
	MOVD dst_base+0(FP), R0
	MOVD x_base+24(FP), R1
	MOVD x_len+32(FP), R8
	MOVD $bias+48(FP), R9
	VLD1R (R9), [V4.S4]
	EXP_CONST
	SUBS $4, R8
	BLT  rest
four:
	VLD1.P 16(R1), [V0.S4]
	FSUB(4, 0, 0)
	EXP
	VST1.P [V0.S4], 16(R0)
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	FMOVS.P 4(R1), F0
	FSUB(4, 0, 0)
	EXP
	FMOVS.P F0, 4(R0)
	SUBS $1, R8
	BNE  one
done:
	RET

// V0 = 1+exp(-V4).
#define ONE_PLUS_EXP \
	FNEG(4, 0); \
	EXP; \
	FADD(24, 0, 0)

// V0 = V4/(1+exp(-V4))·V5.
#define SWIGLU \
	ONE_PLUS_EXP; \
	FDIV(0, 4, 0); \
	FMUL(5, 0, 0)

// func swiGLUNEON(dst, gate, up []float32)
// R0 dst, R1 gate, R2 up, R8 elements left.
TEXT ·swiGLUNEON(SB), NOSPLIT, $0-72
	MOVD dst_base+0(FP), R0
	MOVD gate_base+24(FP), R1
	MOVD gate_len+32(FP), R8
	MOVD up_base+48(FP), R2
	EXP_CONST
	SUBS $4, R8
	BLT  rest
four:
	VLD1.P 16(R1), [V4.S4]
	VLD1.P 16(R2), [V5.S4]
	SWIGLU
	VST1.P [V0.S4], 16(R0)
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	FMOVS.P 4(R1), F4
	FMOVS.P 4(R2), F5
	SWIGLU
	FMOVS.P F0, 4(R0)
	SUBS $1, R8
	BNE  one
done:
	RET

// func gateNEON(dst, x, gate []float32)
// R0 dst, R1 gate, R2 x, R8 elements left.
TEXT ·gateNEON(SB), NOSPLIT, $0-72
	MOVD dst_base+0(FP), R0
	MOVD x_base+24(FP), R2
	MOVD gate_base+48(FP), R1
	MOVD gate_len+56(FP), R8
	EXP_CONST
	SUBS $4, R8
	BLT  rest
four:
	VLD1.P 16(R1), [V4.S4]
	VLD1.P 16(R2), [V5.S4]
	ONE_PLUS_EXP
	FDIV(0, 5, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	FMOVS.P 4(R1), F4
	FMOVS.P 4(R2), F5
	ONE_PLUS_EXP
	FDIV(0, 5, 0)
	FMOVS.P F0, 4(R0)
	SUBS $1, R8
	BNE  one
done:
	RET

// func sumExpNEON(x []float32, top float32) (sum, sumX float64)
// R1 x, R8 elements left; V4 top, V28, V29 sums of e, V30, V31 of e·x, two in each.
TEXT ·sumExpNEON(SB), NOSPLIT, $0-48
	MOVD x_base+0(FP), R1
	MOVD x_len+8(FP), R8
	MOVD $top+24(FP), R9
	VLD1R (R9), [V4.S4]
	EXP_CONST
	ZERO(28)
	ZERO(29)
	ZERO(30)
	ZERO(31)
	SUBS $4, R8
	BLT  rest
four:
	VLD1.P 16(R1), [V5.S4]
	FSUB(4, 5, 0)
	EXP
	FCVTLD(0, 1)
	FCVTLD2(0, 2)
	FCVTLD(5, 6)
	FCVTLD2(5, 7)
	FADD2(1, 28, 28)
	FADD2(2, 29, 29)
	VFMLA V1.D2, V6.D2, V30.D2
	VFMLA V2.D2, V7.D2, V31.D2
	SUBS $4, R8
	BGE  four
rest:
	FADD2(29, 28, 28)
	FADD2(31, 30, 30)
	FADDP2(28, 28)
	FADDP2(30, 30)
	ADDS $4, R8
	BEQ  done
one:
	FMOVS.P 4(R1), F5
	FSUB(4, 5, 0)
	EXP
	FCVTSD F0, F1
	FCVTSD F5, F6
	FADDD  F1, F28, F28
	FMADDD F1, F30, F6, F30
	SUBS $1, R8
	BNE  one
done:
	FMOVD F28, sum+32(FP)
	FMOVD F30, sumX+40(FP)
	RET
