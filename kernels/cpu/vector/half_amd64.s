//go:build !noasm

#include "textflag.h"

// func toF16AVX2(dst []uint16, src []float32)
TEXT ·toF16AVX2(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), R8
	MOVQ src_base+24(FP), SI
	SUBQ $8, R8
	JLT  rest
eight:
	VMOVUPS (SI), Y0
	VCVTPS2PH $0, Y0, (DI) // to nearest even
	ADDQ $32, SI
	ADDQ $16, DI
	SUBQ $8, R8
	JGE  eight
rest:
	ADDQ $8, R8
	JZ   done
one:
	VMOVSS (SI), X0
	VCVTPS2PH $0, X0, X0
	VMOVD X0, BX
	MOVW BX, (DI)
	ADDQ $4, SI
	ADDQ $2, DI
	DECQ R8
	JNZ  one
done:
	VZEROUPPER
	RET

// func fromF16AVX2(dst []float32, src []uint16)
TEXT ·fromF16AVX2(SB), NOSPLIT, $0-48
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), R8
	SUBQ $8, R8
	JLT  rest
eight:
	VCVTPH2PS (SI), Y0
	VMOVUPS Y0, (DI)
	ADDQ $16, SI
	ADDQ $32, DI
	SUBQ $8, R8
	JGE  eight
rest:
	ADDQ $8, R8
	JZ   done
one:
	MOVWLZX (SI), BX
	VMOVD BX, X0
	VCVTPH2PS X0, X0
	VMOVSS X0, (DI)
	ADDQ $2, SI
	ADDQ $4, DI
	DECQ R8
	JNZ  one
done:
	VZEROUPPER
	RET
