// gemm8: eight weight rows for one to sixteen tokens. The weights of a block are unpacked once for all of these, in
// registers, and are multiplied with them as those of a panel do (products_avx2_amd64.h, products_avxvnni_amd64.h,
// which this file comes after); sums wait on the stack.
//
// Arguments of gemm8: DX place in q, CX in d, R15 from there to h or s, R9 and R10 bytes of a row of q and of d, R12
// place in the sums, all as in tiles; AX the stack, below; the others as in unpack8_amd64.h.
//
// On the stack 0(SP) the end of the sums, 8(SP) what is prefetched, 16(SP) blocks left, 24(SP) the end of w, 32(SP) a
// place in scales. From AX on, which is a multiple of 32: scales of the block, at 32 those of its second half or its
// minima, at 64 what waits for the second half of the block, and at acc the sums, by lanes: a frame of 71 bytes, acc
// and 32 for each lane and token. At the end of the frame tokens, and place in dst.
#include "unpack8_amd64.h"

#define GEMM8_ARGS(size, log, offsets, lanes, acc) \
	UNPACK8_PLACES(size, log);            \
	MOVQ   R14, 8(SP);                \
	MOVQ   gemmArgs_wBytes(AX), R13;  \
	ADDQ   SI, R13;                   \
	MOVQ   R13, 24(SP);               \
	MOVQ   R9, R10;                   \
	SHRQ   $3, R10;                   \
	MOVQ   gemmArgs_dst(AX), R13;     \
	MOVQ   R13, dst-16(SP);           \
	MOVQ   offsets(AX), R15;          \
	SUBQ   gemmArgs_d(AX), R15;       \
	LEAQ   (R15)(R10*1), BP;          \
	MOVQ   gemmArgs_tokens(AX), R13;  \
	MOVQ   R13, tokens-8(SP);         \
	LEAQ   71(SP), AX;                \
	ANDQ   $-32, AX;                  \
	IMUL3Q $(32*lanes), R13, R13;     \
	LEAQ   (acc)(AX)(R13*1), R13;     \
	MOVQ   R13, 0(SP)

// Begins eight rows.
#define GEMM8_BEGIN(log, acc) \
	LEAQ    (SI)(DI*1), BX;       \
	LEAQ    (acc)(AX), R12;       \
	VXORPS  Y0, Y0, Y0;           \
zero: \
	VMOVUPS Y0, (R12);            \
	VMOVUPS Y0, 32(R12);          \
	VMOVUPS Y0, 64(R12);          \
	VMOVUPS Y0, 96(R12);          \
	SUBQ    $-128, R12;           \
	CMPQ    R12, 0(SP);           \
	JLT     zero;                 \
	LEAQ    (acc)(AX), R12;       \
	MOVQ    R9, R13;              \
	SHRQ    $log, R13;            \
	MOVQ    R13, 16(SP);          \
	MOVQ    a+0(FP), R13;         \
	MOVQ    gemmArgs_q(R13), DX;  \
	MOVQ    gemmArgs_d(R13), CX

// The tokens with a block, one by ONE or two by TWO.
#define GEMM8_ROWS(ONE, TWO, two, one, end) \
	PAIRS(ONE, TWO, two, one, end) \
	ADDQ $32, DX;  \
	ADDQ $4, CX

// Moves on by size bytes of each row; to blk if there are more blocks.
#define GEMM8_NEXT(size, blk) \
	ADDQ $size, SI;       \
	LEAQ (SI)(DI*1), BX;  \
	DECQ 16(SP);          \
	JNZ  blk

// Puts the sums, which are those of four lanes from R12 on, and moves on by eight rows; to outputs8 if there are any,
// else returns.
#define GEMM8_END(outputs8) \
	LEAQ    (BX)(R8*2), SI;       \
	MOVQ    dst-16(SP), BX;       \
	MOVQ    a+0(FP), DX;          \
	MOVQ    gemmArgs_stride(DX), DX; \
	SHLQ    $2, DX;               \
	MOVQ    tokens-8(SP), R11;    \
	MOVQ    R11, R13;             \
	SHLQ    $5, R13;              \
	LEAQ    (R13)(R13*2), CX;     \
