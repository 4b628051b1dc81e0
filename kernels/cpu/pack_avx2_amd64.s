//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "tile_amd64.h"

#define BYTES(imm, X, Y) MOVL imm, R13; VMOVD R13, X; VPBROADCASTD X, Y

// The arguments of pack: DI w, DX ds, R14 mins, R8 columns left, SI, AX, BX, CX rows 0-3 of src, R10 four rows in
// bytes, R12, R13 what to prefetch and its end.
#define PACK_ARGS \
	MOVQ a+0(FP), AX;             \
	MOVQ packArgs_w(AX), DI;      \
	MOVQ packArgs_columns(AX), R8; \
	MOVQ packArgs_ds(AX), DX;     \
	MOVQ packArgs_mins(AX), R14;  \
	MOVQ packArgs_src(AX), SI;    \
	MOVQ packArgs_stride(AX), R9; \
	MOVQ packArgs_prefetch(AX), R12; \
	MOVQ packArgs_prefetchBytes(AX), R13; \
	ADDQ R12, R13;                \
	LEAQ (SI)(R9*1), AX;          \
	LEAQ (AX)(R9*1), BX;          \
	LEAQ (BX)(R9*1), CX;          \
	LEAQ (R9*4), R10

// To the next block, of size bytes and cols columns.
#define PACK_NEXT(size, cols) \
	ADDQ $size, SI;     \
	ADDQ $size, AX;     \
	ADDQ $size, BX;     \
	ADDQ $size, CX;     \
	ADDQ $(8*cols), DI; \
	ADDQ $(2*cols), DX; \
	ADDQ $cols, R14;    \
	PREFETCH_NEXT(R12, R13)

// Y = the sixteen bytes at o of the row R and of the fourth row after it.
#define GATHER8(o, R, Y, X) \
	VMOVDQU     o(R), X;                \
	VINSERTI128 $1, o(R)(R10*1), Y, Y

// Y0-Y3 = the sixteen bytes at o of each row, four of them in each.
#define PACK16(o) \
	GATHER8(o, SI, Y0, X0);  \
	GATHER8(o, AX, Y1, X1);  \
	GATHER8(o, BX, Y2, X2);  \
	GATHER8(o, CX, Y3, X3);  \
	VPUNPCKLDQ  Y1, Y0, Y4;  \
	VPUNPCKHDQ  Y1, Y0, Y5;  \
	VPUNPCKLDQ  Y3, Y2, Y6;  \
	VPUNPCKHDQ  Y3, Y2, Y7;  \
	VPUNPCKLQDQ Y6, Y4, Y0;  \
	VPUNPCKHQDQ Y6, Y4, Y1;  \
	VPUNPCKLQDQ Y7, Y5, Y2;  \
	VPUNPCKHQDQ Y7, Y5, Y3

// Y0-Y3 to the panel, at o.
#define PACK_STORE(o) \
	VMOVDQU Y0, o(DI);      \
	VMOVDQU Y1, (o+32)(DI); \
	VMOVDQU Y2, (o+64)(DI); \
	VMOVDQU Y3, (o+96)(DI)

// Y4 = the half-precision numbers at o of eight rows, collected by the integer units, which have nothing else to do.
// Uses R9, R11, R15.
#define PACK_FOUR(A, B, C, D, R) \
	MOVWQZX A, R;     \
	MOVWQZX B, R15;   \
	SHLQ    $16, R15; \
	ORQ     R15, R;   \
	MOVWQZX C, R15;   \
	SHLQ    $32, R15; \
	ORQ     R15, R;   \
	MOVWQZX D, R15;   \
	SHLQ    $48, R15; \
	ORQ     R15, R
#define PACK_HALVES(o) \
	PACK_FOUR(o(SI), o(AX), o(BX), o(CX), R9); \
	PACK_FOUR(o(SI)(R10*1), o(AX)(R10*1), o(BX)(R10*1), o(CX)(R10*1), R11); \
	VMOVQ     R9, X4;          \
	VPINSRQ   $1, R11, X4, X4; \
	VCVTPH2PS X4, Y4

// Y10 = the words at o of eight rows, likewise.
#define PACK_TWO(A, B, R) \
	MOVL A, R;      \
	MOVL B, R15;    \
	SHLQ $32, R15;  \
	ORQ  R15, R
