//go:build !noasm

#include "textflag.h"
#include "exp_amd64.h"

#define EXP_CONST \
	VBROADCASTSS expc<>+0(SB), Z16;  \
	VBROADCASTSS expc<>+4(SB), Z17;  \
	VBROADCASTSS expc<>+8(SB), Z18;  \
	VBROADCASTSS expc<>+12(SB), Z19; \
	VBROADCASTSS expc<>+16(SB), Z20; \
	VBROADCASTSS expc<>+20(SB), Z21; \
	VBROADCASTSS expc<>+24(SB), Z22; \
	VBROADCASTSS expc<>+28(SB), Z23; \
	VBROADCASTSS expc<>+32(SB), Z24; \
	VBROADCASTSS expc<>+40(SB), Z25; \
	VBROADCASTSS expc<>+44(SB), Z26

// EXP sets Z0 = exp(Z0), as exp.go explains; uses Z1, Z2. MAX and MIN return their first operand here if one is NaN: x.
#define EXP \
	VMAXPS       Z0, Z25, Z0;  \
	VMINPS       Z0, Z26, Z0;  \
	VMULPS       Z16, Z0, Z1;  \
	VRNDSCALEPS  $0, Z1, Z1;   \ // n, to nearest even
	VFNMADD231PS Z17, Z1, Z0;  \
	VFNMADD231PS Z18, Z1, Z0;  \ // r
	VMOVAPS      Z23, Z2;      \
	VFMADD213PS  Z22, Z0, Z2;  \
	VFMADD213PS  Z21, Z0, Z2;  \
	VFMADD213PS  Z20, Z0, Z2;  \
	VFMADD213PS  Z19, Z0, Z2;  \ // p(r)
	VMULPS       Z0, Z2, Z2;   \
	VFMADD213PS  Z0, Z0, Z2;   \ // r²·p(r) + r
	VADDPS       Z24, Z2, Z0;  \
	VSCALEFPS    Z1, Z0, Z0      // times 2ⁿ

// Z0 = Z4/(1+exp(-Z4)).
#define SILU \
	VPXORD Z0, Z0, Z0;  \
	VSUBPS Z4, Z0, Z0;  \
	EXP;                \
	VADDPS Z24, Z0, Z0; \
	VDIVPS Z0, Z4, Z0

// func swiGLUAVX512(dst, gate, up []float32)
TEXT ·swiGLUAVX512(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ gate_base+24(FP), SI
	MOVQ gate_len+32(FP), CX
	MOVQ up_base+48(FP), DX
	EXP_CONST
	SUBQ $16, CX
	JLT  rest
sixteen:
	VMOVUPS (SI), Z4
	SILU
	VMULPS (DX), Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, DX
	SUBQ $16, CX
	JGE  sixteen
rest:
	ADDQ $16, CX
	JZ   done
	MOVL $1, AX
	SHLL CX, AX
	DECL AX
	KMOVW AX, K1
	VMOVUPS.Z (SI), K1, Z4
	SILU
	VMULPS.Z (DX), Z0, K1, Z0
	VMOVUPS Z0, K1, (DI)
done:
	VZEROUPPER
	RET

// func softmaxAVX512(x []float32) (top, sum float32)
// Z4 top in all lanes, Z3 sixteen sums. MAX returns its first operand here, what was there before, if one is NaN: the
// sum shows it.
TEXT ·softmaxAVX512(SB), NOSPLIT, $0-32
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), R8
	MOVQ SI, DI
	MOVQ R8, R9
	VMOVUPS (DI), Z0
	VMOVAPS Z0, Z1
largest:
	VMAXPS (DI), Z0, Z0
	VMAXPS 64(DI), Z1, Z1
	ADDQ $128, DI
	SUBQ $32, R9
	JNZ  largest
	VMAXPS Z1, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VMAXPS Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0x4e, X0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0xb1, X0, X1
	VMAXSS X1, X0, X0
	VMOVSS X0, top+24(FP)
	VBROADCASTSS X0, Z4
	VPXORD Z3, Z3, Z3
	EXP_CONST
sixteen:
	VMOVUPS (SI), Z0
	VSUBPS  Z4, Z0, Z0
	EXP
	VMOVUPS Z0, (SI)
	VADDPS  Z0, Z3, Z3
	ADDQ $64, SI
	SUBQ $16, R8
	JNZ  sixteen
	VEXTRACTF64X4 $1, Z3, Y0
	VADDPS Y0, Y3, Y3
	VEXTRACTF128 $1, Y3, X0
	VADDPS X0, X3, X3
	VMOVHLPS X3, X3, X0
	VADDPS X0, X3, X3
	VMOVSHDUP X3, X0
	VADDSS X0, X3, X3
	VMOVSS X3, sum+28(FP)
	VZEROUPPER
	RET

// func sumExpAVX512(x []float32, top float32) (sum, sumX float64)
// Z4 top, Z5 and Z6 sums of e, Z7 and Z8 of e·x, eight in each, in float64. K1 are the lanes that count.
TEXT ·sumExpAVX512(SB), NOSPLIT, $0-48
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), R8
	VBROADCASTSS top+24(FP), Z4
	EXP_CONST
	VPXORD Z5, Z5, Z5
	VPXORD Z6, Z6, Z6
	VPXORD Z7, Z7, Z7
	VPXORD Z8, Z8, Z8
	MOVL $0xffff, AX
	KMOVW AX, K1
	SUBQ $16, R8
	JLT  rest
sixteen:
	VMOVUPS.Z (SI), K1, Z3
	VSUBPS  Z4, Z3, Z0
	EXP
	VMOVAPS.Z Z0, K1, Z0
	VCVTPS2PD Y0, Z1
	VEXTRACTF64X4 $1, Z0, Y0
	VCVTPS2PD Y0, Z2
	VADDPD  Z1, Z5, Z5
	VADDPD  Z2, Z6, Z6
	VCVTPS2PD Y3, Z9
	VEXTRACTF64X4 $1, Z3, Y3
	VCVTPS2PD Y3, Z10
	VFMADD231PD Z9, Z1, Z7
	VFMADD231PD Z10, Z2, Z8
	ADDQ $64, SI
	SUBQ $16, R8
	JGE  sixteen
rest:
	ADDQ $16, R8
	JLE  done
	MOVQ R8, CX
	MOVL $1, AX
	SHLL CX, AX
	DECL AX
	KMOVW AX, K1
	XORL R8, R8 // this is the last time
	JMP  sixteen
done:
	VADDPD Z6, Z5, Z5
	VADDPD Z8, Z7, Z7
	VEXTRACTF64X4 $1, Z5, Y0
	VADDPD  Y0, Y5, Y5
	VEXTRACTF128 $1, Y5, X0
	VADDPD  X0, X5, X5
	VHADDPD X5, X5, X5
	VEXTRACTF64X4 $1, Z7, Y0
	VADDPD  Y0, Y7, Y7
	VEXTRACTF128 $1, Y7, X0
	VADDPD  X0, X7, X7
	VHADDPD X7, X7, X7
	VMOVSD  X5, sum+32(FP)
	VMOVSD  X7, sumX+40(FP)
	VZEROUPPER
	RET
