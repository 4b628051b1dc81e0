//go:build !noasm

#include "textflag.h"

// Eight elements of a type from memory to float32.
#define LOAD_F32(M, Y) VMOVUPS M, Y
#define LOAD_F16(M, Y) VCVTPH2PS M, Y
#define LOAD_BF16(M, Y) VPMOVZXWD M, Y; VPSLLD $16, Y, Y

// Eight sums do not leave room for their two lanes each, so the lanes take turns: EVEN adds elements 16i..16i+7 of two rows of w and four
// of x to Y0-Y7, ODD the others. AX w, BX x, R11 elements left.
#define COLUMNS(LOAD, wo, xo) \
	LOAD(wo(AX), Y8);              \
	LOAD(wo(AX)(R9*1), Y9);        \
	VMOVUPS xo(BX), Y10;           \
	VMOVUPS xo(BX)(R12*1), Y11;    \
	VMOVUPS xo(BX)(R12*2), Y12;    \
	VMOVUPS xo(BX)(R13*1), Y13;    \
	VFMADD231PS Y8, Y10, Y0;       \
	VFMADD231PS Y9, Y10, Y1;       \
	VFMADD231PS Y8, Y11, Y2;       \
	VFMADD231PS Y9, Y11, Y3;       \
	VFMADD231PS Y8, Y12, Y4;       \
	VFMADD231PS Y9, Y12, Y5;       \
	VFMADD231PS Y8, Y13, Y6;       \
	VFMADD231PS Y9, Y13, Y7
#define BEGIN \
	MOVQ SI, AX;        \
	MOVQ CX, BX;        \
	MOVQ R12, R11;      \
	VXORPS X0, X0, X0;  \
	VXORPS X1, X1, X1;  \
	VXORPS X2, X2, X2;  \
	VXORPS X3, X3, X3;  \
	VXORPS X4, X4, X4;  \
	VXORPS X5, X5, X5;  \
	VXORPS X6, X6, X6;  \
	VXORPS X7, X7, X7
#define NEXT(size) \
	ADDQ $(16*size), AX; \
	ADDQ $64, BX;        \
	SUBQ $64, R11

// X = half the lanes of Y plus the other half.
#define HALVE(Y, X) \
	VEXTRACTF128 $1, Y, X8; \
	VADDPS       X8, X, X

// Stores the sums of A and B, C and D for two rows of x, at o: of each (a0+a4)+(a2+a6) + ((a1+a5)+(a3+a7)).
#define STORE(o, YA, A, YB, B, YC, C, YD, D) \
	HALVE(YA, A);          \
	HALVE(YB, B);          \
	HALVE(YC, C);          \
	HALVE(YD, D);          \
	VUNPCKLPS B, A, X8;    \
	VUNPCKHPS B, A, X9;    \
	VUNPCKLPS D, C, X10;   \
	VUNPCKHPS D, C, X11;   \
	VADDPS    X9, X8, X8;  \
	VADDPS    X11, X10, X10; \
	VMOVLHPS  X10, X8, X9;   \
	VMOVHLPS  X8, X10, X10;  \
	VADDPS    X10, X9, X9;   \
	VMOVLPS   X9, o(DI);     \
	VMOVHPS   X9, (o+16)(DI)

// grid(dst *[16]float32, w []byte, x []float32) for elements of w of size bytes, two rows of w at a time. DI dst, SI w, R9 a row of it in bytes,
// CX x, R12, R13 one and three rows of it in bytes, R14 the rows of w to be fetched ahead, four rows on, R8 what is left of the turns.
#define GRID(LOAD, size) \
	MOVQ dst+0(FP), DI;       \
	MOVQ w_base+8(FP), SI;    \
	MOVQ w_len+16(FP), R9;    \
	MOVQ x_base+32(FP), CX;   \
	MOVQ x_len+40(FP), R12;   \
	LEAQ (SI)(R9*1), R14;     \
	SHRQ $2, R9;              \
	LEAQ (R12)(R12*2), R13;   \
	MOVQ $2, R8;              \
two: \
	BEGIN; \
even: \
	PREFETCHT0 (R14);         \
	PREFETCHT0 (R14)(R9*1);   \
	COLUMNS(LOAD, 0, 0);      \
	ADDQ $(16*size), R14;     \
	NEXT(size);               \
	JNZ  even;                \
	VMOVUPS Y0, 0(SP);        \
	VMOVUPS Y1, 32(SP);       \
	VMOVUPS Y2, 64(SP);       \
	VMOVUPS Y3, 96(SP);       \
	VMOVUPS Y4, 128(SP);      \
	VMOVUPS Y5, 160(SP);      \
	VMOVUPS Y6, 192(SP);      \
	VMOVUPS Y7, 224(SP);      \
	BEGIN; \
odd: \
	COLUMNS(LOAD, (8*size), 32); \
	NEXT(size);               \
	JNZ  odd;                 \
	VADDPS 0(SP), Y0, Y0;     \
	VADDPS 32(SP), Y1, Y1;    \
	VADDPS 64(SP), Y2, Y2;    \
	VADDPS 96(SP), Y3, Y3;    \
	VADDPS 128(SP), Y4, Y4;   \
	VADDPS 160(SP), Y5, Y5;   \
	VADDPS 192(SP), Y6, Y6;   \
	VADDPS 224(SP), Y7, Y7;   \
	STORE(0, Y0, X0, Y1, X1, Y2, X2, Y3, X3);  \
	STORE(32, Y4, X4, Y5, X5, Y6, X6, Y7, X7); \
	LEAQ (SI)(R9*2), SI;      \
	ADDQ R9, R14;             \
	ADDQ $8, DI;              \
	DECQ R8;                  \
	JNZ  two;                 \
	VZEROUPPER;               \
	RET

// func gridF32AVX2(dst *[16]float32, w []byte, x []float32)
TEXT ·gridF32AVX2(SB), NOSPLIT, $256-56
	GRID(LOAD_F32, 4)

// func gridF16AVX2(dst *[16]float32, w []byte, x []float32)
TEXT ·gridF16AVX2(SB), NOSPLIT, $256-56
	GRID(LOAD_F16, 2)

// func gridBF16AVX2(dst *[16]float32, w []byte, x []float32)
TEXT ·gridBF16AVX2(SB), NOSPLIT, $256-56
	GRID(LOAD_BF16, 2)