#define PACK_WORDS(o) \
	PACK_TWO(o(SI), o(AX), R9);                   \
	PACK_TWO(o(BX), o(CX), R11);                  \
	VMOVQ   R9, X10;                              \
	VPINSRQ $1, R11, X10, X10;                    \
	PACK_TWO(o(SI)(R10*1), o(AX)(R10*1), R9);     \
	PACK_TWO(o(BX)(R10*1), o(CX)(R10*1), R11);    \
	VMOVQ   R9, X4;                               \
	VPINSRQ $1, R11, X4, X4;                      \
	VINSERTI128 $1, X4, Y10, Y10

// Y, Y4 = the lower and the upper nibbles of Y. Y15 lower nibbles.
#define NIBBLES(Y) \
	VPSRLW $4, Y, Y4;   \
	VPAND  Y15, Y, Y;   \
	VPAND  Y15, Y4, Y4

// The lower nibbles of Y, less 8, to the panel at o, and the upper ones sixteen columns on.
#define PACK_NIBBLES(o, Y) \
	NIBBLES(Y);                \
	VPSUBB  Y14, Y, Y;         \
	VPSUBB  Y14, Y4, Y4;       \
	VMOVDQU Y, o(DI);          \
	VMOVDQU Y4, (o+128)(DI)

// The same less 16 where the bit that M chooses is clear in the byte of LOW, or of HIGH: then the upper bits are all
// set. Y14 upper nibbles, Y13 zeros.
#define PACK_FIVE(o, Y, LOW, HIGH, M) \
	NIBBLES(Y);              \
	VPAND    M, LOW, Y5;     \
	VPAND    M, HIGH, Y6;    \
	VPCMPEQB Y13, Y5, Y5;    \
	VPCMPEQB Y13, Y6, Y6;    \
	VPAND    Y14, Y5, Y5;    \
	VPAND    Y14, Y6, Y6;    \
	VPOR     Y5, Y, Y;       \
	VPOR     Y6, Y4, Y4;     \
	VMOVDQU  Y, o(DI);       \
	VMOVDQU  Y4, (o+128)(DI)

// o(P) = byte i of the words Y, unsigned or signed, times D. Y12 words of 255.
#define PACK_BYTE(i, Y, D, o, P) \
	VPSRLD    $(8*i), Y, Y0; \
	VPAND     Y12, Y0, Y0;   \
	VCVTDQ2PS Y0, Y0;        \
	VMULPS    D, Y0, Y0;     \
	VMOVUPS   Y0, o(P)
#define PACK_SIGNED(i, Y, o) \
	VPSLLD    $(24-8*i), Y, Y5; \
	VPSRAD    $24, Y5, Y5;      \
	VCVTDQ2PS Y5, Y5;           \
	VMULPS    Y8, Y5, Y5;       \
	VMOVUPS   Y5, o(DX)

// The eight scales and eight minima of the Q4_K block of each row: see scalesK. Y14, Y13 the lower six and the upper
// two bits of bytes, the latter at their place among six.
#define PACK_SCALES_K \
	PACK16(0);                      \
	VPSHUFB      halves<>(SB), Y0, Y0; \
	VPERMQ       $0xd8, Y0, Y0;     \
	VCVTPH2PS    X0, Y8;            \
	VEXTRACTI128 $1, Y0, X0;        \
	VCVTPH2PS    X0, Y9;            \
	VPAND        Y1, Y14, Y10;      \
	VPAND        Y2, Y14, Y11;      \
	VPSRLD       $2, Y1, Y1;        \
	VPSRLD       $2, Y2, Y2;        \
	VPAND        Y1, Y13, Y1;       \
	VPAND        Y2, Y13, Y2;       \
	VPAND        Y3, Y15, Y6;       \
	VPSRLD       $4, Y3, Y3;        \
	VPAND        Y3, Y15, Y7;       \
	VPOR         Y1, Y6, Y6;        \
	VPOR         Y2, Y7, Y7;        \
	PACK_BYTE(0, Y10, Y8, 0, DX);   \
	PACK_BYTE(1, Y10, Y8, 64, DX);  \
	PACK_BYTE(2, Y10, Y8, 128, DX); \
	PACK_BYTE(3, Y10, Y8, 192, DX); \
	PACK_BYTE(0, Y6, Y8, 256, DX);  \
	PACK_BYTE(1, Y6, Y8, 320, DX);  \
	PACK_BYTE(2, Y6, Y8, 384, DX);  \
	PACK_BYTE(3, Y6, Y8, 448, DX);  \
	PACK_BYTE(0, Y11, Y9, 0, R14);  \
	PACK_BYTE(1, Y11, Y9, 32, R14); \
	PACK_BYTE(2, Y11, Y9, 64, R14); \
	PACK_BYTE(3, Y11, Y9, 96, R14); \
	PACK_BYTE(0, Y7, Y9, 128, R14); \
	PACK_BYTE(1, Y7, Y9, 160, R14); \
	PACK_BYTE(2, Y7, Y9, 192, R14); \
	PACK_BYTE(3, Y7, Y9, 224, R14)

