//go:build !noasm

#include "textflag.h"
#include "tile_amd64.h"

// Eight rows of weights, one to a lane of 32 bits: eight registers hold 32 columns of them, four to a register, which meet the same
// four activations in every lane.

#define WORDS(imm, X, Y) MOVL imm, R13; VMOVD R13, X; VPBROADCASTD X, Y

// Y0-Y7 = the magnitudes of the weights; their signs stay in the panel.
#define LOAD_SIGNED \
	VPABSB (SI), Y0;    \
	VPABSB 32(SI), Y1;  \
	VPABSB 64(SI), Y2;  \
	VPABSB 96(SI), Y3;  \
	VPABSB 128(SI), Y4; \
	VPABSB 160(SI), Y5; \
	VPABSB 192(SI), Y6; \
	VPABSB 224(SI), Y7

// Y0-Y7 = weights of at most six bits, plus 32 so that none is negative.
#define LOAD_SMALL \
	VPADDB (SI), Y15, Y0;    \
	VPADDB 32(SI), Y15, Y1;  \
	VPADDB 64(SI), Y15, Y2;  \
	VPADDB 96(SI), Y15, Y3;  \
	VPADDB 128(SI), Y15, Y4; \
	VPADDB 160(SI), Y15, Y5; \
	VPADDB 192(SI), Y15, Y6; \
	VPADDB 224(SI), Y15, Y7

// Y0-Y7 = weights of at most five bits that are never negative.
#define LOAD_K \
	VMOVDQU (SI), Y0;    \
	VMOVDQU 32(SI), Y1;  \
	VMOVDQU 64(SI), Y2;  \
	VMOVDQU 96(SI), Y3;  \
	VMOVDQU 128(SI), Y4; \
	VMOVDQU 160(SI), Y5; \
	VMOVDQU 192(SI), Y6; \
	VMOVDQU 224(SI), Y7

// Y8 += products of columns 4i to 4i+3: magnitudes with activations that take the signs. Y14 ones.
#define SIGNED(i, W) \
	VPBROADCASTD (4*i)(R13), Y9;  \
	VPSIGNB      (32*i)(SI), Y9, Y9; \
	VPMADDUBSW   Y9, W, Y9;       \
	VPMADDWD     Y14, Y9, Y9;     \
	VPADDD       Y9, Y8, Y8

// A += products of columns 4i to 4i+7: four products of 63 and 127 fit in 16 bits.
#define SMALL(i, V, W, A) \
	VPBROADCASTD (4*i)(R13), Y9;    \
	VPBROADCASTD (4*i+4)(R13), Y10; \
	VPMADDUBSW   Y9, V, Y9;         \
	VPMADDUBSW   Y10, W, Y10;       \
	VPADDW       Y10, Y9, Y9;       \
	VPMADDWD     Y14, Y9, Y9;       \
	VPADDD       Y9, A, A

// Adds the integers A times the scales at D, times d, to Y11.
#define SCALED(A, D) \
	VCVTDQ2PS    A, A;            \
	VBROADCASTSS (R14), Y9;       \
	VMULPS       D, Y9, Y9;       \
	VFMADD231PS  A, Y9, Y11

// A row of activations. Y13, Y12 words of -32: for both halves, or for the first and the second.
#define ROW_SIGNED \
	VPXOR Y8, Y8, Y8; \
	SIGNED(0, Y0);    \
	SIGNED(1, Y1);    \
	SIGNED(2, Y2);    \
	SIGNED(3, Y3);    \
	SIGNED(4, Y4);    \
	SIGNED(5, Y5);    \
	SIGNED(6, Y6);    \
	SIGNED(7, Y7);    \
	VMOVUPS (R12), Y11; \
	SCALED(Y8, (AX)); \
	VMOVUPS Y11, (R12)
#define ROW_SMALL \
	VPBROADCASTD (R14)(R15*1), Y8; \
	VPMADDWD Y13, Y8, Y8;  \
	SMALL(0, Y0, Y1, Y8);  \
	SMALL(2, Y2, Y3, Y8);  \
	SMALL(4, Y4, Y5, Y8);  \
	SMALL(6, Y6, Y7, Y8);  \
	VMOVUPS (R12), Y11;    \
	SCALED(Y8, (AX));      \
	VMOVUPS Y11, (R12)
