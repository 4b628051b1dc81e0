//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "prefetch_amd64.h"

// Sixteen elements of a type from memory to float32.
#define LOAD_F32(M, Z) VMOVUPS M, Z
#define LOAD_F16(M, Z) VCVTPH2PS M, Z
#define LOAD_BF16(M, Z) VPMOVZXWD M, Z; VPSLLD $16, Z, Z

#define ROW(X, A, B, C, D) \
	VFMADD231PS Z16, X, A; \
	VFMADD231PS Z17, X, B; \
	VFMADD231PS Z18, X, C; \
	VFMADD231PS Z19, X, D

// Steps of a horizontal sum, many registers at once. The order of additions is that of gemv, whose lanes Y0 are the
// lower half and whose lanes Y1 the upper half of a register. HALVES leaves eight lanes each of A and B, QUARTERS four
// each of four sums; PAIRS microkernels in each quarter two lanes each of two sums, LANES one each of four. Uses Z30,
// Z31.
#define HALVES(A, B, Z) \
	VSHUFF64X2 $0x44, B, A, Z30; \
	VSHUFF64X2 $0xee, B, A, Z31; \
	VADDPS     Z31, Z30, Z
#define QUARTERS(A, B, Z) \
	VSHUFF64X2 $0x88, B, A, Z30; \
	VSHUFF64X2 $0xdd, B, A, Z31; \
	VADDPS     Z31, Z30, Z
#define PAIRS(A, B, Z) \
	VUNPCKLPD B, A, Z30; \
	VUNPCKHPD B, A, Z31; \
	VADDPS    Z31, Z30, Z
#define LANES(A, B, Z) \
	VSHUFPS $0x88, B, A, Z30; \
	VSHUFPS $0xdd, B, A, Z31; \
	VADDPS  Z31, Z30, Z
#define FOUR_SUMS(A, B, C, D) \
	HALVES(A, B, A);   \
	HALVES(C, D, C);   \
	QUARTERS(A, C, A)

// Z0 = the sums of Z0-Z15.
#define SUMS \
	FOUR_SUMS(Z0, Z4, Z8, Z12);  \
	FOUR_SUMS(Z1, Z5, Z9, Z13);  \
	FOUR_SUMS(Z2, Z6, Z10, Z14); \
	FOUR_SUMS(Z3, Z7, Z11, Z15); \
	PAIRS(Z0, Z1, Z0);           \
	PAIRS(Z2, Z3, Z2);           \
	LANES(Z0, Z2, Z0)

#define ZERO4(A, B, C, D) \
	VXORPS A, A, A; \
	VXORPS B, B, B; \
	VXORPS C, C, C; \
	VXORPS D, D, D

// gemm for elements of w of size bytes: Z0-Z3 the first token of x with the
// four rows of w, and so on. SI w, R9, R10 one and three rows of it in bytes, CX x, R12, R13 the same of x, R11 bytes
// left of a token of x, R14 the next four rows of w, to be prefetched.
#define GEMM(LOAD, size) \
	MOVQ a+0(FP), AX;         \
	MOVQ floatArgs_dst(AX), DI; \
	MOVQ floatArgs_w(AX), SI; \
	MOVQ floatArgs_rowBytes(AX), R9; \
	MOVQ floatArgs_x(AX), CX; \
	MOVQ floatArgs_n(AX), R12; \
	SHLQ $2, R12;             \
	LEAQ (R9)(R9*2), R10;     \
	LEAQ (R12)(R12*2), R13;   \
	MOVQ R12, R11;            \
	LEAQ (SI)(R9*4), R14;     \
	ZERO4(X0, X1, X2, X3);     \
	ZERO4(X4, X5, X6, X7);     \
	ZERO4(X8, X9, X10, X11);   \
	ZERO4(X12, X13, X14, X15); \
sixteen: \
	LOAD((SI), Z16);          \
	LOAD((SI)(R9*1), Z17);    \
	LOAD((SI)(R9*2), Z18);    \
	LOAD((SI)(R10*1), Z19);   \
	VMOVUPS (CX), Z20;        \
	GEMMLINE((R14));         \
	ROW(Z20, Z0, Z1, Z2, Z3); \
	VMOVUPS (CX)(R12*1), Z21; \
	GEMMLINE((R14)(R9*1));   \
	ROW(Z21, Z4, Z5, Z6, Z7); \
	VMOVUPS (CX)(R12*2), Z22; \
	GEMMLINE((R14)(R9*2));   \
	ROW(Z22, Z8, Z9, Z10, Z11);   \
	VMOVUPS (CX)(R13*1), Z23; \
	GEMMLINE((R14)(R10*1));  \
	ROW(Z23, Z12, Z13, Z14, Z15); \
	ADDQ $(16*size), SI;      \
	ADDQ $(16*size), R14;     \
	ADDQ $64, CX;             \
	SUBQ $64, R11;            \
	JNZ  sixteen;             \
	SUMS;                     \
	VMOVUPS Z0, (DI);         \
	VZEROUPPER;               \
	RET