put: \
	VMOVUPS (R12), Y0;            \
	VMOVUPS (R12)(R13*1), Y1;     \
	VADDPS  (R12)(R13*2), Y0, Y0; \
	VADDPS  (R12)(CX*1), Y1, Y1;  \
	VADDPS  Y1, Y0, Y0;           \
	VMOVUPS Y0, (BX);             \
	ADDQ    $32, R12;             \
	ADDQ    DX, BX;               \
	DECQ    R11;                  \
	JNZ     put;                  \
	ADDQ    $32, dst-16(SP);      \
	CMPQ    SI, 24(SP);           \
	JLT     outputs8;                  \
	VZEROUPPER;                   \
	RET

// gemm8 for types with blocks of 32: LOAD sets Y0-Y7, the weights without a sign, and Y13 and (AX), their scales.
#define GEMM832(LOAD, size, ONE, TWO) \
	GEMM8_ARGS(size, 5, gemmArgs_h, 4, 576); \
outputs8: \
	GEMM8_BEGIN(5, 576);                   \
blk: \
	MOVQ 8(SP), R14;                      \
	LOAD;                                 \
	ADDQ $(8*size), R14;                  \
	MOVQ R14, 8(SP);                      \
	GEMM8_ROWS(ONE, TWO, two, one, end);   \
	CMPQ R12, 0(SP);                      \
	JNE  lane;                            \
	LEAQ 576(AX), R12;                    \
lane: \
	GEMM8_NEXT(size, blk);                 \
	GEMM8_END(outputs8)

// Y13 and (AX) = the scales at o of the eight rows.
#define GEMM8_SCALES(o) \
	EIGHT_SCALES(o);         \
	VCVTPH2PS   X13, Y13;    \
	VMOVUPS     Y13, (AX)

// OP of Y0-Y7 and the 256 bytes at o of the stack.
#define EACH(OP, o) \
	OP((o)(AX), Y0);      \
	OP((o+32)(AX), Y1);   \
	OP((o+64)(AX), Y2);   \
	OP((o+96)(AX), Y3);   \
	OP((o+128)(AX), Y4);  \
	OP((o+160)(AX), Y5);  \
	OP((o+192)(AX), Y6);  \
	OP((o+224)(AX), Y7)
#define TAKE(A, Y) VMOVDQU A, Y
#define KEEP(A, Y) VMOVDQU Y, A

// Y0-Y3 the low nibbles of Y4-Y7, and Y4-Y7 the high ones.
#define SPLIT \
	VPBROADCASTD octbytes<>+144(SB), Y12;  \
	VPAND  Y12, Y4, Y0;   \
	VPAND  Y12, Y5, Y1;   \
	VPAND  Y12, Y6, Y2;   \
	VPAND  Y12, Y7, Y3;   \
	VPSRLW $4, Y4, Y4;    \
	VPSRLW $4, Y5, Y5;    \
	VPSRLW $4, Y6, Y6;    \
	VPSRLW $4, Y7, Y7;    \
	VPAND  Y12, Y4, Y4;   \
	VPAND  Y12, Y5, Y5;   \
	VPAND  Y12, Y6, Y6;   \
	VPAND  Y12, Y7, Y7

// Y0-Y7 = weights of Q4_0, plus 8.
#define GEMM8_Q4_0 \
	TRANSPOSE_HIGH(2, Y10);   \
	LINE(0);             \
	SPLIT;               \
	LINE(1);             \
	GEMM8_SCALES(0);      \
	LINE(2)

// X = the dwords A and B.
#define TWO_DWORDS(A, B, X) \
	MOVL  B, R13;    \
	MOVL  A, R11;    \
	SHLQ  $32, R13;  \
	ORQ   R11, R13;  \
	VMOVQ R13, X

