//go:build !noasm

#include "textflag.h"

// Eight elements of a type from memory to float32.
#define LOAD_F32(M, Y) VMOVUPS M, Y
#define LOAD_F16(M, Y) VCVTPH2PS M, Y
#define LOAD_BF16(M, Y) VPMOVZXWD M, Y; VPSLLD $16, Y, Y

// Adds elements 0-7 of the columns at AX and BX to the sums Y0-Y7 of two rows of w and four of x.
#define COLUMNS(LOAD) \
	LOAD((AX), Y8);             \
	LOAD((AX)(R9*1), Y9);       \
	VMOVUPS (BX), Y10;          \
	VMOVUPS (BX)(R12*1), Y11;   \
	VMOVUPS (BX)(R12*2), Y12;   \
	VMOVUPS (BX)(R13*1), Y13;   \
	VFMADD231PS Y8, Y10, Y0;    \
	VFMADD231PS Y9, Y10, Y1;    \
	VFMADD231PS Y8, Y11, Y2;    \
	VFMADD231PS Y9, Y11, Y3;    \
	VFMADD231PS Y8, Y12, Y4;    \
	VFMADD231PS Y9, Y12, Y5;    \
	VFMADD231PS Y8, Y13, Y6;    \
	VFMADD231PS Y9, Y13, Y7

// Y0-Y7 from o(P), and to it.
#define TAKE(o, P) \
	VMOVUPS o(P), Y0;       \
	VMOVUPS (o+32)(P), Y1;  \
	VMOVUPS (o+64)(P), Y2;  \
	VMOVUPS (o+96)(P), Y3;  \
	VMOVUPS (o+128)(P), Y4; \
	VMOVUPS (o+160)(P), Y5; \
	VMOVUPS (o+192)(P), Y6; \
	VMOVUPS (o+224)(P), Y7
#define KEEP(o, P) \
	VMOVUPS Y0, o(P);       \
	VMOVUPS Y1, (o+32)(P);  \
	VMOVUPS Y2, (o+64)(P);  \
	VMOVUPS Y3, (o+96)(P);  \
	VMOVUPS Y4, (o+128)(P); \
	VMOVUPS Y5, (o+160)(P); \
	VMOVUPS Y6, (o+192)(P); \
	VMOVUPS Y7, (o+224)(P)

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

// The sums of two rows of w, whose lanes of rows are at o(SP) and (o+256)(SP), to at(DI).
#define TWO(o, at) \
	TAKE(o, SP); \
	VADDPS (o+256)(SP), Y0, Y0; \
	VADDPS (o+288)(SP), Y1, Y1; \
	VADDPS (o+320)(SP), Y2, Y2; \
	VADDPS (o+352)(SP), Y3, Y3; \
	VADDPS (o+384)(SP), Y4, Y4; \
	VADDPS (o+416)(SP), Y5, Y5; \
	VADDPS (o+448)(SP), Y6, Y6; \
	VADDPS (o+480)(SP), Y7, Y7; \
	STORE(at, Y0, X0, Y1, X1, Y2, X2, Y3, X3);    \
	STORE(at+32, Y4, X4, Y5, X5, Y6, X6, Y7, X7)

// grid(dst *[16]float32, w []byte, x []float32) for elements of w of size bytes. There are registers for eight sums, of 32: two rows of w
// with four of x, in elements 16i..16i+7 or in the others, as rows adds them. So parts of the columns, which stay in the cache, take four turns. DI dst,
// SI w, R9 a row of it in bytes, CX x, R12, R13 one and three rows of it in bytes, R10 bytes left of a row of x, R15 those of the part, R8 turn, DX its sums;
// AX, BX places in w and x, R11 bytes of x left, R14 the row of w to be fetched ahead, one of the next four.
#define GRID(LOAD, size) \
	MOVQ dst+0(FP), DI;       \
	MOVQ w_base+8(FP), SI;    \
	MOVQ w_len+16(FP), R9;    \
	MOVQ x_base+32(FP), CX;   \
	MOVQ x_len+40(FP), R12;   \
	SHRQ $2, R9;              \
	LEAQ (R12)(R12*2), R13;   \
	MOVQ R12, R10;            \
	VXORPS X0, X0, X0;        \
	VXORPS X1, X1, X1;        \
	VXORPS X2, X2, X2;        \
	VXORPS X3, X3, X3;        \
	VXORPS X4, X4, X4;        \
	VXORPS X5, X5, X5;        \
	VXORPS X6, X6, X6;        \
	VXORPS X7, X7, X7;        \
	KEEP(0, SP);              \
	KEEP(256, SP);            \
	KEEP(512, SP);            \
	KEEP(768, SP);            \
part: \
	MOVQ $2048, R15;          \
	CMPQ R10, R15;            \
	CMOVQLT R10, R15;         \
	LEAQ (SI)(R9*4), R14;     \
	MOVQ SP, DX;              \
	XORL R8, R8;              \
turn: \
	MOVQ R8, BX;              \
	ANDQ $1, BX;              \
	SHLQ $5, BX;              \
	MOVQ BX, AX;              \
	SHRQ $(4/size-1), AX;     \
	ADDQ SI, AX;              \
	ADDQ CX, BX;              \
	TESTQ $2, R8;             \
	JZ   upper;               \
	LEAQ (AX)(R9*2), AX;      \
upper: \
	TAKE(0, DX);              \
	MOVQ R15, R11;            \
sixteen: \
	PREFETCHT0 (R14);         \
	COLUMNS(LOAD);            \
	ADDQ $(16*size), AX;      \
	ADDQ $(16*size), R14;     \
	ADDQ $64, BX;             \
	SUBQ $64, R11;            \
	JNZ  sixteen;             \
	KEEP(0, DX);              \
	ADDQ $256, DX;            \
	ADDQ R9, R14;             \
	MOVQ R15, R11;            \
	SHRQ $(4/size-1), R11;    \
	SUBQ R11, R14;            \
	INCQ R8;                  \
	CMPQ R8, $4;              \
	JNE  turn;                \
	ADDQ R11, SI;             \
	ADDQ R15, CX;             \
	SUBQ R15, R10;            \
	JNZ  part;                \
	TWO(0, 0);                \
	TWO(512, 8);              \
	VZEROUPPER;               \
	RET

// func gridF32AVX2(dst *[16]float32, w []byte, x []float32)
TEXT ·gridF32AVX2(SB), 0, $1024-56
	GRID(LOAD_F32, 4)

// func gridF16AVX2(dst *[16]float32, w []byte, x []float32)
TEXT ·gridF16AVX2(SB), 0, $1024-56
	GRID(LOAD_F16, 2)

// func gridBF16AVX2(dst *[16]float32, w []byte, x []float32)
TEXT ·gridBF16AVX2(SB), 0, $1024-56
	GRID(LOAD_BF16, 2)
