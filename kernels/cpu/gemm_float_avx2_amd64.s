//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "prefetch_amd64.h"

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
	VEXTRACTF128 $1, Y, X12; \
	VADDPS       X12, X, X

// X13 = the sums of the lanes of A, B, C and D: of each (a0+a4)+(a2+a6) + ((a1+a5)+(a3+a7)).
#define SUMS(YA, A, YB, B, YC, C, YD, D) \
	HALVE(YA, A);            \
	HALVE(YB, B);            \
	HALVE(YC, C);            \
	HALVE(YD, D);            \
	VUNPCKLPS B, A, X12;     \
	VUNPCKHPS B, A, X13;     \
	VUNPCKLPS D, C, X14;     \
	VUNPCKHPS D, C, X15;     \
	VADDPS    X13, X12, X12; \
	VADDPS    X15, X14, X14; \
	VMOVLHPS  X14, X12, X13; \
	VMOVHLPS  X12, X14, X14; \
	VADDPS    X14, X13, X13

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
	SUMS(Y0, X0, Y1, X1, Y2, X2, Y3, X3); \
	VMOVLPS X13, at(DI);                  \
	VMOVHPS X13, (at+16)(DI);             \
	SUMS(Y4, X4, Y5, X5, Y6, X6, Y7, X7); \
	VMOVLPS X13, (at+32)(DI);             \
	VMOVHPS X13, (at+48)(DI)

// gemm for elements of w of size bytes. There are registers for eight sums, of
// 32: two rows of w with four of x, in elements 16i..16i+7 or in the others, as gemv adds them. So parts of the
// columns, which stay in the cache, take four passes. DI dst, SI w, R9 a row of it in bytes, CX x, R12, R13 one and
// three rows of it in bytes, R10 bytes left of a token of x, R15 those of the part, R8 pass, DX its sums; AX, BX places
// in w and x, R11 bytes of x left, R14 the row of w to be prefetched, one of the next four.
#define GEMM(LOAD, size) \
	MOVQ a+0(FP), AX;         \
	MOVQ floatArgs_dst(AX), DI; \
	MOVQ floatArgs_w(AX), SI; \
	MOVQ floatArgs_rowBytes(AX), R9; \
	MOVQ floatArgs_x(AX), CX; \
	MOVQ floatArgs_n(AX), R12; \
	SHLQ $2, R12;             \
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
pass: \
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
	PCALIGN $32;              \
sixteen: \
	GEMMLINE((R14));             \
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
	JNE  pass;                \
	ADDQ R11, SI;             \
	ADDQ R15, CX;             \
	SUBQ R15, R10;            \
	JNZ  part;                \
	TWO(0, 0);                \
	TWO(512, 8);              \
	VZEROUPPER;               \
	RET

// Adds elements 0-7 of the columns at AX and BX to the sums Y0-Y11 of two rows of w and six of x.
#define MULADD(M, A, B, T) \
	VMOVUPS M, T;          \
	VFMADD231PS Y12, T, A; \
	VFMADD231PS Y13, T, B
#define COLUMNS6(LOAD) \
	LOAD((AX), Y12);                \
	LOAD((AX)(R9*1), Y13);          \
	MULADD((BX), Y0, Y1, Y14);        \
	MULADD((BX)(R12*1), Y2, Y3, Y15); \
	MULADD((BX)(R12*2), Y4, Y5, Y14); \
	MULADD((BX)(R13*1), Y6, Y7, Y15); \
	MULADD((BX)(R12*4), Y8, Y9, Y14); \
	MULADD((BX)(R10*1), Y10, Y11, Y15)

// OP of Y0-Y11 and their places from o(DX) on.
#define EACH12(OP, o) \
	OP((o+0)(DX), Y0);    \
	OP((o+32)(DX), Y1);   \
	OP((o+64)(DX), Y2);   \
	OP((o+96)(DX), Y3);   \
	OP((o+128)(DX), Y4);  \
	OP((o+160)(DX), Y5);  \
	OP((o+192)(DX), Y6);  \
	OP((o+224)(DX), Y7);  \
	OP((o+256)(DX), Y8);  \
	OP((o+288)(DX), Y9);  \
	OP((o+320)(DX), Y10); \
	OP((o+352)(DX), Y11)
#define LOAD_SUM(M, Y) VMOVUPS M, Y
#define ADD_SUM(M, Y) VADDPS M, Y, Y
#define STORE_SUM(M, Y) VMOVUPS Y, M
#define ZERO_SUM(M, Y) VXORPS Y, Y, Y

// The sums of two rows of w and two of x to DI and one row of dst on, or added to what is there; then DI is the next
// row but one.
#define PUT(YA, A, YB, B, YC, C, YD, D, set) \
	SUMS(YA, A, YB, B, YC, C, YD, D);  \
	CMPB add-8(SP), $0;                \
	JEQ  set;                          \
	VMOVSD (DI), X12;                  \
	VMOVHPS (DI)(R11*1), X12, X12;     \
	VADDPS X12, X13, X13;              \
set: \
	VMOVLPS X13, (DI);                 \
	VMOVHPS X13, (DI)(R11*1);          \
	LEAQ (DI)(R11*2), DI

