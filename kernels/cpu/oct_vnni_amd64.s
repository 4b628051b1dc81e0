//go:build !noasm

#include "textflag.h"
#include "oct_amd64.h"

#define SCALES8(o, IDX, Z, Y) \
	VPERMW (o)(SI), IDX, Z;                 \
	VPERMW (o)(SI)(R12*4), IDX, Z9;         \
	VMOVDQA32 Z9, K5, Z

#define Q8_0_OCT(j, line) \
	TURN8(68*j+2, Z0, Z1, Z2, Z3); \
	FETCH(line); \
	FETCH(line+1); \
	TURN8(68*j+36, Z4, Z5, Z6, Z7); \
	FETCH(line+2); \
	FETCH(line+3); \
	VPBROADCASTD octq8<>+0(SB), Z12; \
	VPXORD Z12, Z0, Z0; \
	VPXORD Z12, Z1, Z1; \
	VPXORD Z12, Z2, Z2; \
	VPXORD Z12, Z3, Z3; \
	FETCH(line+4); \
	FETCH(line+5); \
	VPXORD Z12, Z4, Z4; \
	VPXORD Z12, Z5, Z5; \
	VPXORD Z12, Z6, Z6; \
	VPXORD Z12, Z7, Z7; \
	VPBROADCASTD octq8<>+4(SB), Z12; \
	VPERMW (68*j)(SI), Z12, Z8; \
	VPERMW (68*j)(SI)(R12*4), Z12, Z9; \
	VPERMW (68*j)(BX), Z12, K1, Z8; \
	VPERMW (68*j)(BX)(R12*4), Z12, K1, Z9; \
	FETCH(line+6); \
	VPERMW (68*j)(SI)(R12*2), Z12, K2, Z8; \
	VPERMW (68*j)(SI)(R8*2), Z12, K2, Z9; \
	FETCH(line+7); \
	VPERMW (68*j)(BX)(R12*2), Z12, K3, Z8; \
	VPERMW (68*j)(BX)(R8*2), Z12, K3, Z9; \
	VMOVDQA32 Z9, K5, Z8; \
	VCVTPH2PS Y8, Z13

// func octQ8_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ8_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(34, 0xff80ff80, 4096)
oct:
	BEGIN8
four:
	Q8_0_OCT(0, 0)
	ACTS8(0, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, first)
	FETCH(8)
	Q8_0_OCT(1, 9)
	ACTS8(1, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31, second)
	ADDQ $(4*8*34), R15
	ADDQ $(4*34), SI
	ADDQ $(4*34), BX
	ADDQ $16, R14
	CMPQ R14, R9
	JLT  four
	END8(oct, put)

DATA octq8<>+0(SB)/4, $0x80808080
DATA octq8<>+4(SB)/4, $0x00110000
GLOBL octq8<>(SB), RODATA|NOPTR, $8


#define NIBBLES8(o, A, B, C, D) \
	VMOVDQU      (o)(SI), X8;                   \
	VMOVDQU      (o)(BX), X9;                   \
	VINSERTI128  $1, (o)(SI)(R12*2), Y8, Y8;    \
	VINSERTI128  $1, (o)(BX)(R12*2), Y9, Y9;    \
	VINSERTI32X4 $2, (o)(SI)(R12*4), Z8, Z8;    \
	VINSERTI32X4 $2, (o)(BX)(R12*4), Z9, Z9;    \
	VINSERTI32X4 $3, (o)(SI)(R8*2), Z8, Z8;     \
	VINSERTI32X4 $3, (o)(BX)(R8*2), Z9, Z9;     \
	VPUNPCKLQDQ  Z9, Z8, A;  \
	VPUNPCKHQDQ  Z9, Z8, B;  \
	VPSRLW $4, A, C; \
	VPSRLW $4, B, D; \
	VPBROADCASTD octnib<>+0(SB), Z8; \
	VPANDD Z8, A, A; \
	VPANDD Z8, B, B; \
	VPANDD Z8, C, C; \
	VPANDD Z8, D, D

