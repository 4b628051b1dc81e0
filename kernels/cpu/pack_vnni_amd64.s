//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

#include "tile_amd64.h"

#define WORDS(imm, Z) MOVL imm, R9; VPBROADCASTD R9, Z

// Z = four words of each of the rows r, r+4, r+8 and r+12; R10, R11 four and twelve rows in bytes; K1-K3 from
// QUARTERS.
#define GATHER16(o, R, Z, X) \
	VMOVDQU32 o(R), X;                      \
	VBROADCASTI32X4 o(R)(R10*1), K1, Z;     \
	VBROADCASTI32X4 o(R)(R10*2), K2, Z;     \
	VBROADCASTI32X4 o(R)(R11*1), K3, Z
#define QUARTERS \
	MOVL $0x00f0, R12; \
	KMOVW R12, K1;     \
	MOVL $0x0f00, R12; \
	KMOVW R12, K2;     \
	MOVL $0xf000, R12; \
	KMOVW R12, K3

// Z0-Z3 = four columns each of sixteen rows, which lie in quarters of them.
#define TRANSPOSE16 \
	VPUNPCKLDQ Z1, Z0, Z4;  \
	VPUNPCKHDQ Z1, Z0, Z5;  \
	VPUNPCKLDQ Z3, Z2, Z6;  \
	VPUNPCKHDQ Z3, Z2, Z7;  \
	VPUNPCKLQDQ Z6, Z4, Z0; \
	VPUNPCKHQDQ Z6, Z4, Z1; \
	VPUNPCKLQDQ Z7, Z5, Z2; \
	VPUNPCKHQDQ Z7, Z5, Z3

// The arguments of pack: DI w, DX ds, R14 mins, R8 columns left, SI, AX, BX, CX rows 0-3 of src, R10, R11 four and
// twelve rows in bytes, R12, R13 what to prefetch and its end.
#define PACK_ARGS \
	MOVQ a+0(FP), AX;         \
	MOVQ packArgs_w(AX), DI;  \
	MOVQ packArgs_columns(AX), R8; \
	MOVQ packArgs_ds(AX), DX; \
	MOVQ packArgs_mins(AX), R14; \
	MOVQ packArgs_src(AX), SI; \
	MOVQ packArgs_stride(AX), R9; \
	QUARTERS; \
	MOVQ packArgs_prefetch(AX), R12; \
	MOVQ packArgs_prefetchBytes(AX), R13; \
	ADDQ R12, R13;            \
	LEAQ (SI)(R9*1), AX;      \
	LEAQ (AX)(R9*1), BX;      \
	LEAQ (BX)(R9*1), CX;      \
	LEAQ (R9*4), R10;         \
	LEAQ (R10)(R10*2), R11

// To the next block, of size bytes and cols columns.
#define PACK_NEXT(size, cols) \
	ADDQ $size, SI; \
	ADDQ $size, AX; \
	ADDQ $size, BX; \
	ADDQ $size, CX; \
	ADDQ $(16*cols), DI; \
	ADDQ $(4*cols), DX;  \
	ADDQ $(2*cols), R14; \
	PREFETCH_NEXT(R12, R13)

// Z4 = the half-precision numbers at o of sixteen rows.
#define PACK_HALVES(o) \
	VPINSRW $0, o(SI), X4, X4;         \
	VPINSRW $1, o(AX), X4, X4;         \
	VPINSRW $2, o(BX), X4, X4;         \
	VPINSRW $3, o(CX), X4, X4;         \
	VPINSRW $4, o(SI)(R10*1), X4, X4;  \
	VPINSRW $5, o(AX)(R10*1), X4, X4;  \
	VPINSRW $6, o(BX)(R10*1), X4, X4;  \
	VPINSRW $7, o(CX)(R10*1), X4, X4;  \
	VPINSRW $0, o(SI)(R10*2), X5, X5;  \
	VPINSRW $1, o(AX)(R10*2), X5, X5;  \
	VPINSRW $2, o(BX)(R10*2), X5, X5;  \
	VPINSRW $3, o(CX)(R10*2), X5, X5;  \
	VPINSRW $4, o(SI)(R11*1), X5, X5;  \
	VPINSRW $5, o(AX)(R11*1), X5, X5;  \
	VPINSRW $6, o(BX)(R11*1), X5, X5;  \
	VPINSRW $7, o(CX)(R11*1), X5, X5;  \
	VINSERTI128 $1, X5, Y4, Y4;       \
	VCVTPH2PS Y4, Z4

