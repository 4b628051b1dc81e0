//go:build !noasm

#include "textflag.h"

// epilogue(dst []float32, stride int, acc []float32, tokens int, add bool) for panels of 2^SHIFT bytes to a register; A
// to D for anything, Z for zeros: DI dst, R8 stride, SI acc, R9, R10 a lane and three lanes in bytes, BX the fifth lane
// if there are eight, R11 rows left.
#define EPILOGUE(SHIFT, A, B, C, D, Z) \
	MOVQ dst_base+0(FP), DI;    \
	MOVQ stride+24(FP), R8;     \
	MOVQ acc_base+32(FP), SI;   \
	MOVQ acc_len+40(FP), R12;   \
	MOVQ tokens+56(FP), R11;      \
	MOVBLZX add+64(FP), AX;     \
	SHLQ $2, R8;                \
	MOVQ R11, R9;               \
	SHLQ $SHIFT, R9;            \
	LEAQ (R9)(R9*2), R10;       \
	LEAQ (SI)(R9*4), BX;        \
	SHLQ $2, R12;               \
	LEAQ (R9*4), R13;           \
	VXORPS Z, Z, Z;             \
row: \
	VMOVUPS (SI), A;            \
	VMOVUPS (SI)(R9*1), B;      \
	VMOVUPS (SI)(R9*2), C;      \
	VMOVUPS (SI)(R10*1), D;     \
	VMOVUPS Z, (SI);            \
	VMOVUPS Z, (SI)(R9*1);      \
	VMOVUPS Z, (SI)(R9*2);      \
	VMOVUPS Z, (SI)(R10*1);     \
	CMPQ R12, R13;              \
	JEQ  four;                  \
	VADDPS (BX), A, A;          \
	VADDPS (BX)(R9*1), B, B;    \
	VADDPS (BX)(R9*2), C, C;    \
	VADDPS (BX)(R10*1), D, D;   \
	VMOVUPS Z, (BX);            \
	VMOVUPS Z, (BX)(R9*1);      \
	VMOVUPS Z, (BX)(R9*2);      \
	VMOVUPS Z, (BX)(R10*1);     \
	ADDQ $(1<<SHIFT), BX;       \
four: \
	VADDPS C, A, A;             \
	VADDPS D, B, B;             \
	VADDPS B, A, A;             \
	TESTL AX, AX;               \
	JZ   put;                   \
	VADDPS (DI), A, A;          \
put: \
	VMOVUPS A, (DI);            \
	ADDQ $(1<<SHIFT), SI;       \
	ADDQ R8, DI;                \
	DECQ R11;                   \
	JNZ  row;                   \
	VZEROUPPER;                 \
	RET

// func horizontalSumAVX2(out, acc []float32)
// DI out, R8 elements left, SI acc, R9, R10 a lane and three lanes in bytes, AX the fifth lane if there are eight.
TEXT ·horizontalSumAVX2(SB), NOSPLIT, $0-48
	MOVQ out_base+0(FP), DI
	MOVQ out_len+8(FP), R8
	MOVQ acc_base+24(FP), SI
	MOVQ acc_len+32(FP), R11
	LEAQ (R8*4), R9
	LEAQ (R9)(R9*2), R10
	LEAQ (SI)(R9*4), AX
	CMPQ R11, R9 // four lanes, or eight
	JEQ  four
eight:
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(R9*1), Y1
	VMOVUPS (SI)(R9*2), Y2
	VMOVUPS (SI)(R10*1), Y3
	VADDPS (AX), Y0, Y0
	VADDPS (AX)(R9*1), Y1, Y1
	VADDPS (AX)(R9*2), Y2, Y2
	VADDPS (AX)(R10*1), Y3, Y3
	VADDPS Y2, Y0, Y0
	VADDPS Y3, Y1, Y1
	VADDPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, AX
	ADDQ $32, DI
	SUBQ $8, R8
	JNZ  eight
	VZEROUPPER
	RET
four:
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(R9*1), Y1
	VADDPS (SI)(R9*2), Y0, Y0
	VADDPS (SI)(R10*1), Y1, Y1
	VADDPS Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, R8
	JNZ  four
	VZEROUPPER
	RET

// func epilogueAVX2(dst []float32, stride int, acc []float32, tokens int, add bool)
TEXT ·epilogueAVX2(SB), NOSPLIT, $0-65
	EPILOGUE(5, Y0, Y1, Y2, Y3, Y15)

// func epilogueAVX512(dst []float32, stride int, acc []float32, tokens int, add bool)
TEXT ·epilogueAVX512(SB), NOSPLIT, $0-65
	EPILOGUE(6, Z0, Z1, Z2, Z3, Z31)

// func interleaveVNNI(to, q []int8, from int)
// SI q, R8 bytes of it left; DI to of the group of four blocks, AX place of the block in it.
TEXT ·interleaveVNNI(SB), NOSPLIT, $0-56
	MOVQ to_base+0(FP), DI
	MOVQ q_base+24(FP), SI
	MOVQ q_len+32(FP), R8
	MOVQ from+48(FP), AX
	MOVQ AX, BX
	SHRQ $2, BX
	SHLQ $7, BX
	ADDQ BX, DI
	ANDQ $3, AX
	SHLQ $4, AX
block:
	VMOVDQU (SI), X0
	VMOVDQU 16(SI), X1
	VMOVDQU X0, (DI)(AX*1)
	VMOVDQU X1, 64(DI)(AX*1)
	ADDQ $32, SI
	ADDQ $16, AX
	TESTQ $63, AX
	JNZ  same
	ADDQ $128, DI
	XORL AX, AX
same:
	SUBQ $32, R8
	JNZ  block
	RET
