// Bodies of the dot products on weights that are quantised, shared by the NEON and the SDOT file. The file that
// includes this one defines, on the numbers of registers,
//   HALF(w, q, p)    p = four int32 that add up to the products of the 16 weights w and activations q
//   WHOLE(w, q, p)   p = the same for the 32 of w, w+1 with q, q+1; may use V10
//
// Order of the sums, here and in the tiles: the integers of a block (of a half block in Q6_K) are added exactly. What
// belongs to block b goes to accumulator b mod 4, or mod 8 for the types with blocks of 256, in ascending order of b;
// the accumulators are added at the end. So four blocks share one conversion, scale and addition: with SDOT 15 vector
// operations for four blocks of Q8_0.
//
// Q4_0 and Q6_K take their weights W - o unsigned, as W, and make up for it with -o·ΣQ for four blocks at once.

#include "unpack_arm64.h"

// Arguments of gemv: R0 dst, R1 end of w, R2 w, R3 q, R4 d, R5 blocks in a row, R6 s, R16 h; in a row R7 q, R8 d, R10
// s, R17 h, R9 blocks left; V0, V1 sums.
#define GEMV_ARGS \
	MOVD a+0(FP), R7; \
	MOVD gemmArgs_dst(R7), R0; \
	MOVD gemmArgs_w(R7), R2; \
	MOVD gemmArgs_wBytes(R7), R1; \
	ADD  R2, R1; \
	MOVD gemmArgs_q(R7), R3; \
	MOVD gemmArgs_d(R7), R4; \
	MOVD gemmArgs_n(R7), R5; \
	LSR  $5, R5; \
	MOVD gemmArgs_s(R7), R6; \
	MOVD gemmArgs_h(R7), R16
#define ROW_BEGIN \
	MOVD R3, R7; \
	MOVD R4, R8; \
	MOVD R6, R10; \
	MOVD R16, R17; \
	MOVD R5, R9; \
	ZERO(0); \
	ZERO(1)
#define ROW_END \
	HSUM(0, V0, 1, V1); \
	FMOVS.P F0, 4(R0); \
	CMP  R1, R2; \
	BLT  row; \
	RET

// A = the sums of A, B, C and D, in this order.
#define SUMS(A, B, C, D) \
	VADDP B.S4, A.S4, A.S4; \
	VADDP D.S4, C.S4, C.S4; \
	VADDP C.S4, A.S4, A.S4

// V2, V3 = the 32 weights of the block at R2+o, those of Q4_0 plus 8.
#define Q8_0_LOAD(o) \
	FMOVQ (2+o)(R2), F2; \
	FMOVQ (18+o)(R2), F3

#define Q4_0_CONST \
	VMOVI $15, V31.B16; \
	MOVD  $8, R11; \
	VDUP  R11, V30.S4
#define Q4_0_LOAD(o) \
	FMOVQ (2+o)(R2), F2; \
	VUSHR $4, V2.B16, V3.B16; \
	VAND  V31.B16, V2.B16, V2.B16

// V29 and V28 pick the byte that holds the high bit of a weight, V27 the bit. Where it is clear ones are put above the
// nibble, which is less 16.
#define Q5_0_CONST \
	VMOVI $255, V30.B16; \
	MOVD  $q5bytes<>(SB), R11; \
	VLD1  (R11), [V27.B16, V28.B16, V29.B16]
#define Q5_0_LOAD(o) \
	FMOVS (2+o)(R2), F12; \
	FMOVQ (6+o)(R2), F2; \
	VEOR  V30.B16, V12.B16, V12.B16; \
	VTBL  V28.B16, [V12.B16], V13.B16; \
	VTBL  V29.B16, [V12.B16], V14.B16; \
	VCMTST V27.B16, V13.B16, V13.B16; \
	VCMTST V27.B16, V14.B16, V14.B16; \
	VUSHR $4, V2.B16, V3.B16; \
	VSLI  $4, V13.B16, V2.B16; \
	VSLI  $4, V14.B16, V3.B16

// What the weights of Q4_0 have too much of activations, taken from V6: for four blocks, and for one.
#define Q4_0_OFF \
	SADDLP(10, 10); \
	MLS(30, 10, 6)
#define Q4_0_OFF4 \
	FMOVQ.P 16(R17), F10; \
	Q4_0_OFF
