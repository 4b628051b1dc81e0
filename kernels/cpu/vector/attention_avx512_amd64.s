//go:build !noasm

#include "textflag.h"

// As attention_avx2_amd64.s, with two blocks of keys or 32 columns of the values at a time. What comes two pages later
// is fetched: keys and values of a head lie behind each other. Eight or sixteen elements to float32:
#define LOAD8_F32(M, Y) VMOVUPS M, Y
#define LOAD8_F16(M, Y) VCVTPH2PS M, Y
#define LOAD16_F32(M, Z) VMOVUPS M, Z
#define LOAD16_F16(M, Z) VCVTPH2PS M, Z

// Query g: A += Z16 times the number at M, B += Z17 times it.
#define QUERY2(M, N, A, B) \
	VBROADCASTSS M, N;       \
	VFMADD231PS  Z16, N, A;  \
	VFMADD231PS  Z17, N, B
#define QUERY1(M, N, A) \
	VBROADCASTSS M, N;       \
	VFMADD231PS  Z16, N, A

#define ZERO8(A, B, C, D, E, F, G, H) \
	VPXORD A, A, A; \
	VPXORD B, B, B; \
	VPXORD C, C, C; \
	VPXORD D, D, D; \
	VPXORD E, E, E; \
	VPXORD F, F, F; \
	VPXORD G, G, G; \
	VPXORD H, H, H

// OP of Z0-Z15 by twos, or of Z0-Z7, and eight rows R9 bytes apart, the first at R; uses R.
#define EACH2(OP, R) \
	OP(R, Z0, Z8);  \
	ADDQ R9, R;     \
	OP(R, Z1, Z9);  \
	ADDQ R9, R;     \
	OP(R, Z2, Z10); \
	ADDQ R9, R;     \
	OP(R, Z3, Z11); \
	ADDQ R9, R;     \
	OP(R, Z4, Z12); \
	ADDQ R9, R;     \
	OP(R, Z5, Z13); \
	ADDQ R9, R;     \
	OP(R, Z6, Z14); \
	ADDQ R9, R;     \
	OP(R, Z7, Z15)
#define TO2(R, A, B) VMOVUPS A, (R); VMOVUPS B, 64(R)
#define OF2(R, A, B) VMOVUPS (R), A; VMOVUPS 64(R), B
#define TO1(R, A, B) VMOVUPS A, (R)

// scores(dst []float32, stride int, q []float32, k []byte, step, blocks int). DI dst, R9 stride, DX q, R10 Dh, SI k, R8
// step, R11 blocks left; inner AX, BX two blocks of k, CX q, R12 elements left.
#define SCORES(LOAD16, size) \
	MOVQ dst_base+0(FP), DI;  \
	MOVQ stride+24(FP), R9;   \
	MOVQ q_base+32(FP), DX;   \
	MOVQ q_len+40(FP), R10;   \
	MOVQ k_base+56(FP), SI;   \
	MOVQ step+80(FP), R8;     \
	MOVQ blocks+88(FP), R11;  \
	SHLQ $2, R9;              \
	SHRQ $3, R10;             \
	SUBQ $2, R11;             \
	JLT  last;                \
two: \
	MOVQ SI, AX;              \
	LEAQ (SI)(R8*1), BX;      \
	MOVQ DX, CX;              \
	MOVQ R10, R12;            \
	ZERO8(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7); \
	ZERO8(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15); \
elem2: \
	PREFETCHT0 8192(AX);      \
	PREFETCHT0 8192(BX);      \
	LOAD16((AX), Z16);        \
	LOAD16((BX), Z17);        \
	QUERY2((CX), Z18, Z0, Z8);     \
	QUERY2(4(CX), Z19, Z1, Z9);    \
	QUERY2(8(CX), Z20, Z2, Z10);   \
	QUERY2(12(CX), Z21, Z3, Z11);  \
	QUERY2(16(CX), Z22, Z4, Z12);  \
	QUERY2(20(CX), Z23, Z5, Z13);  \
	QUERY2(24(CX), Z24, Z6, Z14);  \
	QUERY2(28(CX), Z25, Z7, Z15);  \
	ADDQ $(16*size), AX;      \
	ADDQ $(16*size), BX;      \
	ADDQ $32, CX;             \
	DECQ R12;                 \
	JNZ  elem2;               \
	MOVQ DI, AX;              \
	EACH2(TO2, AX);           \
	LEAQ (SI)(R8*2), SI;      \
	ADDQ $128, DI;            \
	SUBQ $2, R11;             \
	JGE  two;                 \
