//go:build !noasm

#include "textflag.h"

// func axpyF32AVX2(acc, p []float32, v []byte, stride int)
// Columns by 32, 8 and 1, over all rows each, with the sums in registers.
// DI acc, R8 columns left, SI v, R9 stride, DX p, R10 rows; inner AX v, CX p, R11 rows left.
TEXT ·axpyF32AVX2(SB), NOSPLIT, $0-80
	MOVQ acc_base+0(FP), DI
	MOVQ acc_len+8(FP), R8
	MOVQ p_base+24(FP), DX
	MOVQ p_len+32(FP), R10
	MOVQ v_base+48(FP), SI
	MOVQ stride+72(FP), R9
	SUBQ $32, R8
	JLT  eight
wide:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R10, R11
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
wrow:
	VBROADCASTSS (CX), Y8
	VMOVUPS (AX), Y4
	VMOVUPS (8*4)(AX), Y5
	VMOVUPS (16*4)(AX), Y6
	VMOVUPS (24*4)(AX), Y7
	VFMADD231PS Y4, Y8, Y0
	VFMADD231PS Y5, Y8, Y1
	VFMADD231PS Y6, Y8, Y2
	VFMADD231PS Y7, Y8, Y3
	ADDQ R9, AX
	ADDQ $4, CX
	DECQ R11
	JNZ  wrow
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $(32*4), SI
	ADDQ $128, DI
	SUBQ $32, R8
	JGE  wide
eight:
	ADDQ $24, R8
	JLT  rest
narrow:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R10, R11
	VMOVUPS (DI), Y0
nrow:
	VBROADCASTSS (CX), Y8
	VMOVUPS (AX), Y4
	VFMADD231PS Y4, Y8, Y0
	ADDQ R9, AX
	ADDQ $4, CX
	DECQ R11
	JNZ  nrow
	VMOVUPS Y0, (DI)
	ADDQ $(8*4), SI
	ADDQ $32, DI
	SUBQ $8, R8
	JGE  narrow
rest:
	ADDQ $8, R8
	JZ   done
one:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R10, R11
	VMOVSS (DI), X0
orow:
	VMOVSS (AX), X4
	VFMADD231SS (CX), X4, X0
	ADDQ R9, AX
	ADDQ $4, CX
	DECQ R11
	JNZ  orow
	VMOVSS X0, (DI)
	ADDQ $4, SI
	ADDQ $4, DI
	DECQ R8
	JNZ  one
done:
	VZEROUPPER
	RET
