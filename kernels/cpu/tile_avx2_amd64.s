//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "tile_amd64.h"

#define DS (AX)
#define DS2 32(AX)
#define MINS (BX)
#include "products_avx2_amd64.h"

// Eight weight rows, one to a lane of 32 bits: eight registers hold 32 columns of them, four to a register, which are
// multiplied with the same four activations in every lane.

// Weights of Q8_0: those of the first half of a block are multiplied with all tokens, what they give waits on the stack
// for those of the second: 512 bytes for sixteen rows. BX is free, as there are no minima.
#define WAITING(R) \
	LEAQ 63(SP), R; \
	ANDQ $-32, R
#define LOAD_Q8_0 \
	VMOVDQU (SI), Y4;     \
	VMOVDQU 32(SI), Y5;   \
	VMOVDQU 64(SI), Y6;   \
	VMOVDQU 96(SI), Y7;   \
	MAGNITUDES;           \
	MOVQ R12, BX;         \
	WAITING(R12);         \
	PAIRS(Q8_0_FIRST_1, Q8_0_FIRST_2, firsttwo, firstone, firstend) \
	MOVQ BX, R12;         \
	WAITING(BX);          \
	VMOVDQU 128(SI), Y4;  \
	VMOVDQU 160(SI), Y5;  \
	VMOVDQU 192(SI), Y6;  \
	VMOVDQU 224(SI), Y7;  \
	MAGNITUDES

// Y0-Y7 = weights plus the bytes at bias, so that none is negative.
#define LOAD_SMALL(bias) \
	VPBROADCASTD bias, Y8;  \
	VPADDB (SI), Y8, Y0;    \
	VPADDB 32(SI), Y8, Y1;  \
	VPADDB 64(SI), Y8, Y2;  \
	VPADDB 96(SI), Y8, Y3;  \
	VPADDB 128(SI), Y8, Y4; \
	VPADDB 160(SI), Y8, Y5; \
	VPADDB 192(SI), Y8, Y6; \
	VPADDB 224(SI), Y8, Y7
#define LOAD_Q4_0 LOAD_SMALL(biases<>+0(SB))
#define LOAD_Q5_0 LOAD_SMALL(biases<>+4(SB))
#define LOAD_Q6_K LOAD_SMALL(biases<>+8(SB))

DATA biases<>+0(SB)/4, $0x08080808
DATA biases<>+4(SB)/4, $0x10101010
DATA biases<>+8(SB)/4, $0x20202020
GLOBL biases<>(SB), RODATA|NOPTR, $12

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

// func tileQ8_0AVX2(a *tileArgs)
TEXT ·tileQ8_0AVX2(SB), 0, $584-8
	TILE_ARGS(3)
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_Q8_0, Q8_0_1, Q8_0_2)

// func tileQ4_0AVX2(a *tileArgs)
TEXT ·tileQ4_0AVX2(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	TILE_OFFSETS
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	WORDS($0xfff8fff8, X15, Y15)
	TILE2(LOAD_Q4_0, Q4_0_1, Q4_0_2)

// func tileQ5_0AVX2(a *tileArgs)
TEXT ·tileQ5_0AVX2(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	TILE_OFFSETS
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	WORDS($0xfff0fff0, X15, Y15)
	TILE2(LOAD_Q5_0, Q5_0_1, Q5_0_2)

// func tileQ4_KAVX2(a *tileArgs)
TEXT ·tileQ4_KAVX2(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_K, Q4_K_1, Q4_K_2)

// func tileQ5_KAVX2(a *tileArgs)
TEXT ·tileQ5_KAVX2(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_K, Q5_K_1, Q5_K_2)

// func tileQ6_KAVX2(a *tileArgs)
TEXT ·tileQ6_KAVX2(SB), NOSPLIT, $32-8
	TILE_ARGS(3)
	TILE_OFFSETS
	LEAQ (R15)(R10*1), BP
	WORDS($0x00010001, X14, Y14)
	TILE2(LOAD_Q6_K, Q6_K_1, Q6_K_2)

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