last: \
	ADDQ $2, R11;             \
	JZ   done;                \
	MOVQ DX, CX;              \
	ZERO8(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7); \
elem1: \
	LOAD16((SI), Z16);        \
	QUERY1((CX), Z18, Z0);    \
	QUERY1(4(CX), Z19, Z1);   \
	QUERY1(8(CX), Z20, Z2);   \
	QUERY1(12(CX), Z21, Z3);  \
	QUERY1(16(CX), Z22, Z4);  \
	QUERY1(20(CX), Z23, Z5);  \
	QUERY1(24(CX), Z24, Z6);  \
	QUERY1(28(CX), Z25, Z7);  \
	ADDQ $(16*size), SI;      \
	ADDQ $32, CX;             \
	DECQ R10;                 \
	JNZ  elem1;               \
	EACH2(TO1, DI);           \
done: \
	VZEROUPPER;               \
	RET

// Where the next weights lie in the eight rows of p.
#define PLACES \
	MOVQ DX, CX;            \
	LEAQ (R10)(R10*2), R13; \
	LEAQ (CX)(R13*1), R14;  \
	LEAQ (R14)(R13*1), R15; \
	MOVQ R12, R13;          \
	MOVQ SI, AX;            \
	MOVQ DI, BX
#define NEXT \
	ADDQ R8, AX;  \
	ADDQ $4, CX;  \
	ADDQ $4, R14; \
	ADDQ $4, R15; \
	DECQ R13

// Y0-Y7 and eight rows, as EACH2.
#define TO8(R, A, B) VMOVUPS A, (R)
#define OF8(R, A, B) VMOVUPS (R), A
#define EACH8(OP, R) \
	OP(R, Y0, _); \
	ADDQ R9, R;   \
	OP(R, Y1, _); \
	ADDQ R9, R;   \
	OP(R, Y2, _); \
	ADDQ R9, R;   \
	OP(R, Y3, _); \
	ADDQ R9, R;   \
	OP(R, Y4, _); \
	ADDQ R9, R;   \
	OP(R, Y5, _); \
	ADDQ R9, R;   \
	OP(R, Y6, _); \
	ADDQ R9, R;   \
	OP(R, Y7, _)

// mix(acc, p []float32, stride, n int, v []byte, step int): columns by 32 and by 8, over all values each. DI acc, R9
// bytes of a row of acc, DX p, R10 stride, R12 n, SI v, R8 step, R11 columns left; inner AX v, CX, R14, R15 rows 0, 3
// and 6 of p, R13 values left, BX.
#define MIX(LOAD16, LOAD8, size) \
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
	SUBQ $32, R11;            \
	JLT  eights;              \
wide: \
	PLACES;                   \
	EACH2(OF2, BX);           \
value32: \
	PREFETCHT0 8192(AX);      \
	LOAD16((AX), Z16);        \
	LOAD16((16*size)(AX), Z17); \
	QUERY2((CX), Z18, Z0, Z8);          \
	QUERY2((CX)(R10*1), Z19, Z1, Z9);   \
	QUERY2((CX)(R10*2), Z20, Z2, Z10);  \
	QUERY2((R14), Z21, Z3, Z11);        \
	QUERY2((R14)(R10*1), Z22, Z4, Z12); \
	QUERY2((R14)(R10*2), Z23, Z5, Z13); \
	QUERY2((R15), Z24, Z6, Z14);        \
	QUERY2((R14)(R10*4), Z25, Z7, Z15); \
	NEXT;                     \
	JNZ  value32;             \
	MOVQ DI, BX;              \
	EACH2(TO2, BX);           \
	ADDQ $(32*size), SI;      \
	ADDQ $128, DI;            \
	SUBQ $32, R11;            \
	JGE  wide;                \
