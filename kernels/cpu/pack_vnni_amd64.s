//go:build !noasm

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

// The arguments of pack: DI w, DX ds, R8 columns left, SI, AX, BX, CX rows 0-3 of src, R10, R11 four and twelve rows in bytes, R12,
// R13 what to fetch ahead and its end.
#define PACK_ARGS \
	MOVQ w_base+0(FP), DI;    \
	MOVQ w_len+8(FP), R8;     \
	MOVQ ds_base+24(FP), DX;  \
	MOVQ src_base+48(FP), SI; \
	MOVQ stride+72(FP), R9;   \
	QUARTERS; \
	MOVQ ahead_base+80(FP), R12; \
	MOVQ ahead_len+88(FP), R13;  \
	ADDQ R12, R13;            \
	SHRQ $4, R8;              \
	LEAQ (SI)(R9*1), AX;      \
	LEAQ (AX)(R9*1), BX;      \
	LEAQ (BX)(R9*1), CX;      \
	LEAQ (R9*4), R10;         \
	LEAQ (R10)(R10*2), R11

// To the next block, of size bytes.
#define PACK_NEXT(size) \
	ADDQ $size, SI; \
	ADDQ $size, AX; \
	ADDQ $size, BX; \
	ADDQ $size, CX; \
	ADDQ $512, DI;  \
	ADDQ $128, DX;  \
	FETCH(R12, R13)

// (DX) = the scales of sixteen rows.
#define PACK_SCALES \
	VPINSRW $0, (SI), X4, X4;         \
	VPINSRW $1, (AX), X4, X4;         \
	VPINSRW $2, (BX), X4, X4;         \
	VPINSRW $3, (CX), X4, X4;         \
	VPINSRW $4, (SI)(R10*1), X4, X4;  \
	VPINSRW $5, (AX)(R10*1), X4, X4;  \
	VPINSRW $6, (BX)(R10*1), X4, X4;  \
	VPINSRW $7, (CX)(R10*1), X4, X4;  \
	VPINSRW $0, (SI)(R10*2), X5, X5;  \
	VPINSRW $1, (AX)(R10*2), X5, X5;  \
	VPINSRW $2, (BX)(R10*2), X5, X5;  \
	VPINSRW $3, (CX)(R10*2), X5, X5;  \
	VPINSRW $4, (SI)(R11*1), X5, X5;  \
	VPINSRW $5, (AX)(R11*1), X5, X5;  \
	VPINSRW $6, (BX)(R11*1), X5, X5;  \
	VPINSRW $7, (CX)(R11*1), X5, X5;  \
	VINSERTI128 $1, X5, Y4, Y4;       \
	VCVTPH2PS Y4, Z4;                 \
	VMOVUPS Z4, (DX)

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

// func interleave16(dst, src []uint32, stride, cols int)
// Four columns at a time: in each quarter of Z0-Z3 four rows, which are transposed. SI, AX, BX, CX rows 0-3 of src, R8 columns left.
TEXT ·interleave16(SB), NOSPLIT, $0-64
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	QUARTERS
	MOVQ stride+48(FP), R9
	MOVQ cols+56(FP), R8
	SHLQ $2, R9
	LEAQ (SI)(R9*1), AX
	LEAQ (AX)(R9*1), BX
	LEAQ (BX)(R9*1), CX
	LEAQ (R9*4), R10
	LEAQ (R10)(R10*2), R11
four:
	GATHER16(0, SI, Z0, X0)
	GATHER16(0, AX, Z1, X1)
	GATHER16(0, BX, Z2, X2)
	GATHER16(0, CX, Z3, X3)
	TRANSPOSE16
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	ADDQ $16, SI
	ADDQ $16, AX
	ADDQ $16, BX
	ADDQ $16, CX
	ADDQ $256, DI
	SUBQ $4, R8
	JGT  four
	VZEROUPPER
	RET

// func packQ8_0VNNI(w []int8, ds []float32, src []byte, stride int, ahead []byte)
TEXT ·packQ8_0VNNI(SB), NOSPLIT, $0-104
	PACK_ARGS
blk:
	PACK16(2)
	PACK_STORE(0, Z0, Z1, Z2, Z3)
	PACK16(18)
	PACK_STORE(256, Z0, Z1, Z2, Z3)
	PACK_SCALES
	PACK_NEXT(34)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET

// func packQ4_0VNNI(w []int8, ds []float32, src []byte, stride int, ahead []byte)
TEXT ·packQ4_0VNNI(SB), NOSPLIT, $0-104
	PACK_ARGS
	WORDS($0x0f0f0f0f, Z31)
	WORDS($0x08080808, Z30)
blk:
	PACK16(2)
	PACK_NIBBLES(0, Z0)
	PACK_NIBBLES(64, Z1)
	PACK_NIBBLES(128, Z2)
	PACK_NIBBLES(192, Z3)
	PACK_SCALES
	PACK_NEXT(18)
fetched:
	SUBQ $32, R8
	JNZ  blk
	VZEROUPPER
	RET
