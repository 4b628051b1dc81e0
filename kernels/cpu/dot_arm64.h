// Bodies of the dot products on weights that are quantised, shared by the NEON and the SDOT file. The file that includes this one
// defines, on the numbers of registers,
//   HALF(w, q, p)   p = four int32 that add up to the products of the 16 weights w and activations q
//   WHOLE(p)        p = the same for the 32 of V2 and V3 with V4 and V5; may use V10
//
// Order of the sums, here and in the tiles: the integers of a block (of a half block in Q6_K) are added exactly. What belongs to
// block b goes to lane b mod 4, or mod 8 for the types with blocks of 256, in ascending order of b; the lanes are added at the end.
// So four blocks share one conversion, scale and addition: with SDOT 15 vector operations for four blocks of Q8_0.

// Arguments of rows(dst []float32, w []byte, q []int8, d, s []float32, h []int16):
// R0 dst, R1 rows left, R2 w, R3 q, R4 d, R5 blocks in a row, R6 s; in a row R7 q, R8 d, R10 s, R9 blocks left; V0, V1 sums.
#define ROWS_ARGS \
	MOVD dst_base+0(FP), R0; \
	MOVD dst_len+8(FP), R1;  \
	MOVD w_base+24(FP), R2;  \
	MOVD q_base+48(FP), R3;  \
	MOVD d_base+72(FP), R4;  \
	MOVD d_len+80(FP), R5;   \
	MOVD s_base+96(FP), R6
#define ROW_BEGIN \
	MOVD R3, R7; \
	MOVD R4, R8; \
	MOVD R6, R10; \
	MOVD R5, R9; \
	ZERO(0); \
	ZERO(1)
#define ROW_END \
	HSUM(0, V0, 1, V1); \
	FMOVS.P F0, 4(R0); \
	SUB  $1, R1; \
	CBNZ R1, row; \
	RET

// A = the sums of A, B, C and D, in this order.
#define SUMS(A, B, C, D) \
	VADDP B.S4, A.S4, A.S4; \
	VADDP D.S4, C.S4, C.S4; \
	VADDP C.S4, A.S4, A.S4

// Arguments of unpack(w []int8, ds, mins []float32, src []byte): R0 w, R1 weights left, R2 src, R3 ds, R4 mins.
#define UNPACK_ARGS \
	MOVD w_base+0(FP), R0;     \
	MOVD w_len+8(FP), R1;      \
	MOVD ds_base+24(FP), R3;   \
	MOVD mins_base+48(FP), R4; \
	MOVD src_base+72(FP), R2

// V2, V3 = the 32 weights of the block at R2, which moves on; its scale was read before.
#define Q8_0_LOAD \
	VLD1.P 32(R2), [V2.B16, V3.B16]

#define Q4_0_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $8, V30.B16
#define Q4_0_LOAD \
	VLD1.P 16(R2), [V2.B16]; \
	VUSHR $4, V2.B16, V3.B16; \
	VAND  V31.B16, V2.B16, V2.B16; \
	VSUB  V30.B16, V2.B16, V2.B16; \
	VSUB  V30.B16, V3.B16, V3.B16

// V29 and V28 pick the byte that holds the high bit of a weight, V27 the bit.
#define Q5_0_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $16, V30.B16; \
	MOVD  $q5bytes<>(SB), R11; \
	VLD1  (R11), [V27.B16, V28.B16, V29.B16]
#define Q5_0_LOAD \
	VLD1R.P 4(R2), [V12.S4]; \
	VLD1.P 16(R2), [V2.B16]; \
	VTBL  V28.B16, [V12.B16], V13.B16; \
	VTBL  V29.B16, [V12.B16], V14.B16; \
	VCMTST V27.B16, V13.B16, V13.B16; \
	VCMTST V27.B16, V14.B16, V14.B16; \
	VUSHR $4, V2.B16, V3.B16; \
	VAND  V31.B16, V2.B16, V2.B16; \
	VAND  V30.B16, V13.B16, V13.B16; \
	VAND  V30.B16, V14.B16, V14.B16; \
	VORR  V13.B16, V2.B16, V2.B16; \
	VORR  V14.B16, V3.B16, V3.B16; \
	VSUB  V30.B16, V2.B16, V2.B16; \
	VSUB  V30.B16, V3.B16, V3.B16