// Two half sub-blocks of Q4_K, from the bytes at src, to the panel at o and 32 columns on.
#define PACK_NIBBLES_K(o, Y) \
	NIBBLES(Y);             \
	VMOVDQU Y, o(DI);       \
	VMOVDQU Y4, (o+256)(DI)
#define PACK_PAIR_K(src, o) \
	PACK16(src);              \
	PACK_NIBBLES_K(o, Y0);    \
	PACK_NIBBLES_K(o+32, Y1); \
	PACK_NIBBLES_K(o+64, Y2); \
	PACK_NIBBLES_K(o+96, Y3)

// The same for Q5_K, with the high bits of the sixteen columns in Y8-Y11, which SHL and SHH bring to bit 4. Y14 the
// bits at that place.
#define PACK_NIBBLES_5(o, Y, H, SHL, nl, SHH, nh) \
	NIBBLES(Y);             \
	SHL     $nl, H, Y5;     \
	VPAND   Y14, Y5, Y5;    \
	VPOR    Y5, Y, Y;       \
	VMOVDQU Y, o(DI);       \
	SHH     $nh, H, Y5;     \
	VPAND   Y14, Y5, Y5;    \
	VPOR    Y5, Y4, Y4;     \
	VMOVDQU Y4, (o+256)(DI)
#define PACK_PAIR_5(src, o, SHL, nl, SHH, nh) \
	PACK16(src);              \
	PACK_NIBBLES_5(o, Y0, Y8, SHL, nl, SHH, nh);     \
	PACK_NIBBLES_5(o+32, Y1, Y9, SHL, nl, SHH, nh);  \
	PACK_NIBBLES_5(o+64, Y2, Y10, SHL, nl, SHH, nh); \
	PACK_NIBBLES_5(o+96, Y3, Y11, SHL, nl, SHH, nh)

// Y8-Y11 = sixteen bytes at o of each row.
#define PACK_HIGH(o) \
	PACK16(o);       \
	VMOVDQA Y0, Y8;  \
	VMOVDQA Y1, Y9;  \
	VMOVDQA Y2, Y10; \
	VMOVDQA Y3, Y11
#define PACK_HALF_5(src, high, o) \
	PACK_HIGH(high); \
	PACK_PAIR_5(src, o, VPSLLW, 4, VPSLLW, 3);           \
	PACK_PAIR_5(src+32, o+512, VPSLLW, 2, VPSLLW, 1);    \
	PACK_PAIR_5(src+64, o+1024, VPSLLW, 0, VPSRLW, 1);   \
	PACK_PAIR_5(src+96, o+1536, VPSRLW, 2, VPSRLW, 3)

// The nibbles of Y with two bits each of H above, less 32: the lower ones to the panel at o, the upper ones 64 columns
// on. SHL and SHH bring the two bits to their place. Y14 words of 32, Y13 the two bits.
#define PACK_SIX(Y, H, o, SHL, nl, SHH, nh) \
	NIBBLES(Y);             \
	SHL     $nl, H, Y5;     \
	VPAND   Y5, Y13, Y5;    \
	VPOR    Y5, Y, Y;       \
	VPSUBB  Y14, Y, Y;      \
	VMOVDQU Y, o(DI);       \
	SHH     $nh, H, Y5;     \
	VPAND   Y5, Y13, Y5;    \
	VPOR    Y5, Y4, Y4;     \
	VPSUBB  Y14, Y4, Y4;    \
	VMOVDQU Y4, (o+512)(DI)

