//go:build !noasm

#include "textflag.h"

// Eight elements from memory to float32.
#define LOAD8_F32(M, Y) VMOVUPS M, Y
#define LOAD8_F16(M, Y) VCVTPH2PS M, Y

#define ZERO8 \
	VXORPS Y0, Y0, Y0; \
	VXORPS Y1, Y1, Y1; \
	VXORPS Y2, Y2, Y2; \
	VXORPS Y3, Y3, Y3; \
	VXORPS Y4, Y4, Y4; \
	VXORPS Y5, Y5, Y5; \
	VXORPS Y6, Y6, Y6; \
	VXORPS Y7, Y7, Y7

// Y0-Y7 += Y8 times the eight numbers at R, or at the places of MIX.
#define QUERY(M, ACC) \
	VBROADCASTSS M, Y9;     \
	VFMADD231PS  Y8, Y9, ACC
#define QUERIES(R) \
	QUERY((R), Y0);   \
	QUERY(4(R), Y1);  \
	QUERY(8(R), Y2);  \
	QUERY(12(R), Y3); \
	QUERY(16(R), Y4); \
	QUERY(20(R), Y5); \
	QUERY(24(R), Y6); \
	QUERY(28(R), Y7)

// OP of Y0-Y7 and eight rows R9 bytes apart, the first at R; uses R.
#define EACH8(OP, R) \
	OP(R, Y0);  \
	ADDQ R9, R; \
	OP(R, Y1);  \
	ADDQ R9, R; \
	OP(R, Y2);  \
	ADDQ R9, R; \
	OP(R, Y3);  \
	ADDQ R9, R; \
	OP(R, Y4);  \
	ADDQ R9, R; \
	OP(R, Y5);  \
	ADDQ R9, R; \
	OP(R, Y6);  \
	ADDQ R9, R; \
	OP(R, Y7)
#define TO(R, Y) VMOVUPS Y, (R)
#define OF(R, Y) VMOVUPS (R), Y

// scores(dst []float32, stride int, q []float32, k []byte, step, blocks int): half a block at a time.
// DI dst, R9 stride, DX q, R10 Dh, SI k, R8 step, R11 blocks left; inner AX k, CX q, R12 elements left, BX half.
#define SCORES(LOAD8, size) \
	MOVQ dst_base+0(FP), DI;  \
	MOVQ stride+24(FP), R9;   \
	MOVQ q_base+32(FP), DX;   \
	MOVQ q_len+40(FP), R10;   \
	MOVQ k_base+56(FP), SI;   \
	MOVQ step+80(FP), R8;     \
	MOVQ blocks+88(FP), R11;  \
	SHLQ $2, R9;              \
	SHRQ $3, R10;             \
blk: \
	XORL BX, BX;              \
half: \
	LEAQ (SI)(BX*size), AX;   \
	MOVQ DX, CX;              \
	MOVQ R10, R12;            \
	ZERO8;                    \
elem: \
	LOAD8((AX), Y8);          \
	QUERIES(CX);              \
	ADDQ $(16*size), AX;      \
	ADDQ $32, CX;             \
	DECQ R12;                 \
	JNZ  elem;                \
	LEAQ (DI)(BX*4), AX;      \
	EACH8(TO, AX);            \
	ADDQ $8, BX;              \
	CMPQ BX, $16;             \
	JLT  half;                \
	ADDQ R8, SI;              \
	ADDQ $64, DI;             \
	DECQ R11;                 \
	JNZ  blk;                 \
	VZEROUPPER;               \
	RET

// mix(acc, p []float32, stride, n int, v []byte, step int): eight columns at a time, over all values each. DI acc, R9
// bytes of a row of acc, DX p, R10 stride, R12 n, SI v, R8 step, R11 columns left; inner AX v, CX, R14, R15 rows 0, 3
// and 6 of p, R13 values left, BX.
#define MIX(LOAD8, size) \
	MOVQ acc_base+0(FP), DI;  \
	MOVQ acc_len+8(FP), R11;  \
	MOVQ p_base+24(FP), DX;   \
	MOVQ stride+48(FP), R10;  \
	MOVQ n+56(FP), R12;       \
	MOVQ v_base+64(FP), SI;   \
	MOVQ step+88(FP), R8;     \
	SHRQ $3, R11;             \
	LEAQ (R11*4), R9;         \
	SHLQ $2, R10;             \