#define Q4_0_OCT(j, line) \
	FETCH(line); \
	NIBBLES8(36*j+2, Z0, Z1, Z2, Z3); \
	FETCH(line+1); \
	FETCH(line+2); \
	NIBBLES8(36*j+20, Z4, Z5, Z6, Z7); \
	FETCH(line+3)

#define Q4_0_SCALES \
	VMOVDQU32 octq4<>(SB), Z10; \
	VPERMW (SI), Z10, Z12; \
	VPERMW (SI)(R12*4), Z10, Z9; \
	VPERMW (BX), Z10, K1, Z12; \
	VPERMW (BX)(R12*4), Z10, K1, Z9; \
	FETCH(4); \
	VPERMW (SI)(R12*2), Z10, K2, Z12; \
	VPERMW (SI)(R8*2), Z10, K2, Z9; \
	VPERMW (BX)(R12*2), Z10, K3, Z12; \
	VPERMW (BX)(R8*2), Z10, K3, Z9; \
	VMOVDQA32 Z9, K5, Z12; \
	VCVTPH2PS Y12, Z13

// func octQ4_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ4_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(18, 0xfff8fff8, 4096)
oct:
	BEGIN8
four:
	Q4_0_SCALES
	Q4_0_OCT(0, 0)
	ACTS8(0, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, first)
	VEXTRACTI64X4 $1, Z12, Y13
	VCVTPH2PS Y13, Z13
	Q4_0_OCT(1, 5)
	ACTS8(1, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31, second)
	ADDQ $(4*8*18), R15
	ADDQ $(4*18), SI
	ADDQ $(4*18), BX
	ADDQ $16, R14
	CMPQ R14, R9
	JLT  four
	END8(oct, put)

#define HEADS8(o, Z, T) \
	VPBROADCASTQ (o)(SI), Z; \
	VPBROADCASTQ (o)(SI)(R12*4), T; \
	VPBROADCASTQ (o)(BX), K1, Z; \
	VPBROADCASTQ (o)(BX)(R12*4), K1, T; \
	VPBROADCASTQ (o)(SI)(R12*2), K2, Z; \
	VPBROADCASTQ (o)(SI)(R8*2), K2, T; \
	VPBROADCASTQ (o)(BX)(R12*2), K3, Z; \
	VPBROADCASTQ (o)(BX)(R8*2), K3, T; \
	VMOVDQA64 T, K5, Z

#define BITS8(i, Z, W) \
	VPSHUFB octbit<>+(64*i)(SB), Z, Z8; \
	VPTESTMB Z13, Z8, K7; \
	VPADDB Z12, W, K7, W

#define Q5_0_OCT(j, line) \
	VPBROADCASTQ octbits<>(SB), Z13; \
	VPBROADCASTD octnib<>+4(SB), Z12; \
	FETCH(line); \
	NIBBLES8(44*j+6, Z0, Z1, Z2, Z3); \
	FETCH(line+1); \
	HEADS8(44*j, Z10, Z9); \
	BITS8(0, Z10, Z0); \
	BITS8(1, Z10, Z1); \
	FETCH(line+2); \
	BITS8(2, Z10, Z2); \
	BITS8(3, Z10, Z3); \
	NIBBLES8(44*j+28, Z4, Z5, Z6, Z7); \
	FETCH(line+3); \
	HEADS8(44*j+22, Z11, Z9); \
	BITS8(0, Z11, Z4); \
	BITS8(1, Z11, Z5); \
	FETCH(line+4); \
	BITS8(2, Z11, Z6); \
	BITS8(3, Z11, Z7); \
	VPSLLD $16, Z11, Z11; \
	VPTERNLOGD.BCST $0xec, octnib<>+8(SB), Z11, Z10; \
	VPMOVQD Z10, Y10; \
	VCVTPH2PS Y10, Z13

// func octQ5_0VNNI(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int)
TEXT ·octQ5_0VNNI(SB), NOSPLIT, $16-168
	OCT_ARGS(22, 0xfff0fff0, 4096)
	MOVL $0x22, AX
	KMOVW AX, K1
	MOVL $0x44, AX
	KMOVW AX, K2
	MOVL $0x88, AX
	KMOVW AX, K3
	MOVL $0xf0, AX
	KMOVW AX, K5