// Y13 = the dwords at o of the eight rows, collected in integer registers.
#define EIGHT_DWORDS(o) \
	TWO_DWORDS((o)(SI), (o)(BX), X13);              \
	TWO_DWORDS((o)(SI)(DI*2), (o)(BX)(DI*2), X8);   \
	TWO_DWORDS((o)(SI)(DI*4), (o)(BX)(DI*4), X9);   \
	TWO_DWORDS((o)(SI)(R8*2), (o)(BX)(R8*2), X10);  \
	VPUNPCKLQDQ X8, X13, X13;                       \
	VPUNPCKLQDQ X10, X9, X9;                        \
	VINSERTI128 $1, X9, Y13, Y13

// Adds 16 to the bytes of L where the lower four bits of byte m of each dword of Y13 are set, and to those of H for the
// upper four. Y10 bits 0 to 3 of bytes alternately, Y11 what these become.
#define FIFTH(m, L, H) \
	VPSHUFB octfifth<>+(32+32*m)(SB), Y13, Y8;  \
	VPSRLW  $4, Y8, Y9;                         \
	VPAND   Y10, Y8, Y8;                        \
	VPAND   Y10, Y9, Y9;                        \
	VPSHUFB Y8, Y11, Y8;                        \
	VPSHUFB Y9, Y11, Y9;                        \
	VPOR    Y8, L, L;                           \
	VPOR    Y9, H, H

// Y0-Y7 = weights of Q5_0, plus 16.
#define GEMM8_Q5_0 \
	TRANSPOSE_HIGH(6, Y10);                      \
	LINE(0);                                \
	SPLIT;                                  \
	EIGHT_DWORDS(2);                        \
	VPBROADCASTD   octfifth<>+0(SB), Y10;   \
	VBROADCASTI128 octfifth<>+16(SB), Y11;  \
	LINE(1);                                \
	FIFTH(0, Y0, Y1);                       \
	FIFTH(1, Y2, Y3);                       \
	FIFTH(2, Y4, Y5);                       \
	FIFTH(3, Y6, Y7);                       \
	GEMM8_SCALES(0);                         \
	LINE(2)

// Bits 0 to 3 of bytes alternately; what each of them becomes, bit 4; byte 0, 1, 2 or 3 of each dword in all of its
// bytes.
DATA octfifth<>+0(SB)/8, $0x0804020108040201
DATA octfifth<>+8(SB)/8, $0
DATA octfifth<>+16(SB)/8, $0x0000001000101000
DATA octfifth<>+24(SB)/8, $0x0000000000000010
DATA octfifth<>+32(SB)/8, $0x0404040400000000
DATA octfifth<>+40(SB)/8, $0x0c0c0c0c08080808
DATA octfifth<>+48(SB)/8, $0x0404040400000000
DATA octfifth<>+56(SB)/8, $0x0c0c0c0c08080808
DATA octfifth<>+64(SB)/8, $0x0505050501010101
DATA octfifth<>+72(SB)/8, $0x0d0d0d0d09090909
DATA octfifth<>+80(SB)/8, $0x0505050501010101
DATA octfifth<>+88(SB)/8, $0x0d0d0d0d09090909
DATA octfifth<>+96(SB)/8, $0x0606060602020202
DATA octfifth<>+104(SB)/8, $0x0e0e0e0e0a0a0a0a
DATA octfifth<>+112(SB)/8, $0x0606060602020202
DATA octfifth<>+120(SB)/8, $0x0e0e0e0e0a0a0a0a
DATA octfifth<>+128(SB)/8, $0x0707070703030303
DATA octfifth<>+136(SB)/8, $0x0f0f0f0f0b0b0b0b
DATA octfifth<>+144(SB)/8, $0x0707070703030303
DATA octfifth<>+152(SB)/8, $0x0f0f0f0f0b0b0b0b
GLOBL octfifth<>(SB), RODATA|NOPTR, $160
