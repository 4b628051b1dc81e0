//go:build !noasm

#include "textflag.h"
#include "oct_avxvnni_amd64.h"

// oct for Q4_K with AVX-VNNI. Block b of 32 goes to lane b mod 8: Y0-Y3 sums of lanes 0 to 3, (32·l)(SP) those of lanes 4 to 7, for l from 4 on.
// Scale and minimum of block k of eight wait at (256+32·k)(SP) and (512+32·k)(SP). R13 s, Y14 bits 4 and 5 of each byte.

// D times byte 0, 1, 2 or 3 of the dwords SRC, to (o)(SP) and what follows. Y7, Y10, Y11 choose bytes 0, 1 and 2.
#define KEEP(SRC, D, o) \
	VPSHUFB   Y7, SRC, Y13;       \
	VCVTDQ2PS Y13, Y13;           \
	VMULPS    D, Y13, Y13;        \
	VMOVUPS   Y13, (o)(SP);       \
	VPSHUFB   Y10, SRC, Y13;      \
	VCVTDQ2PS Y13, Y13;           \
	VMULPS    D, Y13, Y13;        \
	VMOVUPS   Y13, (o+32)(SP);    \
	VPSHUFB   Y11, SRC, Y13;      \
	VCVTDQ2PS Y13, Y13;           \
	VMULPS    D, Y13, Y13;        \
	VMOVUPS   Y13, (o+64)(SP);    \
	VPSRLD    $24, SRC, Y13;      \
	VCVTDQ2PS Y13, Y13;           \
	VMULPS    D, Y13, Y13;        \
	VMOVUPS   Y13, (o+96)(SP)

// The scales and minima of a block of Q4_K, to the stack: see scalesK.
#define SCALES_K \
	OCT_TURN(0, Y10);                  \
	VBROADCASTI128 octk<>+0(SB), Y8;   \
	VPSHUFB Y8, Y4, Y8;                \
	VPERMQ  $0xd8, Y8, Y8;             \
	FETCH(0);                          \
	VEXTRACTI128 $1, Y8, X9;           \
	VCVTPH2PS X8, Y8;                  \ // d
	VCVTPH2PS X9, Y9;                  \ // dmin
	VPSRLW $2, Y5, Y4;                 \
	VPSRLW $2, Y6, Y12;                \
	VPAND  Y14, Y4, Y4;                \
	VPAND  Y14, Y12, Y12;              \
	VPAND  Y15, Y7, Y10;               \
	VPSRLW $4, Y7, Y7;                 \
	VPAND  Y15, Y7, Y7;                \
	VPOR   Y10, Y4, Y4;                \ // the last four scales
	VPOR   Y7, Y12, Y12;               \ // the last four minima
	VPOR   Y14, Y15, Y10;              \
	VPAND  Y10, Y5, Y5;                \
	VPAND  Y10, Y6, Y6;                \
	VBROADCASTI128 octk<>+16(SB), Y7;  \
	VBROADCASTI128 octk<>+32(SB), Y10; \
	VBROADCASTI128 octk<>+48(SB), Y11; \
	KEEP(Y5, Y8, 256);                 \
	KEEP(Y4, Y8, 384);                 \
	FETCH(1);                          \
	KEEP(Y6, Y9, 512);                 \
	KEEP(Y12, Y9, 640)

// Y10 and Y11 get the products of the low nibbles of four dwords with activations at (o)(DX), of the high ones 32 columns on.
#define DOT_K(o, line) \
	LOW(Y4, 4, (o)(DX)(R14*8));               \
	HIGH(Y4, 4, (o+32)(DX)(R14*8));        \
	LOW(Y5, 5, (o+4)(DX)(R14*8));             \
	HIGH(Y5, 5, (o+36)(DX)(R14*8));        \
	FETCH(line);                           \
	LOW(Y6, 6, (o+8)(DX)(R14*8));             \
	HIGH(Y6, 6, (o+40)(DX)(R14*8));        \
	LOW(Y7, 7, (o+12)(DX)(R14*8));            \
	HIGH(Y7, 7, (o+44)(DX)(R14*8));        \
	FETCH(line+1)

// Adds the integers P of block k times its scale, times d, to A, and subtracts its minimum.
#define ADD_K(k, P, A) \
	VCVTDQ2PS    P, P;                      \
	VBROADCASTSS (4*(k))(CX)(R14*1), Y9;    \
	VMULPS       (256+32*(k))(SP), Y9, Y9;  \
	VFMADD231PS  P, Y9, A;                  \
	VBROADCASTSS (4*(k))(R13)(R14*1), Y9;   \
	VFNMADD231PS (512+32*(k))(SP), Y9, A

// Y10 and Y11 = the integers of blocks 2j and 2j+1 of Q4_K.
#define DOTS_K(j) \
	OCT_TURN(16+32*j, Y13);      \
	VPXOR  Y10, Y10, Y10;        \
	VPXOR  Y11, Y11, Y11;        \
	DOT_K(64*j, 2+4*j);          \
	OCT_TURN(32+32*j, Y13);      \
	DOT_K(64*j+16, 4+4*j);       \
	VPSRAD $4, Y11, Y11

// ADD_K to the sums of a lane on the stack.
#define ADD_LATER(k, P) \
	VMOVUPS (32*(k))(SP), Y12;   \
	ADD_K(k, P, Y12);            \
	VMOVUPS Y12, (32*(k))(SP)

// func octQ4_KAVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)
TEXT ·octQ4_KAVXVNNI(SB), 0, $768-168
	OCT_ARGS(144, 8)
	MOVQ x_s_base+104(FP), R13
	SPLAT($0x30303030, X14, Y14)
oct:
	OCT_BEGIN32
	VMOVUPS Y0, 128(SP)
	VMOVUPS Y0, 160(SP)
	VMOVUPS Y0, 192(SP)
	VMOVUPS Y0, 224(SP)
blk:
	SCALES_K
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
	OCT_MOVE(144, 32, blk)
	VADDPS 128(SP), Y0, Y0
	VADDPS 160(SP), Y1, Y1
	VADDPS 192(SP), Y2, Y2
	VADDPS 224(SP), Y3, Y3
	OCT_END(oct)

// The low words of dwords, then their high words; bytes 0, 1 and 2 of each dword.
DATA octk<>+0(SB)/8, $0x0d0c090805040100
DATA octk<>+8(SB)/8, $0x0f0e0b0a07060302
DATA octk<>+16(SB)/8, $0x8080800480808000
DATA octk<>+24(SB)/8, $0x8080800c80808008
DATA octk<>+32(SB)/8, $0x8080800580808001
DATA octk<>+40(SB)/8, $0x8080800d80808009
DATA octk<>+48(SB)/8, $0x8080800680808002
DATA octk<>+56(SB)/8, $0x8080800e8080800a
GLOBL octk<>(SB), RODATA|NOPTR, $64