eights: \
	ADDQ $32, R11;            \
	JZ   done;                \
cols: \
	PLACES;                   \
	EACH8(OF8, BX);           \
value8: \
	LOAD8((AX), Y16);         \
	VFMADD231PS.BCST (CX), Y16, Y0;         \
	VFMADD231PS.BCST (CX)(R10*1), Y16, Y1;  \
	VFMADD231PS.BCST (CX)(R10*2), Y16, Y2;  \
	VFMADD231PS.BCST (R14), Y16, Y3;        \
	VFMADD231PS.BCST (R14)(R10*1), Y16, Y4; \
	VFMADD231PS.BCST (R14)(R10*2), Y16, Y5; \
	VFMADD231PS.BCST (R15), Y16, Y6;        \
	VFMADD231PS.BCST (R14)(R10*4), Y16, Y7; \
	NEXT;                     \
	JNZ  value8;              \
	MOVQ DI, BX;              \
	EACH8(TO8, BX);           \
	ADDQ $(8*size), SI;       \
	ADDQ $32, DI;             \
	SUBQ $8, R11;             \
	JNZ  cols;                \
done: \
	VZEROUPPER;               \
	RET

// For two queries, Z20 and Z21 times the elements in Z16-Z19.
#define PAIR4 \
	VFMADD231PS Z16, Z20, Z0; \
	VFMADD231PS Z17, Z20, Z1; \
	VFMADD231PS Z18, Z20, Z2; \
	VFMADD231PS Z19, Z20, Z3; \
	VFMADD231PS Z16, Z21, Z4; \
	VFMADD231PS Z17, Z21, Z5; \
	VFMADD231PS Z18, Z21, Z6; \
	VFMADD231PS Z19, Z21, Z7
// Z0-Z3 and Z4-Z7, and the rows at DI and R.
#define PAIR_TO(R) \
	VMOVUPS Z0, (DI);    \
	VMOVUPS Z1, 64(DI);  \
	VMOVUPS Z2, 128(DI); \
	VMOVUPS Z3, 192(DI); \
	VMOVUPS Z4, (R);     \
	VMOVUPS Z5, 64(R);   \
	VMOVUPS Z6, 128(R);  \
	VMOVUPS Z7, 192(R)
#define PAIR_OF(R) \
	VMOVUPS (DI), Z0;    \
	VMOVUPS 64(DI), Z1;  \
	VMOVUPS 128(DI), Z2; \
	VMOVUPS 192(DI), Z3; \
	VMOVUPS (R), Z4;     \
	VMOVUPS 64(R), Z5;   \
	VMOVUPS 128(R), Z6;  \
	VMOVUPS 192(R), Z7

// pairMix(acc, p []float32, stride, n int, v []byte, step int): 64 columns at a time, over all values each. DI acc, R9
// bytes of a row of acc, DX p, R10 stride, R12 n, SI v, R8 step, R11 columns left; inner AX v, CX p, R13 values left,
// BX the second row.
#define PAIR_MIX(LOAD16, size) \
	MOVQ acc_base+0(FP), DI;    \
	MOVQ acc_len+8(FP), R11;    \
	MOVQ p_base+24(FP), DX;     \
	MOVQ stride+48(FP), R10;    \
	MOVQ n+56(FP), R12;         \
	MOVQ v_base+64(FP), SI;     \
	MOVQ step+88(FP), R8;       \
	SHRQ $3, R11;               \
	LEAQ (R11*4), R9;           \
	SHLQ $2, R10;               \
cols: \
	MOVQ SI, AX;                \
	MOVQ DX, CX;                \
	MOVQ R12, R13;              \
	LEAQ (DI)(R9*1), BX;        \
	PAIR_OF(BX);                \
value: \
	PREFETCHT0 8192(AX);        \
	PREFETCHT0 8256(AX);        \
	LOAD16((AX), Z16);          \
	LOAD16((16*size)(AX), Z17); \
	LOAD16((32*size)(AX), Z18); \
	LOAD16((48*size)(AX), Z19); \
	VBROADCASTSS (CX), Z20;     \
	VBROADCASTSS (CX)(R10*1), Z21; \
	PAIR4;                      \
	ADDQ R8, AX;                \
	ADDQ $4, CX;                \
	DECQ R13;                   \
	JNZ  value;                 \
	PAIR_TO(BX);                \
	ADDQ $(64*size), SI;        \
	ADDQ $256, DI;              \
	SUBQ $64, R11;              \
	JNZ  cols;                  \
	VZEROUPPER;                 \
	RET