// Z0-Z3 = the sixteen bytes at o of each row, four of them in each.
#define PACK16(o) \
	GATHER16(o, SI, Z0, X0); \
	GATHER16(o, AX, Z1, X1); \
	GATHER16(o, BX, Z2, X2); \
	GATHER16(o, CX, Z3, X3); \
	TRANSPOSE16

// Four registers to the panel, at o.
#define PACK_STORE(o, A, B, C, D) \
	VMOVDQU32 A, o(DI);       \
	VMOVDQU32 B, (o+64)(DI);  \
	VMOVDQU32 C, (o+128)(DI); \
	VMOVDQU32 D, (o+192)(DI)

// The lower nibbles of Z, less 8, to the panel at o, and the upper ones sixteen columns on.
#define PACK_NIBBLES(o, Z) \
	VPSRLW $4, Z, Z4;          \
	VPANDD Z, Z31, Z;          \
	VPANDD Z4, Z31, Z4;        \
	VPSUBB Z30, Z, Z;          \
	VPSUBB Z30, Z4, Z4;        \
	VMOVDQU32 Z, o(DI);        \
	VMOVDQU32 Z4, (o+256)(DI)

// O(P) = byte i of the words Z as an unsigned or a signed number, times the scales D.
#define PACK_BYTE(i, Z, D, O, P) \
	VPSRLD $(8*i), Z, Z0;    \
	VPANDD Z27, Z0, Z0;      \
	VCVTDQ2PS Z0, Z0;        \
	VMULPS D, Z0, Z0;        \
	VMOVUPS Z0, O(P)
#define PACK_SIGNED(i, Z, D, O, P) \
	VPSLLD $(24-8*i), Z, Z5; \
	VPSRAD $24, Z5, Z5;      \
	VCVTDQ2PS Z5, Z5;        \
	VMULPS D, Z5, Z5;        \
	VMOVUPS Z5, O(P)

// The sixteen scales and minima of the Q4_K block of each row: see scalesK.
#define PACK_SCALES_K \
	PACK16(0);                   \
	VPMOVDW Z0, Y8;              \
	VCVTPH2PS Y8, Z8;            \
	VPSRLD $16, Z0, Z0;          \
	VPMOVDW Z0, Y9;              \
	VCVTPH2PS Y9, Z9;            \
	VPANDD Z1, Z29, Z4;          \
	VPANDD Z2, Z29, Z5;          \
	VPSRLD $2, Z1, Z1;           \
	VPSRLD $2, Z2, Z2;           \
	VPANDD Z1, Z28, Z1;          \
	VPANDD Z2, Z28, Z2;          \
	VPANDD Z3, Z31, Z6;          \
	VPSRLD $4, Z3, Z3;           \
	VPANDD Z3, Z31, Z7;          \
	VPORD Z1, Z6, Z6;            \
	VPORD Z2, Z7, Z7;            \
	PACK_BYTE(0, Z4, Z8, 0, DX);   \
	PACK_BYTE(1, Z4, Z8, 128, DX); \
	PACK_BYTE(2, Z4, Z8, 256, DX); \
	PACK_BYTE(3, Z4, Z8, 384, DX); \
	PACK_BYTE(0, Z6, Z8, 512, DX); \
	PACK_BYTE(1, Z6, Z8, 640, DX); \
	PACK_BYTE(2, Z6, Z8, 768, DX); \
	PACK_BYTE(3, Z6, Z8, 896, DX); \
	PACK_BYTE(0, Z5, Z9, 0, R14);   \
	PACK_BYTE(1, Z5, Z9, 64, R14);  \
	PACK_BYTE(2, Z5, Z9, 128, R14); \
	PACK_BYTE(3, Z5, Z9, 192, R14); \
	PACK_BYTE(0, Z7, Z9, 256, R14); \
	PACK_BYTE(1, Z7, Z9, 320, R14); \
	PACK_BYTE(2, Z7, Z9, 384, R14); \
	PACK_BYTE(3, Z7, Z9, 448, R14)

