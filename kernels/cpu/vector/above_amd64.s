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