#define ROW_K \
	VPXOR Y8, Y8, Y8;      \
	SMALL(0, Y0, Y1, Y8);  \
	SMALL(2, Y2, Y3, Y8);  \
	SMALL(4, Y4, Y5, Y8);  \
	SMALL(6, Y6, Y7, Y8);  \
	VMOVUPS (R12), Y11;    \
	SCALED(Y8, (AX));      \
	VBROADCASTSS (R14)(R15*1), Y9; \
	VFNMADD231PS (BX), Y9, Y11;    \
	VMOVUPS Y11, (R12)
#define ROW_6 \
	VPBROADCASTD (R14)(R15*1), Y9; \
	VPMADDWD Y13, Y9, Y8;  \
	VPMADDWD Y12, Y9, Y11; \
	SMALL(0, Y0, Y1, Y8);  \
	SMALL(2, Y2, Y3, Y8);  \
	SMALL(4, Y4, Y5, Y11); \
	SMALL(6, Y6, Y7, Y11); \
	VMOVDQA Y11, Y10;      \
	VMOVUPS (R12), Y11;    \
	SCALED(Y8, (AX));      \
	SCALED(Y10, 32(AX));   \
	VMOVUPS Y11, (R12)

// func tileQ8_0AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileQ8_0AVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	WORDS($0x00010001, X14, Y14)
	TILE(LOAD_SIGNED, ROW_SIGNED, 256, 64, 32)

// func tile32AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tile32AVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	TILE_OFFSETS
	WORDS($0x20202020, X15, Y15)
	WORDS($0x00010001, X14, Y14)
	WORDS($0xffe0ffe0, X13, Y13)
	TILE(LOAD_SMALL, ROW_SMALL, 256, 64, 32)

// func tileKAVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tileKAVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	WORDS($0x00010001, X14, Y14)
	TILE(LOAD_K, ROW_K, 256, 64, 32)

// func tile6AVX2(acc []float32, w []int8, ds, mins []float32, q []int8, d, s []float32, h []int16, rows, n int, ahead []byte)
TEXT ·tile6AVX2(SB), NOSPLIT, $24-232
	TILE_ARGS(3)
	TILE_OFFSETS
	WORDS($0x20202020, X15, Y15)
	WORDS($0x00010001, X14, Y14)
	WORDS($0x0000ffe0, X13, Y13)
	WORDS($0xffe00000, X12, Y12)
	TILE(LOAD_SMALL, ROW_6, 256, 64, 32)

// func interleave8(dst, src []uint32, stride, cols int)
// Four columns at a time: in each half of Y0-Y3 four rows, which are transposed. SI, AX, BX, CX rows 0-3 of src, R10 four rows in bytes,
// R8 columns left.
TEXT ·interleave8(SB), NOSPLIT, $0-64
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ stride+48(FP), R9
	MOVQ cols+56(FP), R8
	SHLQ $2, R9
	LEAQ (SI)(R9*1), AX
	LEAQ (AX)(R9*1), BX
	LEAQ (BX)(R9*1), CX
	LEAQ (R9*4), R10
four:
	VMOVDQU (SI), X0
	VMOVDQU (AX), X1
	VMOVDQU (BX), X2
	VMOVDQU (CX), X3
	VINSERTI128 $1, (SI)(R10*1), Y0, Y0
	VINSERTI128 $1, (AX)(R10*1), Y1, Y1
	VINSERTI128 $1, (BX)(R10*1), Y2, Y2
	VINSERTI128 $1, (CX)(R10*1), Y3, Y3
	VPUNPCKLDQ Y1, Y0, Y4
	VPUNPCKHDQ Y1, Y0, Y5
	VPUNPCKLDQ Y3, Y2, Y6
	VPUNPCKHDQ Y3, Y2, Y7
	VPUNPCKLQDQ Y6, Y4, Y0
	VPUNPCKHQDQ Y6, Y4, Y1
	VPUNPCKLQDQ Y7, Y5, Y2
	VPUNPCKHQDQ Y7, Y5, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $16, SI
	ADDQ $16, AX
	ADDQ $16, BX
	ADDQ $16, CX
	ADDQ $128, DI
	SUBQ $4, R8
	JGT  four
	VZEROUPPER
	RET

// func foldAVX2(out, acc []float32)
// DI out, R8 elements left, SI acc, R9, R10 a lane and three lanes in bytes, AX the fifth lane if there are eight.
TEXT ·foldAVX2(SB), NOSPLIT, $0-48
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
