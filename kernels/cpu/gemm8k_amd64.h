// gemm8 for the types with blocks of 256, which are eight blocks of 32: see gemm8_amd64.h. On the stack from AX on:
// weights as they lie at 64 and 320, high bits at 576, scales of the blocks at 832, minima at 1088 (scales of half
// blocks from 832 on in Q6_K), sums at 1344.
#include "gemm8_amd64.h"

// gemm8: HEADS sets the scales at 832 and what follows, BLOCKS takes all eight blocks, rest bytes of a row lead from
// where it stops to the next ones.
#define GEMM8K(HEADS, BLOCKS, size, offsets, rest) \
	GEMM8_ARGS(size, 8, offsets, 8, 1344); \
outputs8: \
	GEMM8_BEGIN(8, 1344);      \
blk: \
	MOVQ    8(SP), R14;       \
	HEADS;                    \
	MOVQ    R14, 8(SP);       \
	MOVQ    $0, 32(SP);       \
	BLOCKS                    \
	LEAQ    1344(AX), R12;    \
	GEMM8_NEXT(rest, blk);     \
	MOVQ    0(SP), R13;       \
	SUBQ    R12, R13;         \
	SHRQ    $1, R13;          \
	ADDQ    R12, R13;         \ // the fifth lane
	MOVQ    R13, R14;         \
sums: \
	VMOVUPS (R12), Y0;        \
	VADDPS  (R13), Y0, Y0;    \
	VMOVUPS Y0, (R12);        \
	ADDQ    $32, R12;         \
	ADDQ    $32, R13;         \
	CMPQ    R12, R14;         \
	JLT     sums;             \
	LEAQ    1344(AX), R12;    \
	GEMM8_END(outputs8)

// Y0-Y7 = the 32 bytes at o of the eight rows; takes four lines.
#define TRANSPOSE32(o) \
	MOVQ 8(SP), R14;     \
	TRANSPOSE_LOW(o, Y10);    \
	LINE(0);             \
	LINE(1);             \
	TRANSPOSE_HIGH(o+16, Y10); \
	LINE(2);             \
	LINE(3);             \
	ADDQ $256, R14;      \
	MOVQ R14, 8(SP)

// For EACH: nibbles, by Y12, and Y |= the bits Y13 of what is at A, moved to the left or the right.
#define LOWS(A, Y) VPAND Y12, Y, Y
#define HIGHS(A, Y) \
	VPSRLW $4, Y, Y; \
	VPAND  Y12, Y, Y
#define NO_BITS(A, Y)
#define BITS(A, Y) \
	VPAND A, Y13, Y8;  \
	VPOR  Y8, Y, Y
#define MOVED_BITS(SHIFT, n, A, Y) \
	VMOVDQU A, Y8;       \
	SHIFT   $n, Y8, Y8;  \
	VPAND   Y13, Y8, Y8; \
	VPOR    Y8, Y, Y
#define BITS_LEFT4(A, Y) MOVED_BITS(VPSLLW, 4, A, Y)
#define BITS_LEFT3(A, Y) MOVED_BITS(VPSLLW, 3, A, Y)
#define BITS_LEFT2(A, Y) MOVED_BITS(VPSLLW, 2, A, Y)
#define BITS_RIGHT2(A, Y) MOVED_BITS(VPSRLW, 2, A, Y)

// A block of 32: of Y0-Y7 those nibbles, and of what is at 576 those bits. Its scales go to Y13 and (AX), what lies
// apart from them, minima or other scales, to 32(AX); the next ones come step bytes later. The labels are the block's
// own.
#define BLOCK32(NIBBLES, HIGH, bits, apart, step, ONE, TWO, two, one, end) \
	VPBROADCASTD octbytes<>+144(SB), Y12;  \
	VPBROADCASTD octbytes<>+bits(SB), Y13; \
	EACH(NIBBLES, 0);                      \
	EACH(HIGH, 576);                       \
	MOVQ    32(SP), R13;                   \
	VMOVUPS (832+apart)(AX)(R13*1), Y13;   \
	VMOVUPS Y13, 32(AX);                   \
	VMOVUPS 832(AX)(R13*1), Y13;           \
	VMOVUPS Y13, (AX);                     \
	ADDQ    $step, R13;                    \
	MOVQ    R13, 32(SP);                   \
	GEMM8_ROWS(ONE, TWO, two, one, end)