// OP of Z0-Z15 and their places from o(DX) on.
#define EACH16(OP, o) \
	OP((o+0)(DX), Z0); \
	OP((o+64)(DX), Z1); \
	OP((o+128)(DX), Z2); \
	OP((o+192)(DX), Z3); \
	OP((o+256)(DX), Z4); \
	OP((o+320)(DX), Z5); \
	OP((o+384)(DX), Z6); \
	OP((o+448)(DX), Z7); \
	OP((o+512)(DX), Z8); \
	OP((o+576)(DX), Z9); \
	OP((o+640)(DX), Z10); \
	OP((o+704)(DX), Z11); \
	OP((o+768)(DX), Z12); \
	OP((o+832)(DX), Z13); \
	OP((o+896)(DX), Z14); \
	OP((o+960)(DX), Z15)
#define TAKE(M, Z) VMOVUPS M, Z
#define KEEP(M, Z) VMOVUPS Z, M
#define CLEAR(M, Z) VMOVUPS Z0, M

// Puts the four rows of four in Z0 at TO and R11, 2·R11, 3·R11 from there; or adds them to what is there.
#define PUT(TO, set) \
	LEAQ TO, AX;                      \
	LEAQ (AX)(R11*2), BX;             \
	VEXTRACTF32X4 $1, Z0, X1;         \
	VEXTRACTF32X4 $2, Z0, X2;         \
	VEXTRACTF32X4 $3, Z0, X3;         \
	CMPB add-8(SP), $0;               \
	JEQ  set;                         \
	VADDPS (AX), X0, X0;              \
	VADDPS (AX)(R11*1), X1, X1;       \
	VADDPS (BX), X2, X2;              \
	VADDPS (BX)(R11*1), X3, X3;       \
set: \
	VMOVUPS X0, (AX);                 \
	VMOVUPS X1, (AX)(R11*1);          \
	VMOVUPS X2, (BX);                 \
	VMOVUPS X3, (BX)(R11*1)

// Adds a part of the columns, R8 bytes of x, to the sums Z0-Z15 of the four rows of w from W and of x from X; meanwhile
// it prefetches two of the rows that come next, at PREFETCH from the first of them, R14. PART goes on from the sums at
// o(DX), WHOLE puts those of all columns from TO on.
#define BLOCK(LOAD, size, W, X, PREFETCH, sixteen) \
	MOVQ a+0(FP), R14;             \
	MOVQ floatArgs_prefetch(R14), R14; \
	ADDQ SI, R14;               \
	LEAQ PREFETCH, R14;            \
	LEAQ W, AX;                 \
	LEAQ X, BX;                 \
	MOVQ R8, R11;               \
sixteen: \
	GEMMLINE((R14));           \
	GEMMLINE((R14)(R9*1));     \
	LOAD((AX), Z16);            \
	LOAD((AX)(R9*1), Z17);      \
	LOAD((AX)(R9*2), Z18);      \
	LOAD((AX)(R10*1), Z19);     \
	VMOVUPS (BX), Z20;          \
	VMOVUPS (BX)(R12*1), Z21;   \
	VMOVUPS (BX)(R12*2), Z22;   \
	VMOVUPS (BX)(R13*1), Z23;   \
	ROW(Z20, Z0, Z1, Z2, Z3);   \
	ROW(Z21, Z4, Z5, Z6, Z7);   \
	ROW(Z22, Z8, Z9, Z10, Z11); \
	ROW(Z23, Z12, Z13, Z14, Z15); \
	ADDQ $(16*size), AX;        \
	ADDQ $(16*size), R14;       \
	ADDQ $64, BX;               \
	SUBQ $64, R11;              \
	JNZ  sixteen
#define PART(LOAD, size, o, W, X, PREFETCH, sixteen) \
	EACH16(TAKE, o); \
	BLOCK(LOAD, size, W, X, PREFETCH, sixteen); \
	EACH16(KEEP, o)
#define WHOLE(LOAD, size, TO, W, X, PREFETCH, sixteen, set) \
	ZERO4(X0, X1, X2, X3);     \
	ZERO4(X4, X5, X6, X7);     \
	ZERO4(X8, X9, X10, X11);   \
	ZERO4(X12, X13, X14, X15); \
	BLOCK(LOAD, size, W, X, PREFETCH, sixteen); \
	SUMS; \
	MOVQ a+0(FP), R11; \
	MOVQ floatArgs_stride(R11), R11; \
	SHLQ $2, R11; \
	PUT(TO, set)

