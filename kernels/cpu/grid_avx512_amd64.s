//go:build !noasm

#include "textflag.h"

// Sixteen elements of a type from memory to float32.
#define LOAD_F32(M, Z) VMOVUPS M, Z
#define LOAD_F16(M, Z) VCVTPH2PS M, Z
#define LOAD_BF16(M, Z) VPMOVZXWD M, Z; VPSLLD $16, Z, Z

#define ROW(X, A, B, C, D) \
	VFMADD231PS Z16, X, A; \
	VFMADD231PS Z17, X, B; \
	VFMADD231PS Z18, X, C; \
	VFMADD231PS Z19, X, D

// 4i(DI) = the sum of Z, whose lower half are the lanes Y0 and whose upper half the lanes Y1 of rows, in the same order.
#define STORE(i, Z, Y, X) \
	VEXTRACTF64X4 $1, Z, Y16; \
	VADDPS        Y16, Y, Y;  \
	VEXTRACTF32X4 $1, Y, X16; \
	VADDPS        X16, X, X;  \
	VMOVHLPS      X, X, X16;  \
	VADDPS        X16, X, X;  \
	VMOVSHDUP     X, X16;     \
	VADDSS        X16, X, X;  \
	VMOVSS        X, (4*i)(DI)

#define ZERO4(A, B, C, D) \
	VXORPS A, A, A; \
	VXORPS B, B, B; \
	VXORPS C, C, C; \
	VXORPS D, D, D

// grid(dst *[16]float32, w []byte, x []float32) for elements of w of size bytes: Z0-Z3 the first row of x with the four rows of w, and
// so on. SI w, R9, R10 one and three rows of it in bytes, CX x, R12, R13 the same of x, R11 bytes left of a row of x, R14 the next four rows of w,
// to be fetched ahead.
#define GRID(LOAD, size) \
	MOVQ dst+0(FP), DI;       \
	MOVQ w_base+8(FP), SI;    \
	MOVQ w_len+16(FP), R9;    \
	MOVQ x_base+32(FP), CX;   \
	MOVQ x_len+40(FP), R12;   \
	SHRQ $2, R9;              \
	LEAQ (R9)(R9*2), R10;     \
	LEAQ (R12)(R12*2), R13;   \
	MOVQ R12, R11;            \
	LEAQ (SI)(R9*4), R14;     \
	ZERO4(X0, X1, X2, X3);     \
	ZERO4(X4, X5, X6, X7);     \
	ZERO4(X8, X9, X10, X11);   \
	ZERO4(X12, X13, X14, X15); \
sixteen: \
	PREFETCHT0 (R14);         \
	PREFETCHT0 (R14)(R9*1);   \
	PREFETCHT0 (R14)(R9*2);   \
	PREFETCHT0 (R14)(R10*1);  \
	LOAD((SI), Z16);          \
	LOAD((SI)(R9*1), Z17);    \
	LOAD((SI)(R9*2), Z18);    \
	LOAD((SI)(R10*1), Z19);   \
	VMOVUPS (CX), Z20;        \
	VMOVUPS (CX)(R12*1), Z21; \
	VMOVUPS (CX)(R12*2), Z22; \
	VMOVUPS (CX)(R13*1), Z23; \
	ROW(Z20, Z0, Z1, Z2, Z3); \
	ROW(Z21, Z4, Z5, Z6, Z7); \
	ROW(Z22, Z8, Z9, Z10, Z11);   \
	ROW(Z23, Z12, Z13, Z14, Z15); \
	ADDQ $(16*size), SI;      \
	ADDQ $(16*size), R14;     \
	ADDQ $64, CX;             \
	SUBQ $64, R11;            \
	JNZ  sixteen;             \
	STORE(0, Z0, Y0, X0); \
	STORE(1, Z1, Y1, X1); \
	STORE(2, Z2, Y2, X2); \
	STORE(3, Z3, Y3, X3); \
	STORE(4, Z4, Y4, X4); \
	STORE(5, Z5, Y5, X5); \
	STORE(6, Z6, Y6, X6); \
	STORE(7, Z7, Y7, X7); \
	STORE(8, Z8, Y8, X8); \
	STORE(9, Z9, Y9, X9); \
	STORE(10, Z10, Y10, X10); \
	STORE(11, Z11, Y11, X11); \
	STORE(12, Z12, Y12, X12); \
	STORE(13, Z13, Y13, X13); \
	STORE(14, Z14, Y14, X14); \
	STORE(15, Z15, Y15, X15); \
	VZEROUPPER;               \
	RET

// func gridF32AVX512(dst *[16]float32, w []byte, x []float32)
TEXT ·gridF32AVX512(SB), NOSPLIT, $0-56
	GRID(LOAD_F32, 4)

// func gridF16AVX512(dst *[16]float32, w []byte, x []float32)
TEXT ·gridF16AVX512(SB), NOSPLIT, $0-56
	GRID(LOAD_F16, 2)

// func gridBF16AVX512(dst *[16]float32, w []byte, x []float32)
TEXT ·gridBF16AVX512(SB), NOSPLIT, $0-56
	GRID(LOAD_BF16, 2)
