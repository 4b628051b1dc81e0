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

// func productSumAVX2(dst, a, b []float32, strideA, strideB, n int)
// Columns by 32, 8 and 1, over all rows each, with the sums in registers. DI dst, R8 columns left, SI a, R9 its stride,
// DX b, R10 its stride, R12 rows; inner AX a, CX b, R11 rows left.
TEXT ·productSumAVX2(SB), NOSPLIT, $0-96
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), R8
	MOVQ a_base+24(FP), SI
	MOVQ b_base+48(FP), DX
	MOVQ strideA+72(FP), R9
	MOVQ strideB+80(FP), R10
	MOVQ n+88(FP), R12
	SHLQ $2, R9
	SHLQ $2, R10
	SUBQ $32, R8
	JLT  eight
wide:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R12, R11
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
wrow:
	VMOVUPS (AX), Y4
	VMOVUPS (8*4)(AX), Y5
	VMOVUPS (16*4)(AX), Y6
	VMOVUPS (24*4)(AX), Y7
	VFMADD231PS (CX), Y4, Y0
	VFMADD231PS (8*4)(CX), Y5, Y1
	VFMADD231PS (16*4)(CX), Y6, Y2
	VFMADD231PS (24*4)(CX), Y7, Y3
	ADDQ R9, AX
	ADDQ R10, CX
	DECQ R11
	JNZ  wrow
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $32, R8
	JGE  wide
eight:
	ADDQ $24, R8
	JLT  rest
narrow:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R12, R11
	VXORPS Y0, Y0, Y0
nrow:
	VMOVUPS (AX), Y4
	VFMADD231PS (CX), Y4, Y0
	ADDQ R9, AX
	ADDQ R10, CX
	DECQ R11
	JNZ  nrow
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, R8
	JGE  narrow
rest:
	ADDQ $8, R8
	JZ   done
one:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R12, R11
	VXORPS X0, X0, X0
orow:
	VMOVSS (AX), X4
	VFMADD231SS (CX), X4, X0
	ADDQ R9, AX
	ADDQ R10, CX
	DECQ R11
	JNZ  orow
	VMOVSS X0, (DI)
	ADDQ $4, SI
	ADDQ $4, DX
	ADDQ $4, DI
	DECQ R8
	JNZ  one
done:
	VZEROUPPER
	RET

// func scaleAVX2(dst, x []float32, a float32)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-52
	MOVQ dst_base+0(FP), DI
	MOVQ x_base+24(FP), SI
	MOVQ x_len+32(FP), R8
	VBROADCASTSS a+48(FP), Y4
	SUBQ $32, R8
	JLT  eight
wide:
	VMULPS (SI), Y4, Y0
	VMULPS 32(SI), Y4, Y1
	VMULPS 64(SI), Y4, Y2
	VMULPS 96(SI), Y4, Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DI
	SUBQ $32, R8
	JGE  wide
eight:
	ADDQ $24, R8
	JLT  rest
narrow:
	VMULPS (SI), Y4, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, R8
	JGE  narrow
rest:
	ADDQ $8, R8
	JZ   done
one:
	VMULSS (SI), X4, X0
	VMOVSS X0, (DI)
	ADDQ $4, SI
	ADDQ $4, DI
	DECQ R8
	JNZ  one
done:
	VZEROUPPER
	RET