// The lower nibbles of Z to the panel at o, and the upper ones 32 columns on.
#define PACK_NIBBLES_K(o, Z) \
	VPSRLW $4, Z, Z4;     \
	VPANDD Z, Z31, Z;     \
	VPANDD Z4, Z31, Z4;   \
	VMOVDQU32 Z, o(DI);   \
	VMOVDQU32 Z4, (o+512)(DI)

// Two half sub-blocks of Q4_K, from the bytes at src, to the panel at o and 32 columns on.
#define PACK_PAIR_K(src, o) \
	PACK16(src);               \
	PACK_NIBBLES_K(o, Z0);     \
	PACK_NIBBLES_K(o+64, Z1);  \
	PACK_NIBBLES_K(o+128, Z2); \
	PACK_NIBBLES_K(o+192, Z3)

// The nibbles of Z with a bit each of Q above: the lower ones to the panel at o, the upper ones 32 columns on. SHL and
// SHH bring the bit to its place.
#define PACK_FIVE_K(Z, Q, o, SHL, nl, SHH, nh) \
	VPSRLW $4, Z, Z4;      \
	VPANDD Z, Z31, Z;      \
	VPANDD Z4, Z31, Z4;    \
	SHL $nl, Q, Z5;        \
	VPANDD Z5, Z26, Z5;    \
	VPORD Z5, Z, Z;        \
	VMOVDQU32 Z, o(DI);    \
	SHH $nh, Q, Z5;        \
	VPANDD Z5, Z26, Z5;    \
	VPORD Z5, Z4, Z4;      \
	VMOVDQU32 Z4, (o+512)(DI)

// Sub-blocks 2j and 2j+1 of Q5_K, to the panel at 1024·j; Z16-Z23 the bytes of high bits.
#define PACK_PAIR_5(j, SHL, nl, SHH, nh) \
	PACK16(48+32*j); \
	PACK_FIVE_K(Z0, Z16, (1024*j), SHL, nl, SHH, nh);     \
	PACK_FIVE_K(Z1, Z17, (1024*j+64), SHL, nl, SHH, nh);  \
	PACK_FIVE_K(Z2, Z18, (1024*j+128), SHL, nl, SHH, nh); \
	PACK_FIVE_K(Z3, Z19, (1024*j+192), SHL, nl, SHH, nh); \
	PACK16(64+32*j); \
	PACK_FIVE_K(Z0, Z20, (1024*j+256), SHL, nl, SHH, nh); \
	PACK_FIVE_K(Z1, Z21, (1024*j+320), SHL, nl, SHH, nh); \
	PACK_FIVE_K(Z2, Z22, (1024*j+384), SHL, nl, SHH, nh); \
	PACK_FIVE_K(Z3, Z23, (1024*j+448), SHL, nl, SHH, nh)
#define PACK_KEEP(A, B, C, D) \
	VMOVDQA32 Z0, A; \
	VMOVDQA32 Z1, B; \
	VMOVDQA32 Z2, C; \
	VMOVDQA32 Z3, D

// The nibbles of Z with two bits each of Q above, less 32: the lower ones to the panel at o, the upper ones 64 columns
// on. SHL and SHH bring the two bits to their place.
#define PACK_SIX(Z, Q, o, SHL, nl, SHH, nh) \
	VPSRLW $4, Z, Z4;      \
	VPANDD Z, Z31, Z;      \
	VPANDD Z4, Z31, Z4;    \
	SHL $nl, Q, Z5;        \
	VPANDD Z5, Z28, Z5;    \
	VPORD Z5, Z, Z;        \
	VPSUBB Z30, Z, Z;      \
	VMOVDQU32 Z, o(DI);    \
	SHH $nh, Q, Z5;        \
	VPANDD Z5, Z28, Z5;    \
	VPORD Z5, Z4, Z4;      \
	VPSUBB Z30, Z4, Z4;    \
	VMOVDQU32 Z4, (o+1024)(DI)