// The scales of Q4_K and Q5_K.
#define HEADS_K \
	SCALES_K(832, 1088, AX); \
	ADDQ $128, R14

// The blocks of Q4_K and Q5_K, from byte o on: of 32 bytes the low nibbles are one and the high ones the next. Their
// high bits, if any, are the lowest two of what is at 576, which SHIFT moves on.
#define BLOCKS_K(o, LOW_BITS, HIGH_BITS, SHIFT, ONE, TWO) \
	ADDQ $o, SI;              \
	ADDQ $o, BX;              \
pair: \
	TRANSPOSE32(0);                \
	EACH(KEEP, 64);           \
	BLOCK32(LOWS, LOW_BITS, 152, 256, 32, ONE, TWO, two, one, end);      \
	EACH(TAKE, 64);           \
	BLOCK32(HIGHS, HIGH_BITS, 152, 256, 32, ONE, TWO, twob, oneb, endb); \
	EACH(SHIFT, 576);         \
	ADDQ $32, SI;             \
	ADDQ $32, BX;             \
	CMPQ 32(SP), $256;        \
	JNE  pair;
#define BLOCKS_Q4_K(ONE, TWO) BLOCKS_K(16, NO_BITS, NO_BITS, NO_BITS, ONE, TWO)

#define SHIFT2(A, Y) \
	VMOVDQU A, Y;     \
	VPSRLW  $2, Y, Y; \
	VMOVDQU Y, A
#define BLOCKS_Q5_K(ONE, TWO) \
	TRANSPOSE32(16);       \
	EACH(KEEP, 576); \
	BLOCKS_K(48, BITS_LEFT4, BITS_LEFT3, SHIFT2, ONE, TWO)

// (o)(AX) and what follows = Y13 times the bytes of the dwords SRC, which have a sign.
#define KEEP_SIGNED(i, SRC, o) \
	VPSLLD    $(24-8*i), SRC, Y8; \
	VPSRAD    $24, Y8, Y8;        \
	VCVTDQ2PS Y8, Y8;             \
	VMULPS    Y13, Y8, Y8;        \
	VMOVUPS   Y8, (o+32*i)(AX)
#define KEEP_FOUR(SRC, o) \
	KEEP_SIGNED(0, SRC, o); \
	KEEP_SIGNED(1, SRC, o); \
	KEEP_SIGNED(2, SRC, o); \
	KEEP_SIGNED(3, SRC, o)

// The scales of Q6_K.
#define HEADS_6 \
	TRANSPOSE_HIGH(192, Y10); \
	LINE(0);             \
	GEMM8_SCALES(208);    \
	KEEP_FOUR(Y4, 832);  \
	LINE(1);             \
	KEEP_FOUR(Y5, 960);  \
	KEEP_FOUR(Y6, 1088); \
	LINE(2);             \
	KEEP_FOUR(Y7, 1216); \
	ADDQ $144, R14

// The blocks of Q6_K, four at a time: of 64 bytes the low nibbles are two and the high ones the next two; of 32 others
// each has two bits.
#define BLOCKS_Q6_K(ONE, TWO) \
half: \
	TRANSPOSE32(0);             \
	EACH(KEEP, 64);       \
	TRANSPOSE32(32);            \
	EACH(KEEP, 320);      \
	MOVQ 32(SP), R13;      \
	SHRQ $3, R13;          \ // by 32 less after 64 bytes
	SUBQ R13, SI;          \
	SUBQ R13, BX;          \
	TRANSPOSE32(128);           \
	ADDQ R13, SI;          \
	ADDQ R13, BX;          \
	EACH(KEEP, 576);      \
	EACH(TAKE, 64);        \
	BLOCK32(LOWS, BITS_LEFT4, 148, 32, 64, ONE, TWO, two, one, end);       \
	EACH(TAKE, 320);       \
	BLOCK32(LOWS, BITS_LEFT2, 148, 32, 64, ONE, TWO, twob, oneb, endb);    \
	EACH(TAKE, 64);        \
	BLOCK32(HIGHS, BITS, 148, 32, 64, ONE, TWO, twoc, onec, endc);         \
	EACH(TAKE, 320);       \
	BLOCK32(HIGHS, BITS_RIGHT2, 148, 32, 64, ONE, TWO, twod, oned, endd);  \
	ADDQ $64, SI;          \
	ADDQ $64, BX;          \
	CMPQ 32(SP), $512;     \
	JNE  half;