// P = the products of the block at R2, whose scale goes to R12.
#define BLOCK32(LOAD, p) \
	MOVHU.P 2(R2), R12; \
	LOAD; \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	WHOLE(p)

// rows for the types with blocks of 32 and one scale: four blocks at a time, then one, after which the lanes are turned by one
// (their total is the same from any lane on). Four scales meet in R11: the integer units have nothing else to do.
#define ROWS32(LOAD) \
row: \
	ROW_BEGIN; \
	SUBS $4, R9; \
	BLT  last; \
four: \
	BLOCK32(LOAD, 6); \
	MOVD R12, R11; \
	BLOCK32(LOAD, 7); \
	ORR  R12<<16, R11; \
	BLOCK32(LOAD, 16); \
	ORR  R12<<32, R11; \
	BLOCK32(LOAD, 17); \
	ORR  R12<<48, R11; \
	FMOVD R11, F8; \
	FCVTL(8, 8); \
	VLD1.P 16(R8), [V9.S4]; \
	FMUL(8, 9, 11); \
	SUMS(V6, V7, V16, V17); \
	SCVTF(6, 6); \
	FMLA(6, 11, 0); \
	SUBS $4, R9; \
	BGE  four; \
last: \
	ADDS $4, R9; \
	BEQ  sum; \
one: \
	BLOCK32(LOAD, 6); \
	FMOVS R12, F8; \
	FCVTL(8, 8); \
	FMOVS.P 4(R8), F9; \
	FMUL(8, 9, 11); \
	VADDP V6.S4, V6.S4, V6.S4; \
	VADDP V6.S4, V6.S4, V6.S4; \
	SCVTF(6, 6); \
	FMLA(6, 11, 0); \
	VEXT $4, V0.B16, V0.B16, V0.B16; \
	SUBS $1, R9; \
	BNE  one; \
sum: \
	ROW_END

// unpack for the same types.
#define UNPACK32(LOAD) \
blk: \
	VLD1R.P 2(R2), [V8.H8]; \
	FCVTL(8, 8); \
	LOAD; \
	VST1.P [V2.B16, V3.B16], 32(R0); \
	VST1.P [V8.S2], 8(R3); \
	SUB  $32, R1; \
	CBNZ R1, blk; \
	RET

// V24, V25 = the eight scales, V26, V27 = the eight minima of the Q4_K or Q5_K block at R2: see scalesK. Uses R11-R14, V8-V10.
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
	ADD   $2, R2, R11; \
	VLD1R (R2), [V8.H8]; \
	VLD1R (R11), [V10.H8]; \
	FCVTL(8, 8); \
	FCVTL(10, 10); \
	FMUL(8, 24, 24); \
	FMUL(8, 25, 25); \
	FMUL(10, 26, 26); \
	FMUL(10, 27, 27)

// Q4_K: nibbles at 16. LOW and HIGH set V2, V3 to the sub-blocks of the low and the high nibbles of V16, V17.
#define K_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $1, V30.B16
#define Q4_K_BEGIN ADD $16, R2, R11
#define LOW \
	VAND V31.B16, V16.B16, V2.B16; \
	VAND V31.B16, V17.B16, V3.B16
#define HIGH \
	VUSHR $4, V16.B16, V2.B16; \
	VUSHR $4, V17.B16, V3.B16
#define Q4_K_BIT

// Q5_K: high bits at 16, of which each sub-block takes the lowest left; nibbles at 48.
#define Q5_K_BEGIN \
	ADD $16, R2, R11; \
	VLD1.P 32(R11), [V20.B16, V21.B16]
#define Q5_K_BIT \
	VAND  V30.B16, V20.B16, V22.B16; \
	VAND  V30.B16, V21.B16, V23.B16; \
	VSHL  $4, V22.B16, V22.B16; \
	VSHL  $4, V23.B16, V23.B16; \
	VORR  V22.B16, V2.B16, V2.B16; \
	VORR  V23.B16, V3.B16, V3.B16; \
	VUSHR $1, V20.B16, V20.B16; \
	VUSHR $1, V21.B16, V21.B16

// a, b = the products of two sub-blocks.
#define PAIRK(BIT, a, b) \
	VLD1.P 32(R11), [V16.B16, V17.B16]; \
	LOW; \
	BIT; \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	WHOLE(a); \
	HIGH; \
	BIT; \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	WHOLE(b)

// rows for Q4_K and Q5_K. V28, V29 the s of eight blocks.
#define ROWSK(BEGIN, BIT) \
row: \
	ROW_BEGIN; \
blk: \
	SCALES_K; \
	VLD1.P 32(R8), [V8.S4, V9.S4]; \
	VLD1.P 32(R10), [V28.S4, V29.S4]; \
	FMUL(8, 24, 24); \
	FMUL(9, 25, 25); \
	BEGIN; \
	PAIRK(BIT, 6, 7); \
	PAIRK(BIT, 8, 9); \
	SUMS(V6, V7, V8, V9); \
	PAIRK(BIT, 12, 13); \
	PAIRK(BIT, 14, 15); \
	SUMS(V12, V13, V14, V15); \
	SCVTF(6, 6); \
	SCVTF(12, 12); \
	FMLA(6, 24, 0); \
	FMLA(12, 25, 1); \
	VFMLS V28.S4, V26.S4, V0.S4; \
	VFMLS V29.S4, V27.S4, V1.S4; \
	MOVD R11, R2; \
	SUB  $8, R9; \
	CBNZ R9, blk; \
	FADD(1, 0, 0); \
	ROW_END

// unpack for Q4_K and Q5_K.
#define STOREK(BIT) \
	VLD1.P 32(R11), [V16.B16, V17.B16]; \
	LOW; \
	BIT; \
	VST1.P [V2.B16, V3.B16], 32(R0); \
	HIGH; \
	BIT; \
	VST1.P [V2.B16, V3.B16], 32(R0)
#define UNPACKK(BEGIN, BIT) \
blk: \
	SCALES_K; \
	VST1.P [V26.S4, V27.S4], 32(R4); \
	VZIP1 V24.S4, V24.S4, V8.S4; \
	VZIP2 V24.S4, V24.S4, V9.S4; \
	VZIP1 V25.S4, V25.S4, V10.S4; \
	VZIP2 V25.S4, V25.S4, V11.S4; \
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], 64(R3); \
	BEGIN; \
	STOREK(BIT); \
	STOREK(BIT); \
	STOREK(BIT); \
	STOREK(BIT); \
	MOVD R11, R2; \
	SUB  $256, R1; \
	CBNZ R1, blk; \
	RET

// V16-V19 = the sixteen scales of the Q6_K block at R2, times its d. Uses R11, V8-V11.
#define Q6_K_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $3, V30.B16; \
	VMOVI $32, V29.B16
#define SCALES6 \
	ADD  $192, R2, R11; \
	VLD1.P 16(R11), [V9.B16]; \
	VLD1R (R11), [V8.H8]; \
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
	FMUL(8, 16, 16); \
	FMUL(8, 17, 17); \
	FMUL(8, 18, 18); \
	FMUL(8, 19, 19)

// Half a block, 64 bytes of nibbles at R11 and 32 of high bits at R12: sub-blocks from the low nibbles of V24, V25, of V26, V27, then
// the high ones; each takes the lowest two bits left of V20, V21.
#define LOAD6 \
	VLD1.P 64(R11), [V24.B16, V25.B16, V26.B16, V27.B16]; \
	VLD1.P 32(R12), [V20.B16, V21.B16]
#define BITS6 \
	VAND  V30.B16, V20.B16, V22.B16; \
	VAND  V30.B16, V21.B16, V23.B16; \
	VSHL  $4, V22.B16, V22.B16; \
	VSHL  $4, V23.B16, V23.B16; \
	VORR  V22.B16, V2.B16, V2.B16; \
	VORR  V23.B16, V3.B16, V3.B16; \
	VSUB  V29.B16, V2.B16, V2.B16; \
	VSUB  V29.B16, V3.B16, V3.B16; \
	VUSHR $2, V20.B16, V20.B16; \
	VUSHR $2, V21.B16, V21.B16
#define LOW6(A, B) \
	VAND V31.B16, A.B16, V2.B16; \
	VAND V31.B16, B.B16, V3.B16; \
	BITS6
#define HIGH6(A, B) \
	VUSHR $4, A.B16, V2.B16; \
	VUSHR $4, B.B16, V3.B16; \
	BITS6

// a, b = the products of the first and the second half of the sub-block in V2, V3.
#define SUB6(a, b) \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	HALF(2, 4, a); \
	HALF(3, 5, b)

// Adds to SUM the products of four sub-blocks: V8, V9 the scales of their first and their second halves, from A and B.
#define HALF6(A, B, sum) \
	LOAD6; \
	LOW6(V24, V25); \
	SUB6(6, 12); \
	LOW6(V26, V27); \
	SUB6(7, 13); \
	HIGH6(V24, V25); \
	SUB6(8, 14); \
	HIGH6(V26, V27); \
	SUB6(9, 15); \
	SUMS(V6, V7, V8, V9); \
	SUMS(V12, V13, V14, V15); \
	SCVTF(6, 6); \
	SCVTF(12, 12); \
	VUZP1 B.S4, A.S4, V8.S4; \
	VUZP2 B.S4, A.S4, V9.S4; \
	VLD1.P 16(R8), [V10.S4]; \
	FMUL(10, 8, 8); \
	FMUL(10, 9, 9); \
	FMLA(6, 8, sum); \
	FMLA(12, 9, sum)

// rows for Q6_K.
#define ROWS6 \
row: \
	ROW_BEGIN; \
blk: \
	SCALES6; \
	MOVD R2, R11; \
	ADD  $128, R2, R12; \
	HALF6(V16, V17, 0); \
	HALF6(V18, V19, 1); \
	ADD  $210, R2; \
	SUB  $8, R9; \
	CBNZ R9, blk; \
	FADD(1, 0, 0); \
	ROW_END

// unpack for Q6_K.
#define STORE6 VST1.P [V2.B16, V3.B16], 32(R0)
#define UNPACKHALF6 \
	LOAD6; \
	LOW6(V24, V25); \
	STORE6; \
	LOW6(V26, V27); \
	STORE6; \
	HIGH6(V24, V25); \
	STORE6; \
	HIGH6(V26, V27); \
	STORE6
#define UNPACK6 \
blk: \
	SCALES6; \
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R3); \
	MOVD R2, R11; \
	ADD  $128, R2, R12; \
	UNPACKHALF6; \
	UNPACKHALF6; \
	ADD  $210, R2; \
	SUB  $256, R1; \
	CBNZ R1, blk; \
	RET

// Bit i mod 8 in byte i; then the byte of Q5_0's high bits that weight i of the first and of the second half takes.
DATA q5bytes<>+0(SB)/8, $0x8040201008040201
DATA q5bytes<>+8(SB)/8, $0x8040201008040201
DATA q5bytes<>+16(SB)/8, $0x0000000000000000
DATA q5bytes<>+24(SB)/8, $0x0101010101010101
DATA q5bytes<>+32(SB)/8, $0x0202020202020202
DATA q5bytes<>+40(SB)/8, $0x0303030303030303
GLOBL q5bytes<>(SB), RODATA|NOPTR, $48