// Sixteen columns each of four blocks of 32 of Q6_K, from the bytes at low, low+32 and high, to the panel at o.
#define PACK_QUAD_6(low, high, o) \
	PACK16(high);          \
	VMOVDQA32 Z0, Z8;      \
	VMOVDQA32 Z1, Z9;      \
	VMOVDQA32 Z2, Z10;     \
	VMOVDQA32 Z3, Z11;     \
	PACK16(low);           \
	PACK_SIX(Z0, Z8, o, VPSLLW, 4, VPSLLW, 0);       \
	PACK_SIX(Z1, Z9, o+64, VPSLLW, 4, VPSLLW, 0);    \
	PACK_SIX(Z2, Z10, o+128, VPSLLW, 4, VPSLLW, 0);  \
	PACK_SIX(Z3, Z11, o+192, VPSLLW, 4, VPSLLW, 0);  \
	PACK16(low+32);        \
	PACK_SIX(Z0, Z8, o+512, VPSLLW, 2, VPSRLW, 2);   \
	PACK_SIX(Z1, Z9, o+576, VPSLLW, 2, VPSRLW, 2);   \
	PACK_SIX(Z2, Z10, o+640, VPSLLW, 2, VPSRLW, 2);  \
	PACK_SIX(Z3, Z11, o+704, VPSLLW, 2, VPSRLW, 2)

// Four of the scales of Q6_K, the bytes of Z.
#define PACK_SCALES_6(Z, o) \
	PACK_SIGNED(0, Z, Z8, o, DX);     \
	PACK_SIGNED(1, Z, Z8, o+64, DX);  \
	PACK_SIGNED(2, Z, Z8, o+128, DX); \
	PACK_SIGNED(3, Z, Z8, o+192, DX)

// The lower nibbles of Z to the panel at o, and the upper ones sixteen columns on, less 16 where the bit that M chooses
// is clear in the byte of LOW, or of HIGH.
#define PACK_FIVE(o, Z, LOW, HIGH, M) \
	VPSRLW $4, Z, Z4;          \
	VPANDD Z, Z31, Z;          \
	VPANDD Z4, Z31, Z4;        \
	VPTESTNMB M, LOW, K4;      \
	VPTESTNMB M, HIGH, K5;     \
	VPSUBB Z30, Z, K4, Z;      \
	VPSUBB Z30, Z4, K5, Z4;    \
	VMOVDQU32 Z, o(DI);        \
	VMOVDQU32 Z4, (o+256)(DI)

// func packQ8_0VNNI(a *packArgs)
TEXT ·packQ8_0VNNI(SB), NOSPLIT, $0-8
	PACK_ARGS
blk:
	PACK16(2)
	PACK_STORE(0, Z0, Z1, Z2, Z3)
	PACK16(18)
	PACK_STORE(256, Z0, Z1, Z2, Z3)
	PACK_HALVES(0)
	VMOVUPS Z4, (DX)
	PACK_NEXT(34, 32)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ4_0VNNI(a *packArgs)
TEXT ·packQ4_0VNNI(SB), NOSPLIT, $0-8
	PACK_ARGS
	WORDS($0x0f0f0f0f, Z31)
	WORDS($0x08080808, Z30)
blk:
	PACK16(2)
	PACK_NIBBLES(0, Z0)
	PACK_NIBBLES(64, Z1)
	PACK_NIBBLES(128, Z2)
	PACK_NIBBLES(192, Z3)
	PACK_HALVES(0)
	VMOVUPS Z4, (DX)
	PACK_NEXT(18, 32)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ5_0VNNI(a *packArgs)
// Z9-Z12 bytes 0-3 of the high bits of each row, four times.
TEXT ·packQ5_0VNNI(SB), NOSPLIT, $0-8
	PACK_ARGS
	WORDS($0x0f0f0f0f, Z31)
	WORDS($0x10101010, Z30)
	WORDS($0x08040201, Z29)
	WORDS($0x80402010, Z28)
	WORDS($0x01010101, Z20)
	VBROADCASTI32X4 byte0<>(SB), Z24
	VPADDB Z20, Z24, Z25
	VPADDB Z20, Z25, Z26
	VPADDB Z20, Z26, Z27