// gemm8 for six tokens of x. As in GEMM,
// there is no room for all sums: parts of the columns, which stay in the first-level cache, take a pass for each half
// of two rows of w, whose twelve sums wait at DX. Each pass prefetches a row of the next part of x: up to 896 columns,
// which are there with the next weights, or 608. SI w, R9 a row of it in bytes, CX x, R12, R13, R10 one, three and five
// rows of it in bytes, R15 the bytes of a part of it, 3072(SP) those left, R8 pass; AX, BX places in w and x, R11 bytes
// left in that part, R14, DI the rows of w and x that are prefetched. In the end DI is the place of the sums.
#define GRID6(LOAD, size) \
	MOVQ a+0(FP), AX;         \
	MOVQ floatArgs_w(AX), SI; \
	MOVQ floatArgs_rowBytes(AX), R9; \
	MOVQ floatArgs_x(AX), CX; \
	MOVQ floatArgs_n(AX), R12; \
	SHLQ $2, R12;             \
	LEAQ (R12)(R12*2), R13;   \
	LEAQ (R12)(R12*4), R10;   \
	MOVQ R12, 3072(SP);       \
part: \
	MOVQ 3072(SP), R11;       \
	MOVQ $2432, R15;          \
	CMPQ R11, $3584;          \
	CMOVQLE R11, R15;         \
	MOVQ SP, DX;              \
	XORL R8, R8;              \
pass: \
	MOVQ R8, AX;              \
	IMULQ R9, AX;             \
	MOVQ a+0(FP), R14;        \
	MOVQ floatArgs_prefetch(R14), R14; \
	ADDQ AX, R14;             \
	ADDQ SI, R14;             \
	MOVQ R8, DI;              \
	IMULQ R12, DI;            \
	ADDQ R15, DI;             \
	ADDQ CX, DI;              \
	MOVQ R8, BX;              \
	ANDQ $1, BX;              \
	JZ   lower;               \
	SUBQ R9, AX;              \
	ADDQ $(8*size), AX;       \
lower: \
	ADDQ SI, AX;              \
	SHLQ $5, BX;              \
	ADDQ CX, BX;              \
	MOVQ R15, R11;            \
	CMPQ R12, 3072(SP);       \
	JEQ  first;               \
	EACH12(LOAD_SUM, 0);      \
	JMP  sixteen;             \
first: \
	EACH12(ZERO_SUM, 0);      \
sixteen: \
	GEMMLINE((R14));             \
	PREFETCHT0 (DI);          \
	COLUMNS6(LOAD);           \
	ADDQ $(16*size), AX;      \
	ADDQ $(16*size), R14;     \
	ADDQ $64, BX;             \
	ADDQ $64, DI;             \
	SUBQ $64, R11;            \
	JNZ  sixteen;             \
	EACH12(STORE_SUM, 0);     \
	ADDQ $384, DX;            \
	INCQ R8;                  \
	CMPQ R8, $8;              \
	JNE  pass;                \
	ADDQ R15, CX;             \
	SUBQ R15, 3072(SP);       \
	MOVQ R15, R11;            \
	SHRQ $(4/size-1), R11;    \
	ADDQ R11, SI;             \
	CMPQ 3072(SP), $0;        \
	JNE  part;                \
	MOVQ SP, DX;              \
	MOVQ a+0(FP), R11;        \
	MOVB floatArgs_add(R11), R8; \
	MOVB R8, add-8(SP);       \
	MOVQ floatArgs_dst(R11), AX; \
	MOVQ floatArgs_stride(R11), R11; \
	SHLQ $2, R11;             \
	MOVQ $4, R8;              \
two: \
	MOVQ AX, DI;              \
	EACH12(LOAD_SUM, 0);      \
	EACH12(ADD_SUM, 384);     \
	PUT(Y0, X0, Y1, X1, Y2, X2, Y3, X3, set0);    \
	PUT(Y4, X4, Y5, X5, Y6, X6, Y7, X7, set2);    \
	PUT(Y8, X8, Y9, X9, Y10, X10, Y11, X11, set4); \
	ADDQ $768, DX;            \
	ADDQ $8, AX;              \
	DECQ R8;                  \
	JNZ  two;                 \
	VZEROUPPER;               \
	RET

// func gemmF32AVX2(a *floatArgs)
TEXT ·gemmF32AVX2(SB), 0, $1024-8
	GEMM(LOAD_F32, 4)

// func gemmF16AVX2(a *floatArgs)
TEXT ·gemmF16AVX2(SB), 0, $1024-8
	GEMM(LOAD_F16, 2)

// func gemmBF16AVX2(a *floatArgs)
TEXT ·gemmBF16AVX2(SB), 0, $1024-8
	GEMM(LOAD_BF16, 2)

// func gemm8F32AVX2(a *floatArgs)
TEXT ·gemm8F32AVX2(SB), 0, $3088-8
	GRID6(LOAD_F32, 4)

// func gemm8F16AVX2(a *floatArgs)
TEXT ·gemm8F16AVX2(SB), 0, $3088-8
	GRID6(LOAD_F16, 2)

// func gemm8BF16AVX2(a *floatArgs)
TEXT ·gemm8BF16AVX2(SB), 0, $3088-8
	GRID6(LOAD_BF16, 2)
