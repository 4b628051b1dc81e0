//go:build !noasm

#include "textflag.h"
#include "exp_amd64.h"

// Eight dwords of ones, eight of zeros: 4·(8-n) bytes in begins a mask of the first n lanes.
DATA lanemask<>+0(SB)/8, $0xffffffffffffffff
DATA lanemask<>+8(SB)/8, $0xffffffffffffffff
DATA lanemask<>+16(SB)/8, $0xffffffffffffffff
DATA lanemask<>+24(SB)/8, $0xffffffffffffffff
DATA lanemask<>+32(SB)/8, $0
DATA lanemask<>+40(SB)/8, $0
DATA lanemask<>+48(SB)/8, $0
DATA lanemask<>+56(SB)/8, $0
GLOBL lanemask<>(SB), RODATA|NOPTR, $64

// EXP_CONST loads what EXP needs: Y6 log2 e, Y7, Y8 ln 2, Y9-Y13 p0-p4, Y14 1, Y15 127.
#define EXP_CONST \
	VBROADCASTSS expc<>+0(SB), Y6;   \
	VBROADCASTSS expc<>+4(SB), Y7;   \
	VBROADCASTSS expc<>+8(SB), Y8;   \
	VBROADCASTSS expc<>+12(SB), Y9;  \
	VBROADCASTSS expc<>+16(SB), Y10; \
	VBROADCASTSS expc<>+20(SB), Y11; \
	VBROADCASTSS expc<>+24(SB), Y12; \
	VBROADCASTSS expc<>+28(SB), Y13; \
	VBROADCASTSS expc<>+32(SB), Y14; \
	VBROADCASTSS expc<>+36(SB), Y15

// EXP sets Y0 = exp(Y0), as exp.go explains; uses Y1, Y2. MAX and MIN return their first operand here if one is NaN: x.
#define EXP \
	VBROADCASTSS expc<>+40(SB), Y1; \
	VBROADCASTSS expc<>+44(SB), Y2; \
	VMAXPS       Y0, Y1, Y0;        \
	VMINPS       Y0, Y2, Y0;        \
	VMULPS       Y6, Y0, Y1;        \
	VROUNDPS     $0, Y1, Y1;        \ // n, to nearest even
	VFNMADD231PS Y7, Y1, Y0;        \
	VFNMADD231PS Y8, Y1, Y0;        \ // r
	VMOVAPS      Y13, Y2;           \
	VFMADD213PS  Y12, Y0, Y2;       \
	VFMADD213PS  Y11, Y0, Y2;       \
	VFMADD213PS  Y10, Y0, Y2;       \
	VFMADD213PS  Y9, Y0, Y2;        \ // p(r)
	VMULPS       Y0, Y2, Y2;        \
	VFMADD213PS  Y0, Y0, Y2;        \ // r²·p(r) + r
	VADDPS       Y14, Y2, Y0;       \
	VCVTPS2DQ    Y1, Y1;            \
	VPSRAD       $1, Y1, Y2;        \ // 2ⁿ in two factors
	VPSUBD       Y2, Y1, Y1;        \
	VPADDD       Y15, Y1, Y1;       \
	VPADDD       Y15, Y2, Y2;       \
	VPSLLD       $23, Y1, Y1;       \
	VPSLLD       $23, Y2, Y2;       \
	VMULPS       Y2, Y0, Y0;        \
	VMULPS       Y1, Y0, Y0

// Y5 = the mask of the last R8+8 lanes, for -8 < R8 < 0; uses AX, BX.
#define TAILMASK \
	LEAQ    lanemask<>(SB), AX; \
	MOVQ    R8, BX;             \
	NEGQ    BX;                 \
	VMOVDQU (AX)(BX*4), Y5

// func expAVX2(dst, x []float32, bias float32)
TEXT ·expAVX2(SB), NOSPLIT, $0-52
	MOVQ dst_base+0(FP), DI
	MOVQ x_base+24(FP), SI
	MOVQ x_len+32(FP), R8
	VBROADCASTSS bias+48(FP), Y4
	EXP_CONST
	SUBQ $8, R8
	JLT  rest
eight:
	VMOVUPS (SI), Y0
	VSUBPS  Y4, Y0, Y0
	EXP
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, R8
	JGE  eight
rest:
	CMPQ R8, $-8
	JEQ  done
	TAILMASK
	VMASKMOVPS (SI), Y5, Y0
	VSUBPS  Y4, Y0, Y0
	EXP
	VMASKMOVPS Y0, Y5, (DI)
done:
	VZEROUPPER
	RET

// Y0 = 1+exp(-Y4).
#define ONE_PLUS_EXP \
	VXORPS Y0, Y0, Y0;  \
	VSUBPS Y4, Y0, Y0;  \
	EXP;                \
	VADDPS Y14, Y0, Y0

// Y0 = Y4/(1+exp(-Y4)).
#define SILU \
	ONE_PLUS_EXP; \
	VDIVPS Y0, Y4, Y0

