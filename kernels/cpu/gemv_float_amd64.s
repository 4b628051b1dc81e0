//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "sum_amd64.h"

// Eight elements of a type from memory to float32, and one (uses BX).
#define LOAD8_F32(M, Y) VMOVUPS M, Y
#define LOAD1_F32(M, X) VMOVSS M, X
#define LOAD8_F16(M, Y) VCVTPH2PS M, Y
#define LOAD1_F16(M, X) MOVWLZX M, BX; VMOVD BX, X; VCVTPH2PS X, X
#define LOAD8_BF16(M, Y) VPMOVZXWD M, Y; VPSLLD $16, Y, Y
#define LOAD1_BF16(M, X) MOVWLZX M, BX; SHLL $16, BX; VMOVD BX, X

// gemv: elements 16i..16i+7 are summed in Y0, 16i+8..16i+15 in Y1; a
// last eight in Y0; what is left is added to the horizontal sum. 32 elements are a cache line, or two with PREFETCH2.
// DI dst, R8 rows left, SI w, R9 rowBytes, DX x, R10 length; inner AX w, CX x, R11 elements left.
#define GEMV(LOAD8, LOAD1, size, PREFETCH2) \
	MOVQ a+0(FP), AX;                \
	MOVQ floatArgs_dst(AX), DI;      \
	MOVQ floatArgs_rows(AX), R8;     \
	MOVQ floatArgs_w(AX), SI;        \
	MOVQ floatArgs_rowBytes(AX), R9; \
	MOVQ floatArgs_x(AX), DX;        \
	MOVQ floatArgs_n(AX), R10;       \
row: \
	MOVQ SI, AX;                     \
	MOVQ DX, CX;                     \
	MOVQ R10, R11;                   \
	VXORPS Y0, Y0, Y0;               \
	VXORPS Y1, Y1, Y1;               \
	SUBQ $32, R11;                   \
	JLT  rest;                       \
wide: \
	PREFETCH(AX, 0);                    \
	PREFETCH2;                          \
	LOAD8((AX), Y2);                 \
	LOAD8((8*size)(AX), Y3);         \
	VFMADD231PS (CX), Y2, Y0;        \
	VFMADD231PS 32(CX), Y3, Y1;      \
	LOAD8((16*size)(AX), Y2);        \
	LOAD8((24*size)(AX), Y3);        \
	VFMADD231PS 64(CX), Y2, Y0;      \
	VFMADD231PS 96(CX), Y3, Y1;      \
	ADDQ $(32*size), AX;             \
	ADDQ $128, CX;                   \
	SUBQ $32, R11;                   \
	JGE  wide;                       \
rest: \
	ADDQ $16, R11;                   \
	JLT  eight;                      \
	LOAD8((AX), Y2);                 \
	LOAD8((8*size)(AX), Y3);         \
	VFMADD231PS (CX), Y2, Y0;        \
	VFMADD231PS 32(CX), Y3, Y1;      \
	ADDQ $(16*size), AX;             \
	ADDQ $64, CX;                    \
	SUBQ $16, R11;                   \
eight: \
	ADDQ $8, R11;                    \
	JLT  sum;                        \
	LOAD8((AX), Y2);                 \
	VFMADD231PS (CX), Y2, Y0;        \
	ADDQ $(8*size), AX;              \
	ADDQ $32, CX;                    \
	SUBQ $8, R11;                    \
sum: \
	VADDPS Y1, Y0, Y0;               \
	HSUM(Y0, X0, X1);                \
	ADDQ $8, R11;                    \
	JZ   store;                      \
one: \
	LOAD1((AX), X2);                 \
	VFMADD231SS (CX), X2, X0;        \
	ADDQ $size, AX;                  \
	ADDQ $4, CX;                     \
	DECQ R11;                        \
	JNZ  one;                        \
store: \
	VMOVSS X0, (DI);                 \
	ADDQ $4, DI;                     \
	ADDQ R9, SI;                     \
	DECQ R8;                         \
	JNZ  row;                        \
	VZEROUPPER;                      \
	RET

// from: DI dst, R8 elements left, SI w.
#define FROM(LOAD8, LOAD1) \
	MOVQ a+0(FP), AX;         \
	MOVQ floatArgs_dst(AX), DI; \
	MOVQ floatArgs_n(AX), R8; \
	MOVQ floatArgs_w(AX), SI; \
	SUBQ $8, R8;              \
	JLT  rest;                \
eight: \
	LOAD8((SI), Y0);          \
	VMOVUPS Y0, (DI);         \
	ADDQ $16, SI;             \
	ADDQ $32, DI;             \
	SUBQ $8, R8;              \
	JGE  eight;               \
rest: \
	ADDQ $8, R8;              \
	JZ   done;                \
one: \
	LOAD1((SI), X0);          \
	VMOVSS X0, (DI);          \
	ADDQ $2, SI;              \
	ADDQ $4, DI;              \
	DECQ R8;                  \
	JNZ  one;                 \
