//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avxvnni_amd64.h"

// Products of bytes, summed by fours: the high nibbles as they lie, sixteen times as much.
#define START(b) \
	VPBROADCASTD (4*b)(SP), Y10; \
	VPXOR        Y11, Y11, Y11
#define LOW(W, w, Q) \
	VPAND        Y15, W, Y8;  \
	VPBROADCASTD Q, Y9;       \
	DPBUSD(9, 8, 10)
#define LOW_FIRST(W, w, Q) LOW(W, w, Q)
#define HIGH(W, w, Q) \
	VPANDN       W, Y15, W;   \
	VPBROADCASTD Q, Y9;       \
	DPBUSD(9, w, 11)
#define HIGH_FIRST(W, w, Q) HIGH(W, w, Q)
#define END(b) \
	VPSRAD $4, Y11, Y11;   \
	VPADDD Y11, Y10, Y10

#include "sum_amd64.h"
#include "gemv8_amd64.h"

// func gemv8Q4_0AVXVNNI(a *gemmArgs)
TEXT ·gemv8Q4_0AVXVNNI(SB), NOSPLIT, $16-8
	GEMV8_Q4_0

// gemv8 for Q4_K. Block b of 32 goes to accumulator b mod 8: (32·l)(SP) sums of lane l from lane 4 on. Scale and
// minimum of block k wait at (256+32·k)(SP) and (512+32·k)(SP).

// Y10 and Y11 get the products of the low nibbles of four dwords with activations at (o)(DX), of the high ones 32
// columns on.
#define DOT_K(o, line) \
	LOW(Y4, 4, (o)(DX)(R15*8));      \
	HIGH(Y4, 4, (o+32)(DX)(R15*8));  \
	LOW(Y5, 5, (o+4)(DX)(R15*8));    \
	HIGH(Y5, 5, (o+36)(DX)(R15*8));  \
	LINE(line);                      \
	LOW(Y6, 6, (o+8)(DX)(R15*8));    \
	HIGH(Y6, 6, (o+40)(DX)(R15*8));  \
	LOW(Y7, 7, (o+12)(DX)(R15*8));   \
	HIGH(Y7, 7, (o+44)(DX)(R15*8));  \
	LINE(line+1)

// Adds the integers P of block k times its scale, times d, to A, and subtracts its minimum.
#define ADD_K(k, P, A) \
	VCVTDQ2PS    P, P;                      \
	VBROADCASTSS (4*(k))(CX)(R15*1), Y9;    \
	VMULPS       (256+32*(k))(SP), Y9, Y9;  \
	VFMADD231PS  P, Y9, A;                  \
	VBROADCASTSS (4*(k))(AX)(R15*1), Y9;    \
	VFNMADD231PS (512+32*(k))(SP), Y9, A

// Y10 and Y11 = the integers of blocks 2j and 2j+1 of Q4_K.
#define DOTS_K(j) \
	TRANSPOSE_HIGH(16+32*j, Y13);  \
	VPXOR  Y10, Y10, Y10;     \
	VPXOR  Y11, Y11, Y11;     \
	DOT_K(64*j, 2+4*j);       \
	TRANSPOSE_HIGH(32+32*j, Y13);  \
	DOT_K(64*j+16, 4+4*j);    \
	VPSRAD $4, Y11, Y11

// ADD_K to the sums of a lane on the stack.
#define ADD_LATER(k, P) \
	VMOVUPS (32*(k))(SP), Y12;   \
	ADD_K(k, P, Y12);            \
	VMOVUPS Y12, (32*(k))(SP)

// func gemv8Q4_KAVXVNNI(a *gemmArgs)
TEXT ·gemv8Q4_KAVXVNNI(SB), 0, $768-8
	GEMV8_ARGS(144, 8)
	MOVQ a+0(FP), AX
	MOVQ gemmArgs_s(AX), AX
outputs8:
	GEMV8_BEGIN
	VMOVUPS Y0, 128(SP)
	VMOVUPS Y0, 160(SP)
	VMOVUPS Y0, 192(SP)
	VMOVUPS Y0, 224(SP)
blk:
	SCALES_K(256, 512, SP)
	DOTS_K(0)
	ADD_K(0, Y10, Y0)
	ADD_K(1, Y11, Y1)
	DOTS_K(1)
	ADD_K(2, Y10, Y2)
	ADD_K(3, Y11, Y3)
	DOTS_K(2)
	ADD_LATER(4, Y10)
	ADD_LATER(5, Y11)
	DOTS_K(3)
	ADD_LATER(6, Y10)
	ADD_LATER(7, Y11)
	GEMV8_MOVE(144, 32, blk)
	VADDPS 128(SP), Y0, Y0
	VADDPS 160(SP), Y1, Y1
	VADDPS 192(SP), Y2, Y2
	VADDPS 224(SP), Y3, Y3
	GEMV8_END(outputs8)
