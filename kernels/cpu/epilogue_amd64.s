//go:build !noasm

#include "textflag.h"
#include "go_asm.h"

// epilogue for panels of 2^SHIFT bytes to a register; A to D for anything, Z for zeros: DI dst, R8 stride, SI acc, R9,
// R10 a lane and three lanes in bytes, R12 lanes, BX the fifth of them if there are eight, R11 rows left.
#define EPILOGUE(SHIFT, A, B, C, D, Z) \
	MOVQ a+0(FP), AX;           \
	MOVQ sumArgs_dst(AX), DI;   \
	MOVQ sumArgs_stride(AX), R8; \
	MOVQ sumArgs_acc(AX), SI;   \
	MOVQ sumArgs_accumulators(AX), R12; \
	MOVQ sumArgs_tokens(AX), R11; \
	MOVBLZX sumArgs_add(AX), AX; \
	SHLQ $2, R8;                \
	MOVQ R11, R9;               \
	SHLQ $SHIFT, R9;            \
	LEAQ (R9)(R9*2), R10;       \
	LEAQ (SI)(R9*4), BX;        \
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
	CMPQ R12, $4;               \
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

// func horizontalSumAVX2(a *sumArgs)
// DI dst, R8 elements left, SI acc, R9, R10 a lane and three lanes in bytes, AX the fifth lane if there are eight.
TEXT ·horizontalSumAVX2(SB), NOSPLIT, $0-8
	MOVQ a+0(FP), AX
	MOVQ sumArgs_dst(AX), DI
	MOVQ sumArgs_n(AX), R8
	MOVQ sumArgs_acc(AX), SI
	MOVQ sumArgs_accumulators(AX), R11
	LEAQ (R8*4), R9
	LEAQ (R9)(R9*2), R10
	LEAQ (SI)(R9*4), AX
	CMPQ R11, $4
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

// func epilogueAVX2(a *sumArgs)
TEXT ·epilogueAVX2(SB), NOSPLIT, $0-8
	EPILOGUE(5, Y0, Y1, Y2, Y3, Y15)

// func epilogueAVX512(a *sumArgs)
TEXT ·epilogueAVX512(SB), NOSPLIT, $0-8
	EPILOGUE(6, Z0, Z1, Z2, Z3, Z31)

// func interleaveVNNI(a *actsArgs)
// SI q, R8 bytes of it left; DI p of the group of four blocks, AX place of the block in it.
TEXT ·interleaveVNNI(SB), NOSPLIT, $0-8
	MOVQ a+0(FP), AX
	MOVQ actsArgs_p(AX), DI
	MOVQ actsArgs_q(AX), SI
	MOVQ actsArgs_n(AX), R8
	MOVQ actsArgs_from(AX), AX
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
