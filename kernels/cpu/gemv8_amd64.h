// gemv8: eight weight rows for one token. The file that includes this one defines, for four registers of weights one
// after the other, register W, number w, and an address Q of four activations,
//   START(b)                            begins the sums of block b of four, whose offset is at (4·b)(SP)
//   LOW_FIRST(W, w, Q), LOW(W, w, Q)    add the products of the low nibbles of W
//   HIGH_FIRST(W, w, Q), HIGH(W, w, Q)  add those of the high ones, and spoil W
//   END(b)                              Y10 = the sums in 32 bits
// on Y8 to Y11.
//
// Arguments of gemv8, tokens being 1: R12 dst, R10 end of w, DX q, CX d, AX h or s, R15 place in d, h and s in bytes (q
// is eight times as far), R9 its end; the others as in unpack8_amd64.h. Y0-Y3 sums of lanes 0 to 3; Y4-Y7 weights;
// Y8-Y13 for anything; Y15 low nibbles. Types with blocks of 32 come by fours: X13 scales, Y14 words of the offset.
#include "unpack8_amd64.h"

#define GEMV8_ARGS(size, log) \
	UNPACK8_PLACES(size, log);        \
	MOVQ gemmArgs_dst(AX), R12;    \
	MOVQ gemmArgs_wBytes(AX), R10; \
	ADDQ SI, R10;                  \
	MOVQ gemmArgs_q(AX), DX;       \
	MOVQ gemmArgs_d(AX), CX;       \
	SHRQ $3, R9;                   \
	SPLAT($0x0f0f0f0f, X15, Y15)

// Begins eight rows.
#define GEMV8_BEGIN \
	LEAQ   (SI)(DI*1), BX; \
	XORL   R15, R15;       \
	VXORPS Y0, Y0, Y0;     \
	VXORPS Y1, Y1, Y1;     \
	VXORPS Y2, Y2, Y2;     \
	VXORPS Y3, Y3, Y3

// Moves on by size bytes of each row, which are step bytes of a row of d; to more if there are any.
#define GEMV8_MOVE(size, step, more) \
	ADDQ $(8*(size)), R14;  \
	ADDQ $(size), SI;       \
	ADDQ $(size), BX;       \
	ADDQ $step, R15;        \
	CMPQ R15, R9;           \
	JLT  more

// Puts the sums, which are (Y0+Y2) + (Y1+Y3), and moves on by eight rows; to outputs8 if there are any, else returns.
#define GEMV8_END(outputs8) \
	VADDPS  Y2, Y0, Y0;     \
	VADDPS  Y3, Y1, Y1;     \
	VADDPS  Y1, Y0, Y0;     \
	VMOVUPS Y0, (R12);      \
	ADDQ    $32, R12;       \
	LEAQ    (BX)(R8*2), SI; \
	CMPQ    SI, R10;        \
	JLT     outputs8;            \
	VZEROUPPER;             \
	RET

// Adds the products of the nibbles of block b.
#define GEMV8_DOT(b) \
	LOW_FIRST(Y4, 4, (32*b)(DX)(R15*8));      \
	HIGH_FIRST(Y4, 4, (32*b+16)(DX)(R15*8));  \
	LOW(Y5, 5, (32*b+4)(DX)(R15*8));          \
	HIGH(Y5, 5, (32*b+20)(DX)(R15*8));        \
	LOW(Y6, 6, (32*b+8)(DX)(R15*8));          \
	HIGH(Y6, 6, (32*b+24)(DX)(R15*8));        \
	LOW(Y7, 7, (32*b+12)(DX)(R15*8));         \
	HIGH(Y7, 7, (32*b+28)(DX)(R15*8))

// Block b of four of Q4_0, to be added to A.
#define Q4_0_GEMV8(b, A) \
	EIGHT_SCALES(18*b);                 \
	LINE(2*b);                          \
	TRANSPOSE_HIGH(18*b+2, Y10);             \
	START(b);                           \
	GEMV8_DOT(b);                         \
	LINE(2*b+1);                        \
	END(b);                             \
	VCVTDQ2PS    Y10, Y10;              \
	VCVTPH2PS    X13, Y13;              \
	VBROADCASTSS (4*b)(CX)(R15*1), Y9;  \
	VMULPS       Y9, Y13, Y13;          \
	VFMADD231PS  Y10, Y13, A

#define GEMV8_Q4_0 \
	GEMV8_ARGS(18, 5);                \
	SPLAT($0xfff8fff8, X14, Y14);   \
	MOVQ a+0(FP), AX;               \
	MOVQ gemmArgs_h(AX), AX;        \
outputs8: \
	GEMV8_BEGIN;                      \
four: \
	VPMADDWD (AX)(R15*1), X14, X4;  \ // the offsets of four blocks
	VMOVDQU  X4, 0(SP);             \
	Q4_0_GEMV8(0, Y0);                \
	Q4_0_GEMV8(1, Y1);                \
	LINE(8);                        \
	Q4_0_GEMV8(2, Y2);                \
	Q4_0_GEMV8(3, Y3);                \
	GEMV8_MOVE(4*18, 16, four);       \
	GEMV8_END(outputs8)