// func scoresF16AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)
TEXT ·scoresF16AVX512(SB), NOSPLIT, $0-96
	SCORES(LOAD16_F16, 2)

// func scoresF32AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)
TEXT ·scoresF32AVX512(SB), NOSPLIT, $0-96
	SCORES(LOAD16_F32, 4)

// func mixF16AVX512(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·mixF16AVX512(SB), NOSPLIT, $0-96
	MIX(LOAD16_F16, LOAD8_F16, 2)

// func mixF32AVX512(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·mixF32AVX512(SB), NOSPLIT, $0-96
	MIX(LOAD16_F32, LOAD8_F32, 4)

// func pairScoresF16AVX512(dst []float32, stride int, q []float32, k []byte, step, blocks int)
// Four blocks of keys at a time, then one. DI dst, R9 stride, DX q, R10 Dh, SI k, R8 step, R13 three of them,
// R11 blocks left; inner AX k, BX the blocks after these, CX q, R12 elements left.
TEXT ·pairScoresF16AVX512(SB), NOSPLIT, $0-96
	MOVQ dst_base+0(FP), DI
	MOVQ stride+24(FP), R9
	MOVQ q_base+32(FP), DX
	MOVQ q_len+40(FP), R10
	MOVQ k_base+56(FP), SI
	MOVQ step+80(FP), R8
	MOVQ blocks+88(FP), R11
	SHLQ $2, R9
	SHRQ $3, R10
	LEAQ (R8)(R8*2), R13
	SUBQ $4, R11
	JLT  last
four:
	MOVQ SI, AX
	LEAQ (SI)(R8*4), BX
	MOVQ DX, CX
	MOVQ R10, R12
	ZERO8(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7)
elem4:
	PREFETCHT0 (BX)
	PREFETCHT0 (BX)(R8*1)
	PREFETCHT0 (BX)(R8*2)
	PREFETCHT0 (BX)(R13*1)
	LOAD16_F16((AX), Z16)
	LOAD16_F16((AX)(R8*1), Z17)
	LOAD16_F16((AX)(R8*2), Z18)
	LOAD16_F16((AX)(R13*1), Z19)
	VBROADCASTSS (CX), Z20
	VBROADCASTSS 4(CX), Z21
	PAIR4
	ADDQ $32, AX
	ADDQ $32, BX
	ADDQ $32, CX
	DECQ R12
	JNZ  elem4
	LEAQ (DI)(R9*1), AX
	PAIR_TO(AX)
	LEAQ (SI)(R8*4), SI
	ADDQ $256, DI
	SUBQ $4, R11
	JGE  four
last:
	ADDQ $4, R11
	JZ   done
one:
	MOVQ SI, AX
	MOVQ DX, CX
	MOVQ R10, R12
	VPXORD Z0, Z0, Z0
	VPXORD Z4, Z4, Z4
elem1:
	LOAD16_F16((AX), Z16)
	QUERY1((CX), Z20, Z0)
	QUERY1(4(CX), Z21, Z4)
	ADDQ $32, AX
	ADDQ $32, CX
	DECQ R12
	JNZ  elem1
	VMOVUPS Z0, (DI)
	VMOVUPS Z4, (DI)(R9*1)
	ADDQ R8, SI
	ADDQ $64, DI
	DECQ R11
	JNZ  one
done:
	VZEROUPPER
	RET

// func pairMixF16AVX512(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·pairMixF16AVX512(SB), NOSPLIT, $0-96
	PAIR_MIX(LOAD16_F16, 2)

// func pairMixF32AVX512(acc, p []float32, stride, n int, v []byte, step int)
TEXT ·pairMixF32AVX512(SB), NOSPLIT, $0-96
	PAIR_MIX(LOAD16_F32, 4)