cols: \
	MOVQ SI, AX;              \
	MOVQ DX, CX;              \
	LEAQ (R10)(R10*2), R13;   \
	LEAQ (CX)(R13*1), R14;    \
	LEAQ (R14)(R13*1), R15;   \
	MOVQ R12, R13;            \
	MOVQ DI, BX;              \
	EACH8(OF, BX);            \
value: \
	LOAD8((AX), Y8);          \
	QUERY((CX), Y0);          \
	QUERY((CX)(R10*1), Y1);   \
	QUERY((CX)(R10*2), Y2);   \
	QUERY((R14), Y3);         \
	QUERY((R14)(R10*1), Y4);  \
	QUERY((R14)(R10*2), Y5);  \
	QUERY((R15), Y6);         \
	QUERY((R14)(R10*4), Y7);  \
	ADDQ R8, AX;              \
	ADDQ $4, CX;              \
	ADDQ $4, R14;             \
	ADDQ $4, R15;             \
	DECQ R13;                 \
	JNZ  value;               \
	MOVQ DI, BX;              \
	EACH8(TO, BX);            \
	ADDQ $(8*size), SI;       \
	ADDQ $32, DI;             \
	SUBQ $8, R11;             \
	JNZ  cols;                \
	VZEROUPPER;               \
	RET

// func scoresF16AVX2(dst []float32, stride int, q []float32, k []byte, step, blocks int)
TEXT ·scoresF16AVX2(SB), NOSPLIT, $0-96
	SCORES(LOAD8_F16, 2)

// func scoresF32AVX2(dst []float32, stride int, q []float32, k []byte, step, blocks int)
TEXT ·scoresF32AVX2(SB), NOSPLIT, $0-96
	SCORES(LOAD8_F32, 4)

// func mixF16AVX2(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·mixF16AVX2(SB), NOSPLIT, $0-96
	MIX(LOAD8_F16, 2)

// func mixF32AVX2(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·mixF32AVX2(SB), NOSPLIT, $0-96
	MIX(LOAD8_F32, 4)

// func pairMixF32AVX2(acc, p []float32, stride, n int, v []byte, step int)
// 32 columns at a time, over all values each. DI acc, R9 bytes of a row of acc, DX p, R10 stride, R12 n, SI v, R8 step,
// R11 columns left; inner AX v, CX p, R13 values left, BX the second row.
TEXT ·pairMixF32AVX2(SB), NOSPLIT, $0-96
	MOVQ acc_base+0(FP), DI
	MOVQ acc_len+8(FP), R11
	MOVQ p_base+24(FP), DX
	MOVQ stride+48(FP), R10
	MOVQ n+56(FP), R12
	MOVQ v_base+64(FP), SI
	MOVQ step+88(FP), R8
	SHRQ $3, R11
	LEAQ (R11*4), R9
	SHLQ $2, R10
cols:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R12, R13
	LEAQ (DI)(R9*1), BX
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS (BX), Y4
	VMOVUPS 32(BX), Y5
	VMOVUPS 64(BX), Y6
	VMOVUPS 96(BX), Y7
value:
	VMOVUPS (AX), Y8
	VMOVUPS 32(AX), Y9
	VMOVUPS 64(AX), Y10
	VMOVUPS 96(AX), Y11
	VBROADCASTSS (CX), Y12
	VBROADCASTSS (CX)(R10*1), Y13
	VFMADD231PS Y8, Y12, Y0
	VFMADD231PS Y9, Y12, Y1
	VFMADD231PS Y10, Y12, Y2
	VFMADD231PS Y11, Y12, Y3
	VFMADD231PS Y8, Y13, Y4
	VFMADD231PS Y9, Y13, Y5
	VFMADD231PS Y10, Y13, Y6
	VFMADD231PS Y11, Y13, Y7
	ADDQ R8, AX
	ADDQ $4, CX
	DECQ R13
	JNZ  value
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, (BX)
	VMOVUPS Y5, 32(BX)
	VMOVUPS Y6, 64(BX)
	VMOVUPS Y7, 96(BX)
	ADDQ $128, SI
	ADDQ $128, DI
	SUBQ $32, R11
	JNZ  cols
	VZEROUPPER
	RET