// gemm8: four blocks of four by four. More
// than 1024 columns are taken by parts of 512, of which eight rows of w and x stay in a first-level cache, while the
// sums wait at DX. Registers as in gemm, R15 bytes left of a token of x, R11 the stride when sums are put.
#define GEMM8(LOAD, size) \
	MOVQ a+0(FP), AX;         \
	MOVB floatArgs_add(AX), R9; \
	MOVB R9, add-8(SP);       \
	MOVQ floatArgs_dst(AX), DI; \
	MOVQ floatArgs_w(AX), SI; \
	MOVQ floatArgs_rowBytes(AX), R9; \
	MOVQ floatArgs_x(AX), CX; \
	MOVQ floatArgs_n(AX), R12; \
	SHLQ $2, R12;             \
	LEAQ (R9)(R9*2), R10;     \
	LEAQ (R12)(R12*2), R13;   \
	MOVQ R12, R15;            \
	MOVQ R12, R8;             \
	CMPQ R12, $4096;          \
	JLE  whole;               \
	LEAQ 63(SP), DX;          \
	ANDQ $-64, DX;            \
	VPXORD Z0, Z0, Z0;        \
	EACH16(CLEAR, 0);         \
	EACH16(CLEAR, 1024);      \
	EACH16(CLEAR, 2048);      \
	EACH16(CLEAR, 3072);      \
part: \
	MOVQ $2048, R8;           \
	CMPQ R15, R8;             \
	CMOVQLT R15, R8;          \
	PART(LOAD, size, 0, (SI), (CX), (R14), block0); \
	PART(LOAD, size, 1024, (SI)(R9*4), (CX), (R14)(R9*2), block1); \
	PART(LOAD, size, 2048, (SI), (CX)(R12*4), (R14)(R9*4), block2); \
	PART(LOAD, size, 3072, (SI)(R9*4), (CX)(R12*4), (R14)(R10*2), block3); \
	ADDQ R8, CX;              \
	MOVQ R8, R11;             \
	SHRQ $(4/size-1), R11;    \
	ADDQ R11, SI;             \
	SUBQ R8, R15;             \
	JNZ  part;                \
	MOVQ a+0(FP), R11;        \
	MOVQ floatArgs_stride(R11), R11; \
	SHLQ $2, R11;             \
	EACH16(TAKE, 0);          \
	SUMS;                     \
	PUT((DI), put0);          \
	EACH16(TAKE, 1024);       \
	SUMS;                     \
	PUT(16(DI), put1);        \
	EACH16(TAKE, 2048);       \
	SUMS;                     \
	PUT((DI)(R11*4), put2);   \
	EACH16(TAKE, 3072);       \
	SUMS;                     \
	PUT(16(DI)(R11*4), put3); \
	VZEROUPPER;               \
	RET;                      \
whole: \
	WHOLE(LOAD, size, (DI), (SI), (CX), (R14), whole0, set0); \
	WHOLE(LOAD, size, 16(DI), (SI)(R9*4), (CX), (R14)(R9*2), whole1, set1); \
	WHOLE(LOAD, size, (DI)(R11*4), (SI), (CX)(R12*4), (R14)(R9*4), whole2, set2); \
	WHOLE(LOAD, size, 16(DI)(R11*4), (SI)(R9*4), (CX)(R12*4), (R14)(R10*2), whole3, set3); \
	VZEROUPPER;               \
	RET

// func gemmF32AVX512(a *floatArgs)
TEXT ·gemmF32AVX512(SB), NOSPLIT, $0-8
	GEMM(LOAD_F32, 4)

// func gemmF16AVX512(a *floatArgs)
TEXT ·gemmF16AVX512(SB), NOSPLIT, $0-8
	GEMM(LOAD_F16, 2)

// func gemmBF16AVX512(a *floatArgs)
TEXT ·gemmBF16AVX512(SB), NOSPLIT, $0-8
	GEMM(LOAD_BF16, 2)

// func gemm8F32AVX512(a *floatArgs)
TEXT ·gemm8F32AVX512(SB), 0, $4168-8
	GEMM8(LOAD_F32, 4)

// func gemm8F16AVX512(a *floatArgs)
TEXT ·gemm8F16AVX512(SB), 0, $4168-8
	GEMM8(LOAD_F16, 2)

// func gemm8BF16AVX512(a *floatArgs)
TEXT ·gemm8BF16AVX512(SB), 0, $4168-8
	GEMM8(LOAD_BF16, 2)