#define Q4_0_OFF1 \
	FMOVS.P 4(R17), F10; \
	Q4_0_OFF
#define NO_OFF

// p = the products of the block at R2+o and the activations at R7+q.
#define BLOCK32(LOAD, o, q, p) \
	LOAD(o); \
	FLDPQ q(R7), (F4, F5); \
	WHOLE(2, 4, p)

// gemv for the types with blocks of 32 and one scale, in size bytes: four blocks at a time, then one, after which the
// lanes are rotated by one (their total is the same from any lane on). Four scales are collected in R11: the integer
// units have nothing else to do.
#define GEMV32(LOAD, OFF4, OFF1, size) \
row: \
	ROW_BEGIN; \
	SUBS $4, R9; \
	BLT  last; \
four: \
	BLOCK32(LOAD, 0, 0, 6); \
	BLOCK32(LOAD, size, 32, 7); \
	BLOCK32(LOAD, (2*size), 64, 16); \
	BLOCK32(LOAD, (3*size), 96, 17); \
	MOVHU (R2), R11; \
	MOVHU size(R2), R12; \
	MOVHU (2*size)(R2), R13; \
	MOVHU (3*size)(R2), R14; \
	ORR  R12<<16, R11; \
	ORR  R14<<16, R13; \
	ORR  R13<<32, R11; \
	FMOVD R11, F8; \
	FCVTL(8, 8); \
	FMOVQ.P 16(R8), F9; \
	FMUL(8, 9, 11); \
	SUMS(V6, V7, V16, V17); \
	OFF4; \
	SCVTF(6, 6); \
	FMLA(6, 11, 0); \
	ADD  $(4*size), R2; \
	ADD  $128, R7; \
	SUBS $4, R9; \
	BGE  four; \
last: \
	ADDS $4, R9; \
	BEQ  sum; \
one: \
	BLOCK32(LOAD, 0, 0, 6); \
	VADDP V6.S4, V6.S4, V6.S4; \
	VADDP V6.S4, V6.S4, V6.S4; \
	OFF1; \
	SCVTF(6, 6); \
	MOVHU (R2), R11; \
	FMOVS R11, F8; \
	FCVTL(8, 8); \
	FMOVS.P 4(R8), F9; \
	FMUL(8, 9, 11); \
	FMLA(6, 11, 0); \
	VEXT $4, V0.B16, V0.B16, V0.B16; \
	ADD  $size, R2; \
	ADD  $32, R7; \
	SUBS $1, R9; \
	BNE  one; \
sum: \
	ROW_END
#define GEMV_Q8_0 \
	GEMV_ARGS; \
	GEMV32(Q8_0_LOAD, NO_OFF, NO_OFF, 34)
#define GEMV_Q4_0 \
	GEMV_ARGS; \
	Q4_0_CONST; \
	GEMV32(Q4_0_LOAD, Q4_0_OFF4, Q4_0_OFF1, 18)
#define GEMV_Q5_0 \
	GEMV_ARGS; \
	Q5_0_CONST; \
	GEMV32(Q5_0_LOAD, NO_OFF, NO_OFF, 22)

// V24, V25 = the eight scales, V26, V27 = the eight minima of the Q4_K or Q5_K block at R2: see scalesK. Uses R11-R15,
// V8-V10.
#define SCALES_K \
	MOVWU 4(R2), R11; \
	MOVWU 8(R2), R12; \
	MOVWU 12(R2), R13; \
	LSR   $2, R11, R14; \
	AND   $0x30303030, R14; \
	AND   $0x0f0f0f0f, R13, R15; \
	ORR   R15, R14; \
	AND   $0x3f3f3f3f, R11; \
	ORR   R14<<32, R11; \
	LSR   $2, R12, R14; \
	AND   $0x30303030, R14; \
	LSR   $4, R13; \
	AND   $0x0f0f0f0f, R13; \
	ORR   R13, R14; \
	AND   $0x3f3f3f3f, R12; \
	ORR   R14<<32, R12; \
	FMOVD R11, F8; \
	FMOVD R12, F9; \
	VUXTL V8.B8, V8.H8; \
	VUXTL V9.B8, V9.H8; \
	VUXTL V8.H4, V24.S4; \
	VUXTL2 V8.H8, V25.S4; \
	VUXTL V9.H4, V26.S4; \
	VUXTL2 V9.H8, V27.S4; \
	SCVTF(24, 24); \
	SCVTF(25, 25); \
	SCVTF(26, 26); \
	SCVTF(27, 27); \
	FMOVS (R2), F10; \
	FCVTL(10, 10); \
	FMULE(10, 24, 24); \
	FMULE(10, 25, 25); \
	FMULE1(10, 26, 26); \
	FMULE1(10, 27, 27)

// Sub-blocks 2j and 2j+1 of Q4_K: V2, V3 the low nibbles, V18, V19 the high ones of 32 bytes.
#define Q4_K_CONST VMOVI $15, V31.B16
#define Q4_K_PAIR(j) \
	FLDPQ (16+32*j)(R2), (F16, F17); \
	VAND  V31.B16, V16.B16, V2.B16; \
	VAND  V31.B16, V17.B16, V3.B16; \
	VUSHR $4, V16.B16, V18.B16; \
	VUSHR $4, V17.B16, V19.B16

// The same for Q5_K. LOW and HIGH bring bits 2j and 2j+1 of the high bits to bit 4; the nibble comes below, all else
// goes.
#define Q5_K_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $31, V30.B16
#define Q5_K_PAIR(j, LOW, nl, HIGH, nh) \
	FLDPQ (48+32*j)(R2), (F16, F17); \
	FLDPQ 16(R2), (F20, F21); \
	LOW2(LOW, nl, V20, V21, V16, V17, V30, V2, V3); \
	HIGH2(HIGH, nh, V20, V21, V16, V17, V30, V18, V19)
#define Q5_K_PAIR0 Q5_K_PAIR(0, LEFT, 4, LEFT, 3)
#define Q5_K_PAIR1 Q5_K_PAIR(1, LEFT, 2, LEFT, 1)
#define Q5_K_PAIR2 Q5_K_PAIR(2, STAY, 0, RIGHT, 1)
#define Q5_K_PAIR3 Q5_K_PAIR(3, RIGHT, 2, RIGHT, 3)

// a, b = the products of sub-blocks k and k+1.
#define PAIRK(PAIR, k, a, b) \
	PAIR; \
	FLDPQ (32*k)(R7), (F4, F5); \
	WHOLE(2, 4, a); \
	FLDPQ (32*k+32)(R7), (F4, F5); \
	WHOLE(18, 4, b)

// gemv for Q4_K and Q5_K. V28, V29 the s of eight blocks.
#define GEMVK(PAIR0, PAIR1, PAIR2, PAIR3, size) \
row: \
	ROW_BEGIN; \
blk: \
	SCALES_K; \
	FLDPQ.P 32(R8), (F8, F9); \
	FLDPQ.P 32(R10), (F28, F29); \
	FMUL(8, 24, 24); \
	FMUL(9, 25, 25); \
	PAIRK(PAIR0, 0, 6, 7); \
	PAIRK(PAIR1, 2, 8, 9); \
	SUMS(V6, V7, V8, V9); \
	PAIRK(PAIR2, 4, 12, 13); \
	PAIRK(PAIR3, 6, 14, 15); \
	SUMS(V12, V13, V14, V15); \
	SCVTF(6, 6); \
	SCVTF(12, 12); \
	FMLA(6, 24, 0); \
	FMLA(12, 25, 1); \
	VFMLS V28.S4, V26.S4, V0.S4; \
	VFMLS V29.S4, V27.S4, V1.S4; \
	ADD  $size, R2; \
	ADD  $256, R7; \
	SUB  $8, R9; \
	CBNZ R9, blk; \
	FADD(1, 0, 0); \
	ROW_END
#define GEMV_Q4_K \
	GEMV_ARGS; \
	Q4_K_CONST; \
	GEMVK(Q4_K_PAIR(0), Q4_K_PAIR(1), Q4_K_PAIR(2), Q4_K_PAIR(3), 144)
#define GEMV_Q5_K \
	GEMV_ARGS; \
	Q5_K_CONST; \
	GEMVK(Q5_K_PAIR0, Q5_K_PAIR1, Q5_K_PAIR2, Q5_K_PAIR3, 176)

// V16-V19 = the sixteen scales of the Q6_K block at R2, times its d. Uses V8-V11.
#define Q6_K_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $63, V30.B16; \
	MOVD  $32, R11; \
	VDUP  R11, V29.S4