blk:
	PACK16(2)
	VPSHUFB Z24, Z0, Z9
	VPSHUFB Z25, Z0, Z10
	VPSHUFB Z26, Z0, Z11
	VPSHUFB Z27, Z0, Z12
	PACK16(6)
	PACK_FIVE(0, Z0, Z9, Z11, Z29)
	PACK_FIVE(64, Z1, Z9, Z11, Z28)
	PACK_FIVE(128, Z2, Z10, Z12, Z29)
	PACK_FIVE(192, Z3, Z10, Z12, Z28)
	PACK_HALVES(0)
	VMOVUPS Z4, (DX)
	PACK_NEXT(22, 32)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// Byte 0 of each word, four times.
DATA byte0<>+0(SB)/8, $0x0404040400000000
DATA byte0<>+8(SB)/8, $0x0c0c0c0c08080808
GLOBL byte0<>(SB), RODATA|NOPTR, $16

// func packQ4_KVNNI(a *packArgs)
TEXT ·packQ4_KVNNI(SB), NOSPLIT, $0-8
	PACK_ARGS
	WORDS($0x0f0f0f0f, Z31)
	WORDS($0x3f3f3f3f, Z29)
	WORDS($0x30303030, Z28)
	WORDS($0x000000ff, Z27)
blk:
	PACK_SCALES_K
	PACK_PAIR_K(16, 0)
	PACK_PAIR_K(32, 256)
	PACK_PAIR_K(48, 1024)
	PACK_PAIR_K(64, 1280)
	PACK_PAIR_K(80, 2048)
	PACK_PAIR_K(96, 2304)
	PACK_PAIR_K(112, 3072)
	PACK_PAIR_K(128, 3328)
	PACK_NEXT(144, 256)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
fetched:
	SUBQ $256, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ5_KVNNI(a *packArgs)
TEXT ·packQ5_KVNNI(SB), NOSPLIT, $0-8
	PACK_ARGS
	WORDS($0x0f0f0f0f, Z31)
	WORDS($0x3f3f3f3f, Z29)
	WORDS($0x30303030, Z28)
	WORDS($0x000000ff, Z27)
	WORDS($0x10101010, Z26)
blk:
	PACK_SCALES_K
	PACK16(16)
	PACK_KEEP(Z16, Z17, Z18, Z19)
	PACK16(32)
	PACK_KEEP(Z20, Z21, Z22, Z23)
	PACK_PAIR_5(0, VPSLLW, 4, VPSLLW, 3)
	PACK_PAIR_5(1, VPSLLW, 2, VPSLLW, 1)
	PACK_PAIR_5(2, VPSLLW, 0, VPSRLW, 1)
	PACK_PAIR_5(3, VPSRLW, 2, VPSRLW, 3)
	PACK_NEXT(176, 256)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
fetched:
	SUBQ $256, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ6_KVNNI(a *packArgs)
TEXT ·packQ6_KVNNI(SB), NOSPLIT, $0-8
	PACK_ARGS
	WORDS($0x0f0f0f0f, Z31)
	WORDS($0x20202020, Z30)
	WORDS($0x30303030, Z28)
blk:
	PACK_QUAD_6(0, 128, 0)
	PACK_QUAD_6(16, 144, 256)
	PACK_QUAD_6(64, 160, 2048)
	PACK_QUAD_6(80, 176, 2304)
	PACK_HALVES(208)
	VMOVAPS Z4, Z8
	PACK16(192)
	PACK_SCALES_6(Z0, 0)
	PACK_SCALES_6(Z1, 256)
	PACK_SCALES_6(Z2, 512)
	PACK_SCALES_6(Z3, 768)
	PACK_NEXT(210, 256)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
	PREFETCH_NEXT(R12, R13)
fetched:
	SUBQ $256, R8
	JNZ  blk
	VZEROUPPER
	RET