done: \
	VZEROUPPER;               \
	RET

// func gemvF32AVX2(a *floatArgs)
TEXT ·gemvF32AVX2(SB), NOSPLIT, $0-8
	GEMV(LOAD8_F32, LOAD1_F32, 4, PREFETCH(AX, 64))

// func gemvF16AVX2(a *floatArgs)
TEXT ·gemvF16AVX2(SB), NOSPLIT, $0-8
	GEMV(LOAD8_F16, LOAD1_F16, 2, NOP)

// func gemvBF16AVX2(a *floatArgs)
TEXT ·gemvBF16AVX2(SB), NOSPLIT, $0-8
	GEMV(LOAD8_BF16, LOAD1_BF16, 2, NOP)

// Adds w·x of the token of x at CX, CX+R8, CX+2·R8 or CX+R9.
#define FOUR(off, W, S0, S1, S2, S3) \
	VFMADD231PS off(CX), W, S0;         \
	VFMADD231PS off(CX)(R8*1), W, S1;   \
	VFMADD231PS off(CX)(R8*2), W, S2;   \
	VFMADD231PS off(CX)(R9*1), W, S3

// func gemm1F32AVX2(a *floatArgs)
// Sums as gemv does: Y0-Y3 and Y4-Y7 are its Y0 and Y1. SI w, CX x, R8, R9 one and three tokens of x in bytes, R11
// elements left.
TEXT ·gemm1F32AVX2(SB), NOSPLIT, $0-8
	MOVQ a+0(FP), AX
	MOVQ floatArgs_dst(AX), DI
	MOVQ floatArgs_w(AX), SI
	MOVQ floatArgs_n(AX), R11
	MOVQ floatArgs_x(AX), CX
	LEAQ (R11*4), R8
	LEAQ (R8)(R8*2), R9
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	SUBQ $16, R11
	JLT  eight
sixteen:
	VMOVUPS (SI), Y8
	VMOVUPS 32(SI), Y9
	FOUR(0, Y8, Y0, Y1, Y2, Y3)
	FOUR(32, Y9, Y4, Y5, Y6, Y7)
	ADDQ $64, SI
	ADDQ $64, CX
	SUBQ $16, R11
	JGE  sixteen
eight:
	ADDQ $8, R11
	JLT  sum
	VMOVUPS (SI), Y8
	FOUR(0, Y8, Y0, Y1, Y2, Y3)
	ADDQ $32, SI
	ADDQ $32, CX
	SUBQ $8, R11
sum:
	VADDPS Y4, Y0, Y0
	VADDPS Y5, Y1, Y1
	VADDPS Y6, Y2, Y2
	VADDPS Y7, Y3, Y3
	HSUM(Y0, X0, X4)
	HSUM(Y1, X1, X4)
	HSUM(Y2, X2, X4)
	HSUM(Y3, X3, X4)
	ADDQ $8, R11
	JZ   store
one:
	VMOVSS (SI), X8
	VFMADD231SS (CX), X8, X0
	VFMADD231SS (CX)(R8*1), X8, X1
	VFMADD231SS (CX)(R8*2), X8, X2
	VFMADD231SS (CX)(R9*1), X8, X3
	ADDQ $4, SI
	ADDQ $4, CX
	DECQ R11
	JNZ  one
store:
	VMOVSS X0, (DI)
	VMOVSS X1, 4(DI)
	VMOVSS X2, 8(DI)
	VMOVSS X3, 12(DI)
	VZEROUPPER
	RET

// func fromF16AVX2(a *floatArgs)
TEXT ·fromF16AVX2(SB), NOSPLIT, $0-8
	FROM(LOAD8_F16, LOAD1_F16)

// func fromBF16AVX2(a *floatArgs)
TEXT ·fromBF16AVX2(SB), NOSPLIT, $0-8
	FROM(LOAD8_BF16, LOAD1_BF16)

// func readAVX2(p []byte) uint64
// Reads 256 bytes a pass; what is left below that is not read.
TEXT ·readAVX2(SB), NOSPLIT, $0-32
	MOVQ p_base+0(FP), SI
	MOVQ p_len+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	SUBQ $256, CX
	JLT  done
again:
	VPOR (SI), Y0, Y0
	VPOR 32(SI), Y1, Y1
	VPOR 64(SI), Y2, Y2
	VPOR 96(SI), Y3, Y3
	VPOR 128(SI), Y0, Y0
	VPOR 160(SI), Y1, Y1
	VPOR 192(SI), Y2, Y2
	VPOR 224(SI), Y3, Y3
	ADDQ $256, SI
	SUBQ $256, CX
	JGE  again
done:
	VPOR Y1, Y0, Y0
	VPOR Y3, Y2, Y2
	VPOR Y2, Y0, Y0
	VMOVQ X0, AX
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET
