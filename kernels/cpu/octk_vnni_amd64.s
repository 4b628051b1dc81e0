//go:build !noasm

#include "textflag.h"
#include "quad_amd64.h"
#include "oct_amd64.h"

// oct for Q4_K, whose block b of 32 goes to lane b mod 8: four registers of sums to a row of activations, so that four rows fit. Two of
// eight blocks at a time, 2j and 2j+1, with Z13 their scales and Z14 their minima, which wait at 64+128j and 128+128j of the stack. R13 s.

// Adds blocks 2j and 2j+1 of a row of activations to A and subtracts their minima.
#define OCTK_ACT(j, A) \
	OCT_DOT(j);                          \
	OCT_ADD(j, A);                       \
	VPBROADCASTQ (8*j)(R13)(R11*1), Z10; \
	VFNMADD231PS Z10, Z14, A

// OCTK_ACT for all rows of activations.
#define OCTK_ACTS(j, A, B, C, D, end) \
	MOVQ DX, AX;    \
	MOVQ R14, R11;  \
	OCTK_ACT(j, A); \
	NEXT(1, end);   \
	OCTK_ACT(j, B); \
	NEXT(2, end);   \
	OCTK_ACT(j, C); \
	NEXT(3, end);   \
	OCTK_ACT(j, D); \
end:

// A = the first four scales of four heads H, in dword 1 of each quarter, and minima, in dword 2; C = the last four. Z13 how far to shift
// those, Z14 the low nibbles.
#define SIXBITS(H, A, C) \
	VPANDD.BCST octk<>+64(SB), H, A; \
	VPSRLW  $2, H, Z12;              \
	VPSHUFD $0xff, H, C;             \
	VPSRLVD Z13, C, C;               \
	VPANDD  Z14, C, C;               \
	VPTERNLOGD.BCST $0xf8, octk<>+68(SB), Z12, C

// The bytes of SRC in IDX times D, to o of the stack.
#define KEEP(SRC, IDX, D, o) \
	VPSHUFB IDX, SRC, Z12; \
	VCVTDQ2PS Z12, Z12;    \
	VMULPS  D, Z12, Z12;   \
	VMOVUPS Z12, (o)(SP)

// The scales and minima of a block of Q4_K of eight rows, to the stack: see scalesK. Fetches two lines.
#define SCALES8_K \
	SIXTEEN8(0, Z0, Z1);                 \
	FETCH(0);                            \
	VBROADCASTI32X4 octk<>+80(SB), Z13;  \
	VPBROADCASTD nibble<>(SB), Z14;      \
	SIXBITS(Z0, Z2, Z3);                 \
	SIXBITS(Z1, Z4, Z5);                 \
	VPUNPCKLDQ Z1, Z0, Z1;               \
	VMOVDQU32 octk<>+96(SB), Y0;         \
	VPERMW Z1, Z0, Z6;                   \
	VPSRLD $16, Z1, Z1;                  \
	VPERMW Z1, Z0, Z7;                   \
	VCVTPH2PS Y6, Z6;                    \ // d
	VCVTPH2PS Y7, Z7;                    \ // dmin
	FETCH(1);                            \
	VPUNPCKLDQ Z4, Z2, Z0;               \
	VPUNPCKHDQ Z4, Z2, Z1;               \
	VPUNPCKLDQ Z5, Z3, Z2;               \
	VPUNPCKHDQ Z5, Z3, Z3;               \
	VBROADCASTI32X4 octk<>+0(SB), Z8;    \
	VBROADCASTI32X4 octk<>+16(SB), Z9;   \
	VBROADCASTI32X4 octk<>+32(SB), Z10;  \
	VBROADCASTI32X4 octk<>+48(SB), Z11;  \
	KEEP(Z0, Z8, Z6, 64);                \
	KEEP(Z1, Z10, Z7, 128);              \
	KEEP(Z0, Z9, Z6, 192);               \
	KEEP(Z1, Z11, Z7, 256);              \
	KEEP(Z2, Z8, Z6, 320);               \
	KEEP(Z3, Z10, Z7, 384);              \
	KEEP(Z2, Z9, Z6, 448);               \
	KEEP(Z3, Z11, Z7, 512)

