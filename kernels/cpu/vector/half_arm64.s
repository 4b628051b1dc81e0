//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// func toF16NEON(dst []uint16, src []float32)
TEXT ·toF16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R8
	MOVD src_base+24(FP), R6
	SUBS $4, R8
	BLT  rest
four:
	VLD1.P 16(R6), [V0.S4]
	FCVTN(0, 0)
	FMOVD.P F0, 8(R0)
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	FMOVS.P 4(R6), F0
	FCVTN(0, 0)
	FMOVS F0, R9
	MOVH.P R9, 2(R0)
	SUBS $1, R8
	BNE  one
done:
	RET

// func fromF16NEON(dst []float32, src []uint16)
TEXT ·fromF16NEON(SB), NOSPLIT, $0-48
	MOVD dst_base+0(FP), R0
	MOVD src_base+24(FP), R6
	MOVD src_len+32(FP), R8
	SUBS $8, R8
	BLT  rest
eight:
	VLD1.P 16(R6), [V0.H8]
	FCVTL(0, 1)
	FCVTL2(0, 2)
	VST1.P [V1.S4, V2.S4], 32(R0)
	SUBS $8, R8
	BGE  eight
rest:
	ADDS $8, R8
	BEQ  done
one:
	MOVHU.P 2(R6), R9
	FMOVS R9, F0
	FCVTL(0, 0)
	FMOVS.P F0, 4(R0)
	SUBS $1, R8
	BNE  one
done:
	RET