// func swiGLUAVX2(dst, gate, up []float32)
TEXT ·swiGLUAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ gate_base+24(FP), SI
	MOVQ gate_len+32(FP), R8
	MOVQ up_base+48(FP), DX
	EXP_CONST
	SUBQ $8, R8
	JLT  rest
eight:
	VMOVUPS (SI), Y4
	SILU
	VMULPS (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $8, R8
	JGE  eight
rest:
	CMPQ R8, $-8
	JEQ  done
	TAILMASK
	VMASKMOVPS (SI), Y5, Y4
	SILU
	VMASKMOVPS (DX), Y5, Y1
	VMULPS Y1, Y0, Y0
	VMASKMOVPS Y0, Y5, (DI)
done:
	VZEROUPPER
	RET

// func gateAVX2(dst, x, gate []float32)
TEXT ·gateAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ x_base+24(FP), DX
	MOVQ gate_base+48(FP), SI
	MOVQ gate_len+56(FP), R8
	EXP_CONST
	SUBQ $8, R8
	JLT  rest
eight:
	VMOVUPS (SI), Y4
	ONE_PLUS_EXP
	VMOVUPS (DX), Y1
	VDIVPS Y0, Y1, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $8, R8
	JGE  eight
rest:
	CMPQ R8, $-8
	JEQ  done
	TAILMASK
	VMASKMOVPS (SI), Y5, Y4
	ONE_PLUS_EXP
	VMASKMOVPS (DX), Y5, Y1
	VDIVPS Y0, Y1, Y0
	VMASKMOVPS Y0, Y5, (DI)
done:
	VZEROUPPER
	RET

// func sumExpAVX2(x []float32, top float32) (sum, sumX float64)
// Y3 four sums of e, Y4 of e·x, both in float64; Y5 the lanes that count. A last part below eight is moved to the
// stack.
TEXT ·sumExpAVX2(SB), NOSPLIT, $32-48
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), R8
	EXP_CONST
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VPCMPEQB Y5, Y5, Y5
	SUBQ $8, R8
	JLT  rest
eight:
	VMOVUPS (SI), Y0
	VBROADCASTSS top+24(FP), Y1
	VSUBPS  Y1, Y0, Y0
	EXP
	VANDPS  Y5, Y0, Y0
	VCVTPS2PD X0, Y1
	VEXTRACTF128 $1, Y0, X0
	VCVTPS2PD X0, Y0
	VADDPD  Y1, Y3, Y3
	VADDPD  Y0, Y3, Y3
	VCVTPS2PD (SI), Y2
	VFMADD231PD Y2, Y1, Y4
	VCVTPS2PD 16(SI), Y2
	VFMADD231PD Y2, Y0, Y4
	ADDQ $32, SI
	SUBQ $8, R8
	JGE  eight
rest:
	CMPQ R8, $-8
	JEQ  done
	TAILMASK
	VMASKMOVPS (SI), Y5, Y0
	VMOVUPS Y0, 0(SP)
	MOVQ SP, SI
	XORL R8, R8
	JMP  eight
done:
	VEXTRACTF128 $1, Y3, X0
	VADDPD  X0, X3, X3
	VHADDPD X3, X3, X3
	VEXTRACTF128 $1, Y4, X0
	VADDPD  X0, X4, X4
	VHADDPD X4, X4, X4
	VMOVSD  X3, sum+32(FP)
	VMOVSD  X4, sumX+40(FP)
	VZEROUPPER
	RET

// func softmaxAVX2(x []float32) (top, sum float32)
// Y4 top in all lanes, Y3 eight sums. MAX returns its first operand here, what was there before, if one is NaN: the sum
// shows it.
TEXT ·softmaxAVX2(SB), NOSPLIT, $0-32
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), R8
	MOVQ SI, DI
	MOVQ R8, R9
	VMOVUPS (DI), Y0
	VMOVAPS Y0, Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y0, Y3
largest:
	VMAXPS (DI), Y0, Y0
	VMAXPS 32(DI), Y1, Y1
	VMAXPS 64(DI), Y2, Y2
	VMAXPS 96(DI), Y3, Y3
	ADDQ $128, DI
	SUBQ $32, R9
	JNZ  largest
	VMAXPS Y1, Y0, Y0
	VMAXPS Y3, Y2, Y2
	VMAXPS Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0x4e, X0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0xb1, X0, X1
	VMAXSS X1, X0, X0
	VMOVSS X0, top+24(FP)
	VBROADCASTSS X0, Y4
	VXORPS Y3, Y3, Y3
	EXP_CONST
eight:
	VMOVUPS (SI), Y0
	VSUBPS  Y4, Y0, Y0
	EXP
	VMOVUPS Y0, (SI)
	VADDPS  Y0, Y3, Y3
	ADDQ $32, SI
	SUBQ $8, R8
	JNZ  eight
	VEXTRACTF128 $1, Y3, X0
	VADDPS X0, X3, X3
	VMOVHLPS X3, X3, X0
	VADDPS X0, X3, X3
	VMOVSHDUP X3, X0
	VADDSS X0, X3, X3
	VMOVSS X3, sum+28(FP)
	VZEROUPPER
	RET
