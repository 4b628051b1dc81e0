//go:build !noasm

#include "textflag.h"
#include "oct_avxvnni_amd64.h"

// func octQ4_0AVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)
TEXT ·octQ4_0AVXVNNI(SB), NOSPLIT, $16-168
	OCT_Q4_0

// To (16+32·b)(SP) and (48+32·b)(SP) the activations of blocks b and b+1 as the high bits of Q5_0 lie: columns j, 8+j, 16+j and 24+j to a
// dword, of b in the lower halves and of b+1 in the upper ones.
#define Q5_0_ACTS(b) \
	VMOVDQU     (32*b)(DX)(R14*8), X4;             \
	VMOVDQU     (32*b+16)(DX)(R14*8), X5;          \
	VINSERTI128 $1, (32*b+32)(DX)(R14*8), Y4, Y4;  \
	VINSERTI128 $1, (32*b+48)(DX)(R14*8), Y5, Y5;  \
	VPSHUFB     octfive<>+16(SB), Y4, Y4;          \
	VPSHUFB     octfive<>+16(SB), Y5, Y5;          \
	VPUNPCKLWD  Y5, Y4, Y6;                        \
	VPUNPCKHWD  Y5, Y4, Y7;                        \
	VMOVDQU     Y6, (16+32*b)(SP);                 \
	VMOVDQU     Y7, (48+32*b)(SP)

// X = the dwords A and B.
#define TWO(A, B, X) \
	MOVL  B, AX;    \
	MOVL  A, R11;   \
	SHLQ  $32, AX;  \
	ORQ   R11, AX;  \
	VMOVQ AX, X

// The high bits at o of the eight rows: Y12 as they lie, those of columns 4 to 7 of each byte in its upper half, Y4 the same of columns 0 to 3.
#define Q5_0_BITS(o) \
	TWO((o)(SI), (o)(BX), X12);               \
	TWO((o)(SI)(R12*2), (o)(BX)(R12*2), X8);  \
	TWO((o)(SI)(R12*4), (o)(BX)(R12*4), X9);  \
	TWO((o)(SI)(R8*2), (o)(BX)(R8*2), X10);   \
	VPUNPCKLQDQ X8, X12, X12;                 \
	VPUNPCKLQDQ X10, X9, X9;                  \
	VINSERTI128 $1, X9, Y12, Y12;             \
	VPSLLW      $4, Y12, Y4

// Adds to P the high bits of columns 4+j and j of each byte, as they lie, 16·2^j, times their activations at (o)(SP).
#define Q5_0_BIT(j, o, P, p) \
	VPBROADCASTD octfive<>+(4*j)(SB), Y5;  \
	VPAND        Y5, Y12, Y6;              \
	VPAND        Y5, Y4, Y7;               \
	VPBROADCASTD (32+o+4*j)(SP), Y9;       \
	DPBUSD(9, 6, p);                       \
	VPBROADCASTD (o+4*j)(SP), Y8;          \
	DPBUSD(8, 7, p)

// Y10 = the products of the high bits of block b, activations at (o)(SP), with the offset: twice as much for the next bit, so halved on the way.
// Three sums, as one would have to wait too long for itself.
#define Q5_0_HIGH(b, o) \
	VPXOR  Y11, Y11, Y11;           \
	Q5_0_BIT(3, o, Y11, 11);        \
	VPXOR  Y10, Y10, Y10;           \
	Q5_0_BIT(2, o, Y10, 10);        \
	VPSRAD $1, Y11, Y11;            \
	VPADDD Y10, Y11, Y11;           \
	VPXOR  Y10, Y10, Y10;           \
	Q5_0_BIT(1, o, Y10, 10);        \
	VPSRAD $1, Y11, Y11;            \
	VPADDD Y10, Y11, Y11;           \
	VPBROADCASTD (4*b)(SP), Y10; \
	Q5_0_BIT(0, o, Y10, 10);        \
	VPSRAD $1, Y11, Y11;            \
	VPADDD Y11, Y10, Y10

// Block b of four of Q5_0, activations for its high bits at (o)(SP), to be added to A: those bits apart from the nibbles, so that they need not be
// brought to their places.
#define Q5_0_OCT(b, o, A) \
	OCT_SCALES(22*b);         \
	Q5_0_BITS(22*b+2);        \
	FETCH(2*b);               \
	Q5_0_HIGH(b, o);          \
	OCT_TURN(22*b+6, Y11);    \
	FETCH(2*b+1);             \
	VPXOR Y11, Y11, Y11;      \
	OCT_DOT(b);               \
	END(b);                   \
	OCT_ADD(b, A)

// func octQ5_0AVXVNNI(dst []float32, stride int, w []byte, x form, rows, n int)
TEXT ·octQ5_0AVXVNNI(SB), NOSPLIT, $144-168
	OCT_ARGS32(22, 0xfff0fff0)
oct:
	OCT_BEGIN32
four:
	OCT_OFFSETS
	Q5_0_ACTS(0)
	Q5_0_ACTS(2)
	Q5_0_OCT(0, 16, Y0)
	FETCH(8)
	Q5_0_OCT(1, 32, Y1)
	FETCH(9)
	Q5_0_OCT(2, 80, Y2)
	FETCH(10)
	Q5_0_OCT(3, 96, Y3)
	OCT_MOVE(4*22, 16, four)
	OCT_END(oct)

// Bits 4 to 7 of each byte; bytes 0 and 8, 1 and 9 and so on.
DATA octfive<>+0(SB)/8, $0x2020202010101010
DATA octfive<>+8(SB)/8, $0x8080808040404040
DATA octfive<>+16(SB)/8, $0x0b030a0209010800
DATA octfive<>+24(SB)/8, $0x0f070e060d050c04
DATA octfive<>+32(SB)/8, $0x0b030a0209010800
DATA octfive<>+40(SB)/8, $0x0f070e060d050c04
GLOBL octfive<>(SB), RODATA|NOPTR, $48