// Blocks 2j and 2j+1 of Q4_K. Fetches four lines.
#define Q4_K_TWO(j) \
	TURN8(16+32*j, Z0, Z1, Z2, Z3);      \
	FETCH(2+4*j);                        \
	VPBROADCASTD nibble<>(SB), Z8;       \
	VPSRLW $4, Z0, Z4;                   \
	VPSRLW $4, Z1, Z5;                   \
	FETCH(3+4*j);                        \
	VPSRLW $4, Z2, Z6;                   \
	VPSRLW $4, Z3, Z7;                   \
	VPANDD Z8, Z0, Z0;                   \
	VPANDD Z8, Z1, Z1;                   \
	FETCH(4+4*j);                        \
	VPANDD Z8, Z2, Z2;                   \
	VPANDD Z8, Z3, Z3;                   \
	VPANDD Z8, Z4, Z4;                   \
	VPANDD Z8, Z5, Z5;                   \
	FETCH(5+4*j);                        \
	VPANDD Z8, Z6, Z6;                   \
	VPANDD Z8, Z7, Z7;                   \
	VMOVUPS (64+128*j)(SP), Z13;         \
	VMOVUPS (128+128*j)(SP), Z14

// Adds the lanes of B, a lane on by four, to those of A, and puts their sum: see OCT_PUT.
#define OCTK_PUT(A, B, C, D, number, end) \
	VADDPS C, A, A; \
	VADDPS D, B, B; \
	OCT_PUT(A, B, number, end)

// func octQ4_KVNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ4_KVNNI(SB), 0, $576-168
	OCT_ARGS(144, 8, 8192)
	MOVQ s_base+104(FP), R13
oct:
	OCT_BEGIN
blk:
	SCALES8_K
	Q4_K_TWO(0)
	OCTK_ACTS(0, Z16, Z20, Z24, Z28, two)
	Q4_K_TWO(1)
	OCTK_ACTS(1, Z17, Z21, Z25, Z29, four)
	Q4_K_TWO(2)
	OCTK_ACTS(2, Z18, Z22, Z26, Z30, six)
	Q4_K_TWO(3)
	OCTK_ACTS(3, Z19, Z23, Z27, Z31, eight)
	ADDQ $(8*144), R15
	ADDQ $144, SI
	ADDQ $144, BX
	ADDQ $32, R14
	CMPQ R14, R9
	JLT  blk
	MOVQ DI, R11
	MOVQ stride+24(FP), AX
	SHLQ $2, AX
	OCTK_PUT(Z16, Z17, Z18, Z19, 1, put)
	OCTK_PUT(Z20, Z21, Z22, Z23, 2, put)
	OCTK_PUT(Z24, Z25, Z26, Z27, 3, put)
	OCTK_PUT(Z28, Z29, Z30, Z31, 4, put)
	OCT_END(oct, put)

// Bytes 8, 9, 12 and 13, then 10, 11, 14 and 15, each to a dword; bytes 0, 1, 4 and 5, then 2, 3, 6 and 7; the low six bits of bytes, bits 4
// and 5; how far to shift the dwords with the low bits of the last four scales and minima; the words of d, two times each.
DATA octk<>+0(SB)/8, $0x8080800980808008
DATA octk<>+8(SB)/8, $0x8080800d8080800c
DATA octk<>+16(SB)/8, $0x8080800b8080800a
DATA octk<>+24(SB)/8, $0x8080800f8080800e
DATA octk<>+32(SB)/8, $0x8080800180808000
DATA octk<>+40(SB)/8, $0x8080800580808004
DATA octk<>+48(SB)/8, $0x8080800380808002
DATA octk<>+56(SB)/8, $0x8080800780808006
DATA octk<>+64(SB)/4, $0x3f3f3f3f
DATA octk<>+68(SB)/4, $0x30303030
DATA octk<>+72(SB)/8, $0
DATA octk<>+80(SB)/8, $0
DATA octk<>+88(SB)/8, $4
DATA octk<>+96(SB)/8, $0x0002000200000000
DATA octk<>+104(SB)/8, $0x000a000a00080008
DATA octk<>+112(SB)/8, $0x0012001200100010
DATA octk<>+120(SB)/8, $0x001a001a00180018
GLOBL octk<>(SB), RODATA|NOPTR, $128
