//go:build !noasm

#include "textflag.h"

// func aboveAVX2(x []float32, bar float32) int
// SI place in x, R8 elements left, Y15 bar. A part with a hit is gone through again, eight and then one at a time.
TEXT ·aboveAVX2(SB), NOSPLIT, $0-40
	MOVQ x_base+0(FP), SI
	MOVQ x_len+8(FP), R8
	VBROADCASTSS bar+24(FP), Y15
	SUBQ $32, R8
	JLT  eights
many:
	VCMPPS $0x11, (SI), Y15, Y0 // bar < x, false for NaN
	VCMPPS $0x11, 32(SI), Y15, Y1
	VCMPPS $0x11, 64(SI), Y15, Y2
	VCMPPS $0x11, 96(SI), Y15, Y3
	VORPS  Y1, Y0, Y0
	VORPS  Y3, Y2, Y2
	VORPS  Y2, Y0, Y0
	VMOVMSKPS Y0, AX
	TESTL AX, AX
	JNZ  eights
	ADDQ $128, SI
	SUBQ $32, R8
	JGE  many
eights:
	ADDQ $24, R8
	JLT  ones
eight:
	VCMPPS $0x11, (SI), Y15, Y0
	VMOVMSKPS Y0, AX
	TESTL AX, AX
	JNZ  hit
	ADDQ $32, SI
	SUBQ $8, R8
	JGE  eight
ones:
	ADDQ $8, R8
	JZ   done
one:
	VCMPSS $0x11, (SI), X15, X0
	VMOVD X0, AX
	TESTL AX, AX
	JNZ  done
	ADDQ $4, SI
	DECQ R8
	JNZ  one
	JMP  done
hit:
	BSFL AX, AX
	LEAQ (SI)(AX*4), SI
done:
	SUBQ x_base+0(FP), SI
	SHRQ $2, SI
	MOVQ SI, ret+32(FP)
	VZEROUPPER
	RET

// func rmsNormAVX2(dst, x, g []float32, eps float32)
// Y0-Y3 sums of squares, four in each, in float64.
TEXT ·rmsNormAVX2(SB), NOSPLIT, $0-76
	MOVQ dst_base+0(FP), DI
	MOVQ x_base+24(FP), SI
	MOVQ x_len+32(FP), R8
	MOVQ g_base+48(FP), DX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	MOVQ SI, AX
	MOVQ R8, R9
squares:
	VCVTPS2PD (AX), Y4
	VCVTPS2PD 16(AX), Y5
	VCVTPS2PD 32(AX), Y6
	VCVTPS2PD 48(AX), Y7
	VFMADD231PD Y4, Y4, Y0
	VFMADD231PD Y5, Y5, Y1
	VFMADD231PD Y6, Y6, Y2
	VFMADD231PD Y7, Y7, Y3
	ADDQ $64, AX
	SUBQ $16, R9
	JNZ  squares
	VADDPD Y1, Y0, Y0
	VADDPD Y3, Y2, Y2
	VADDPD Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD X1, X0, X0
	VHADDPD X0, X0, X0
	VCVTSI2SDQ R8, X1, X1
	VDIVSD X1, X0, X0
	VCVTSS2SD eps+72(FP), X1, X1
	VADDSD X1, X0, X0
	VSQRTSD X0, X0, X0
	MOVQ $1, AX
	VCVTSI2SDQ AX, X1, X1
	VDIVSD X0, X1, X0
	VCVTSD2SS X0, X0, X0
	VBROADCASTSS X0, Y0
scale:
	VMULPS (SI), Y0, Y1
	VMULPS 32(SI), Y0, Y2
	VMULPS (DX), Y1, Y1
	VMULPS 32(DX), Y2, Y2
	VMOVUPS Y1, (DI)
	VMOVUPS Y2, 32(DI)
	ADDQ $64, SI
	ADDQ $64, DX
	ADDQ $64, DI
	SUBQ $16, R8
	JNZ  scale
	VZEROUPPER
	RET

// func ropeAVX2(x, cos, sin []float32)
// SI and DI first and second half of a head, R8 end of x, R9 bytes of a half, R10 place in it. Without FMA: the bits are those of plain Go.
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
