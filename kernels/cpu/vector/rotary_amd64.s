//go:build !noasm

#include "textflag.h"

// func ropeAVX2(x, cos, sin []float32)
// SI and DI first and second half of a head, R8 end of x, R9 bytes of a half, R10 place in it. Without FMA: the bits
// are those of plain Go.
TEXT ·ropeAVX2(SB), NOSPLIT, $0-72
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), R8
	MOVQ cos_base+24(FP), DX
	MOVQ cos_len+32(FP), R9
	MOVQ sin_base+48(FP), CX
	LEAQ (SI)(R8*4), R8
	SHLQ $2, R9
head:
	LEAQ (SI)(R9*1), DI
	XORL R10, R10
eight:
	VMOVUPS (SI)(R10*1), Y0
	VMOVUPS (DI)(R10*1), Y1
	VMOVUPS (DX)(R10*1), Y2
	VMOVUPS (CX)(R10*1), Y3
	VMULPS Y2, Y0, Y4
	VMULPS Y3, Y1, Y5
	VSUBPS Y5, Y4, Y4
	VMULPS Y2, Y1, Y1
	VMULPS Y3, Y0, Y0
	VADDPS Y0, Y1, Y1
	VMOVUPS Y4, (SI)(R10*1)
	VMOVUPS Y1, (DI)(R10*1)
	ADDQ $32, R10
	CMPQ R10, R9
	JLT  eight
	LEAQ (DI)(R9*1), SI
	CMPQ SI, R8
	JLT  head
	VZEROUPPER
	RET