// Sixteen columns each of four blocks of 32 of Q6_K, from the bytes at low, low+32 and high, to the panel at o.
#define PACK_QUAD_6(low, high, o) \
	PACK_HIGH(high); \
	PACK16(low);     \
	PACK_SIX(Y0, Y8, o, VPSLLW, 4, VPSLLW, 0);      \
	PACK_SIX(Y1, Y9, o+32, VPSLLW, 4, VPSLLW, 0);   \
	PACK_SIX(Y2, Y10, o+64, VPSLLW, 4, VPSLLW, 0);  \
	PACK_SIX(Y3, Y11, o+96, VPSLLW, 4, VPSLLW, 0);  \
	PACK16(low+32);  \
	PACK_SIX(Y0, Y8, o+256, VPSLLW, 2, VPSRLW, 2);  \
	PACK_SIX(Y1, Y9, o+288, VPSLLW, 2, VPSRLW, 2);  \
	PACK_SIX(Y2, Y10, o+320, VPSLLW, 2, VPSRLW, 2); \
	PACK_SIX(Y3, Y11, o+352, VPSLLW, 2, VPSRLW, 2)

// Four of the scales of Q6_K, the bytes of Y.
#define PACK_SCALES_6(Y, o) \
	PACK_SIGNED(0, Y, o);    \
	PACK_SIGNED(1, Y, o+32); \
	PACK_SIGNED(2, Y, o+64); \
	PACK_SIGNED(3, Y, o+96)

// func packQ8_0AVX2(a *packArgs)
TEXT ·packQ8_0AVX2(SB), NOSPLIT, $0-8
	PACK_ARGS
blk:
	PACK16(2)
	PACK_STORE(0)
	PACK16(18)
	PACK_STORE(128)
	PACK_HALVES(0)
	VMOVUPS Y4, (DX)
	PACK_NEXT(34, 32)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ4_0AVX2(a *packArgs)
TEXT ·packQ4_0AVX2(SB), NOSPLIT, $0-8
	BYTES($0x0f0f0f0f, X15, Y15)
	BYTES($0x08080808, X14, Y14)
	PACK_ARGS
blk:
	PACK16(2)
	PACK_NIBBLES(0, Y0)
	PACK_NIBBLES(32, Y1)
	PACK_NIBBLES(64, Y2)
	PACK_NIBBLES(96, Y3)
	PACK_HALVES(0)
	VMOVUPS Y4, (DX)
	PACK_NEXT(18, 32)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ5_0AVX2(a *packArgs)
// Y10 the high bits of each row; Y8, Y9 bytes 0 and 2 of them, or 1 and 3, four times; Y11, Y12 the bits of the lower
// and of the upper half of a byte.
TEXT ·packQ5_0AVX2(SB), NOSPLIT, $0-8
	BYTES($0x0f0f0f0f, X15, Y15)
	BYTES($0xf0f0f0f0, X14, Y14)
	BYTES($0x80402010, X12, Y12)
	BYTES($0x08040201, X11, Y11)
	VPXOR Y13, Y13, Y13
	PACK_ARGS
blk:
	PACK_WORDS(2)
	PACK16(6)
	VPSHUFB highs<>+0(SB), Y10, Y8
	VPSHUFB highs<>+64(SB), Y10, Y9
	PACK_FIVE(0, Y0, Y8, Y9, Y11)
	PACK_FIVE(32, Y1, Y8, Y9, Y12)
	VPSHUFB highs<>+32(SB), Y10, Y8
	VPSHUFB highs<>+96(SB), Y10, Y9
	PACK_FIVE(64, Y2, Y8, Y9, Y11)
	PACK_FIVE(96, Y3, Y8, Y9, Y12)
	PACK_HALVES(0)
	VMOVUPS Y4, (DX)
	PACK_NEXT(22, 32)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// Byte 0 of each word, four times; bytes 1, 2 and 3 likewise.