oct:
	BEGIN8
four:
	Q5_0_OCT(0, 0)
	ACTS8(0, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, first)
	FETCH(5)
	Q5_0_OCT(1, 6)
	ACTS8(1, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31, second)
	ADDQ $(4*8*22), R15
	ADDQ $(4*22), SI
	ADDQ $(4*22), BX
	ADDQ $16, R14
	CMPQ R14, R9
	JLT  four
	END8(oct, put)

DATA octnib<>+0(SB)/4, $0x0f0f0f0f
DATA octnib<>+4(SB)/4, $0x10101010
DATA octnib<>+8(SB)/4, $0x0000ffff
GLOBL octnib<>(SB), RODATA|NOPTR, $12

DATA octbits<>+0(SB)/8, $0x8040201008040201
GLOBL octbits<>(SB), RODATA|NOPTR, $8

DATA octq4<>+0(SB)/8, $0x0009000000090000
DATA octq4<>+8(SB)/8, $0x0009000000090000
DATA octq4<>+16(SB)/8, $0x0009000000090000
DATA octq4<>+24(SB)/8, $0x0009000000090000
DATA octq4<>+32(SB)/8, $0x001b0012001b0012
DATA octq4<>+40(SB)/8, $0x001b0012001b0012
DATA octq4<>+48(SB)/8, $0x001b0012001b0012
DATA octq4<>+56(SB)/8, $0x001b0012001b0012
GLOBL octq4<>(SB), RODATA|NOPTR, $64

DATA octbit<>+0(SB)/8, $0x0202020202020202
DATA octbit<>+8(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octbit<>+16(SB)/8, $0x0202020202020202
DATA octbit<>+24(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octbit<>+32(SB)/8, $0x0202020202020202
DATA octbit<>+40(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octbit<>+48(SB)/8, $0x0202020202020202
DATA octbit<>+56(SB)/8, $0x0a0a0a0a0a0a0a0a
DATA octbit<>+64(SB)/8, $0x0303030303030303
DATA octbit<>+72(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octbit<>+80(SB)/8, $0x0303030303030303
DATA octbit<>+88(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octbit<>+96(SB)/8, $0x0303030303030303
DATA octbit<>+104(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octbit<>+112(SB)/8, $0x0303030303030303
DATA octbit<>+120(SB)/8, $0x0b0b0b0b0b0b0b0b
DATA octbit<>+128(SB)/8, $0x0404040404040404
DATA octbit<>+136(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octbit<>+144(SB)/8, $0x0404040404040404
DATA octbit<>+152(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octbit<>+160(SB)/8, $0x0404040404040404
DATA octbit<>+168(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octbit<>+176(SB)/8, $0x0404040404040404
DATA octbit<>+184(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA octbit<>+192(SB)/8, $0x0505050505050505
DATA octbit<>+200(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octbit<>+208(SB)/8, $0x0505050505050505
DATA octbit<>+216(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octbit<>+224(SB)/8, $0x0505050505050505
DATA octbit<>+232(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA octbit<>+240(SB)/8, $0x0505050505050505
DATA octbit<>+248(SB)/8, $0x0d0d0d0d0d0d0d0d
GLOBL octbit<>(SB), RODATA|NOPTR, $256

// Of two registers of dword pairs the second of the one and the first of the other.
DATA octswap<>+0(SB)/8, $0x0000001000000001
DATA octswap<>+8(SB)/8, $0x0000001200000003
DATA octswap<>+16(SB)/8, $0x0000001400000005
DATA octswap<>+24(SB)/8, $0x0000001600000007
DATA octswap<>+32(SB)/8, $0x0000001800000009
DATA octswap<>+40(SB)/8, $0x0000001a0000000b
DATA octswap<>+48(SB)/8, $0x0000001c0000000d
DATA octswap<>+56(SB)/8, $0x0000001e0000000f
GLOBL octswap<>(SB), RODATA|NOPTR, $64