#define SCALES6 \
	FMOVQ 192(R2), F9; \
	MOVHU 208(R2), R11; \
	FMOVS R11, F8; \
	FCVTL(8, 8); \
	SXTLB(9, 10); \
	SXTLB2(9, 11); \
	SXTLH(10, 16); \
	SXTLH2(10, 17); \
	SXTLH(11, 18); \
	SXTLH2(11, 19); \
	SCVTF(16, 16); \
	SCVTF(17, 17); \
	SCVTF(18, 18); \
	SCVTF(19, 19); \
	FMULE(8, 16, 16); \
	FMULE(8, 17, 17); \
	FMULE(8, 18, 18); \
	FMULE(8, 19, 19)

// Half a block, 64 bytes of nibbles at ql and 32 of high bits at qh: sub-blocks from the low nibbles of V24, V25, of
// V26, V27, then the high ones, each with the next two of the high bits. V2, V3 = the weights plus 32.
#define LOAD6(ql, qh) \
	FLDPQ ql(R2), (F24, F25); \
	FLDPQ (ql+32)(R2), (F26, F27); \
	FLDPQ qh(R2), (F20, F21)
#define LOW6(i, A, B) LOW2(LEFT, i, V20, V21, A, B, V30, V2, V3)
#define HIGH6(A, B) HIGH2(STAY, 0, V20, V21, A, B, V30, V2, V3)
#define TOP6(A, B) \
	RIGHT(2, V20, V2); \
	RIGHT(2, V21, V3); \
	VSRI $4, A.B16, V2.B16; \
	VSRI $4, B.B16, V3.B16

// a, b = the products of the first and the second half of the sub-block in V2, V3 with the activations at R7.
#define SUB6(a, b) \
	FLDPQ.P 32(R7), (F4, F5); \
	HALF(2, 4, a); \
	HALF(3, 5, b)

// Adds to the sum the products of four sub-blocks: V8, V9 the scales of their first and their second halves, from A and
// B, V11, V10 sums of activations.
#define HALF6(ql, qh, A, B, sum) \
	LOAD6(ql, qh); \
	LOW6(4, V24, V25); \
	SUB6(6, 12); \
	LOW6(2, V26, V27); \
	SUB6(7, 13); \
	HIGH6(V24, V25); \
	SUB6(8, 14); \
	TOP6(V26, V27); \
	SUB6(9, 15); \
	SUMS(V6, V7, V8, V9); \
	SUMS(V12, V13, V14, V15); \
	FMOVQ.P 16(R17), F10; \
	VSHL $16, V10.S4, V11.S4; \
	SSHR(16, 11, 11); \
	SSHR(16, 10, 10); \
	MLS(29, 11, 6); \
	MLS(29, 10, 12); \
	SCVTF(6, 6); \
	SCVTF(12, 12); \
	VUZP1 B.S4, A.S4, V8.S4; \
	VUZP2 B.S4, A.S4, V9.S4; \
	FMOVQ.P 16(R8), F10; \
	FMUL(10, 8, 8); \
	FMUL(10, 9, 9); \
	FMLA(6, 8, sum); \
	FMLA(12, 9, sum)

// gemv for Q6_K.
#define GEMV_Q6_K \
	GEMV_ARGS; \
	Q6_K_CONST; \
row: \
	ROW_BEGIN; \
blk: \
	SCALES6; \
	HALF6(0, 128, V16, V17, 0); \
	HALF6(64, 160, V18, V19, 1); \
	ADD  $210, R2; \
	SUB  $8, R9; \
	CBNZ R9, blk; \
	FADD(1, 0, 0); \
	ROW_END

// Bit i mod 8 in byte i; then the byte of Q5_0's high bits that weight i of the first and of the second half takes.
DATA q5bytes<>+0(SB)/8, $0x8040201008040201
DATA q5bytes<>+8(SB)/8, $0x8040201008040201
DATA q5bytes<>+16(SB)/8, $0x0000000000000000
DATA q5bytes<>+24(SB)/8, $0x0101010101010101
DATA q5bytes<>+32(SB)/8, $0x0202020202020202
DATA q5bytes<>+40(SB)/8, $0x0303030303030303
GLOBL q5bytes<>(SB), RODATA|NOPTR, $48