DATA highs<>+0(SB)/8, $0x0404040400000000
DATA highs<>+8(SB)/8, $0x0c0c0c0c08080808
DATA highs<>+16(SB)/8, $0x0404040400000000
DATA highs<>+24(SB)/8, $0x0c0c0c0c08080808
DATA highs<>+32(SB)/8, $0x0505050501010101
DATA highs<>+40(SB)/8, $0x0d0d0d0d09090909
DATA highs<>+48(SB)/8, $0x0505050501010101
DATA highs<>+56(SB)/8, $0x0d0d0d0d09090909
DATA highs<>+64(SB)/8, $0x0606060602020202
DATA highs<>+72(SB)/8, $0x0e0e0e0e0a0a0a0a
DATA highs<>+80(SB)/8, $0x0606060602020202
DATA highs<>+88(SB)/8, $0x0e0e0e0e0a0a0a0a
DATA highs<>+96(SB)/8, $0x0707070703030303
DATA highs<>+104(SB)/8, $0x0f0f0f0f0b0b0b0b
DATA highs<>+112(SB)/8, $0x0707070703030303
DATA highs<>+120(SB)/8, $0x0f0f0f0f0b0b0b0b
GLOBL highs<>(SB), RODATA|NOPTR, $128

// The lower halves of four words, then the upper ones.
DATA halves<>+0(SB)/8, $0x0d0c090805040100
DATA halves<>+8(SB)/8, $0x0f0e0b0a07060302
DATA halves<>+16(SB)/8, $0x0d0c090805040100
DATA halves<>+24(SB)/8, $0x0f0e0b0a07060302
GLOBL halves<>(SB), RODATA|NOPTR, $32

// func packQ4_KAVX2(a *packArgs)
TEXT ·packQ4_KAVX2(SB), NOSPLIT, $0-8
	BYTES($0x0f0f0f0f, X15, Y15)
	BYTES($0x3f3f3f3f, X14, Y14)
	BYTES($0x30303030, X13, Y13)
	BYTES($0x000000ff, X12, Y12)
	PACK_ARGS
blk:
	PACK_SCALES_K
	PACK_PAIR_K(16, 0)
	PACK_PAIR_K(32, 128)
	PACK_PAIR_K(48, 512)
	PACK_PAIR_K(64, 640)
	PACK_PAIR_K(80, 1024)
	PACK_PAIR_K(96, 1152)
	PACK_PAIR_K(112, 1536)
	PACK_PAIR_K(128, 1664)
	PACK_NEXT(144, 256)
	PREFETCH_NEXT(R12, R13)
fetched:
	SUBQ $256, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ5_KAVX2(a *packArgs)
TEXT ·packQ5_KAVX2(SB), NOSPLIT, $0-8
	BYTES($0x0f0f0f0f, X15, Y15)
	BYTES($0x30303030, X13, Y13)
	BYTES($0x000000ff, X12, Y12)
	PACK_ARGS
blk:
	VPBROADCASTD bits<>+0(SB), Y14
	PACK_SCALES_K
	VPBROADCASTD bits<>+4(SB), Y14
	PACK_HALF_5(48, 16, 0)
	PACK_HALF_5(64, 32, 128)
	PACK_NEXT(176, 256)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
fetched:
	SUBQ $256, R8
	JNZ  blk
	VZEROUPPER
	RET

// The lower six bits of bytes, and bit 4.
DATA bits<>+0(SB)/4, $0x3f3f3f3f
DATA bits<>+4(SB)/4, $0x10101010
GLOBL bits<>(SB), RODATA|NOPTR, $8

// func packQ6_KAVX2(a *packArgs)
TEXT ·packQ6_KAVX2(SB), NOSPLIT, $0-8
	BYTES($0x0f0f0f0f, X15, Y15)
	BYTES($0x20202020, X14, Y14)
	BYTES($0x30303030, X13, Y13)
	PACK_ARGS
blk:
	PACK_QUAD_6(0, 128, 0)
	PACK_QUAD_6(16, 144, 128)
	PACK_QUAD_6(64, 160, 1024)
	PACK_QUAD_6(80, 176, 1152)
	PACK_HALVES(208)
	VMOVAPS Y4, Y8
	PACK16(192)
	PACK_SCALES_6(Y0, 0)
	PACK_SCALES_6(Y1, 128)
	PACK_SCALES_6(Y2, 256)
	PACK_SCALES_6(Y3, 384)
	PACK_NEXT(210, 256)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
fetched:
	SUBQ $256, R8
	JNZ  blk
	VZEROUPPER
	RET
