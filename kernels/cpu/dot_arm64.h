// Bodies of the dot products on weights that are quantised, shared by the NEON and the SDOT file. The file that includes this one
// defines DOTS: V6 and V7 = four sums each, in float32, of the products of weights V2 and activations V4, and of V3 and V5.

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
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16
#define ROW_END \
	FADD(1, 0, 0); \
	HSUM(0, V0, 1, V1); \
	FMOVS.P F0, 4(R0); \
	SUB  $1, R1; \
	CBNZ R1, row; \
	RET

// Arguments of unpack(w []int8, ds, mins []float32, src []byte): R0 w, R1 weights left, R2 src, R3 ds, R4 mins.
#define UNPACK_ARGS \
	MOVD w_base+0(FP), R0;     \
	MOVD w_len+8(FP), R1;      \
	MOVD ds_base+24(FP), R3;   \
	MOVD mins_base+48(FP), R4; \
	MOVD src_base+72(FP), R2

// V2, V3 = the 32 weights and V8 = the scale of the block at R2, which moves on.
#define Q8_0_LOAD \
	VLD1R.P 2(R2), [V8.H8]; \
	FCVTL(8, 8); \
	VLD1.P 32(R2), [V2.B16, V3.B16]

#define Q4_0_CONST \
	VMOVI $15, V31.B16; \
	VMOVI $8, V30.B16
#define Q4_0_LOAD \
	VLD1R.P 2(R2), [V8.H8]; \
	FCVTL(8, 8); \
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
	VLD1R.P 2(R2), [V8.H8]; \
	FCVTL(8, 8); \
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

// rows for the types with blocks of 32 and one scale.
#define ROWS32(LOAD) \
row: \
	ROW_BEGIN; \
blk: \
	LOAD; \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	DOTS; \
	VLD1R.P 4(R8), [V9.S4]; \
	FMUL(8, 9, 11); \
	VFMLA V6.S4, V11.S4, V0.S4; \
	VFMLA V7.S4, V11.S4, V1.S4; \
	SUB  $1, R9; \
	CBNZ R9, blk; \
	ROW_END

// unpack for the same types.
#define UNPACK32(LOAD) \
blk: \
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

// Adds the products of the sub-block in V2, V3, whose scale·d is SCALE.
#define SUBK(SCALE) \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	DOTS; \
	VDUP  SCALE, V11.S4; \
	VFMLA V6.S4, V11.S4, V0.S4; \
	VFMLA V7.S4, V11.S4, V1.S4
#define PAIRK(BIT, SCALE, SCALE2) \
	VLD1.P 32(R11), [V16.B16, V17.B16]; \
	LOW; \
	BIT; \
	SUBK(SCALE); \
	HIGH; \
	BIT; \
	SUBK(SCALE2)

// rows for Q4_K and Q5_K. V28, V29 sums of minima.
#define ROWSK(BEGIN, BIT) \
row: \
	ROW_BEGIN; \
	VEOR V28.B16, V28.B16, V28.B16; \
	VEOR V29.B16, V29.B16, V29.B16; \
blk: \
	SCALES_K; \
	VLD1.P 32(R8), [V8.S4, V9.S4]; \
	VLD1.P 32(R10), [V12.S4, V13.S4]; \
	FMUL(8, 24, 24); \
	FMUL(9, 25, 25); \
	VFMLA V12.S4, V26.S4, V28.S4; \
	VFMLA V13.S4, V27.S4, V29.S4; \
	BEGIN; \
	PAIRK(BIT, V24.S[0], V24.S[1]); \
	PAIRK(BIT, V24.S[2], V24.S[3]); \
	PAIRK(BIT, V25.S[0], V25.S[1]); \
	PAIRK(BIT, V25.S[2], V25.S[3]); \
	MOVD R11, R2; \
	SUB  $8, R9; \
	CBNZ R9, blk; \
	FSUB(28, 0, 0); \
	FSUB(29, 1, 1); \
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

// Adds the products of the sub-block in V2, V3 with its two scales.
#define SUB6(SCALE, SCALE2) \
	VLD1.P 32(R7), [V4.B16, V5.B16]; \
	DOTS; \
	VLD1R.P 4(R8), [V9.S4]; \
	VDUP  SCALE, V8.S4; \
	VDUP  SCALE2, V10.S4; \
	FMUL(8, 9, 11); \
	FMUL(10, 9, 12); \
	VFMLA V6.S4, V11.S4, V0.S4; \
	VFMLA V7.S4, V12.S4, V1.S4
#define HALF6(A, B) \
	LOAD6; \
	LOW6(V24, V25); \
	SUB6(A.S[0], A.S[1]); \
	LOW6(V26, V27); \
	SUB6(A.S[2], A.S[3]); \
	HIGH6(V24, V25); \
	SUB6(B.S[0], B.S[1]); \
	HIGH6(V26, V27); \
	SUB6(B.S[2], B.S[3])

// rows for Q6_K.
#define ROWS6 \
row: \
	ROW_BEGIN; \
blk: \
	SCALES6; \
	MOVD R2, R11; \
	ADD  $128, R2, R12; \
	HALF6(V16, V17); \
	HALF6(V18, V19); \
	ADD  $210, R2; \
	SUB  $8, R9; \
	CBNZ R9, blk; \
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

// panel(dst *[4]float32, w []int8, ds, mins []float32, q []int8, d, s []float32): four rows of activations at once.
// R0 w, R1 weights left, R2 ds, R3-R6 rows of q, R7-R10 rows of d, R11 a row of q, R12 a row of d or s in bytes; V16-V23 sums, two for a
// row; V8, V10 scales. Then R2 mins, R3-R6 rows of s, V24-V31 sums.
#define ROWS_OF_FOUR(step, A, B, C, D) \
	ADD step, A, B; \
	ADD step, B, C; \
	ADD step, C, D
#define PANEL_ARGS \
	MOVD w_base+8(FP), R0; \
	MOVD w_len+16(FP), R1; \
	MOVD ds_base+32(FP), R2; \
	MOVD q_base+80(FP), R3; \
	MOVD d_base+104(FP), R7; \
	MOVD R1, R11; \
	LSR  $3, R1, R12; \
	ROWS_OF_FOUR(R11, R3, R4, R5, R6); \
	ROWS_OF_FOUR(R12, R7, R8, R9, R10); \
	VEOR V16.B16, V16.B16, V16.B16; \
	VEOR V17.B16, V17.B16, V17.B16; \
	VEOR V18.B16, V18.B16, V18.B16; \
	VEOR V19.B16, V19.B16, V19.B16; \
	VEOR V20.B16, V20.B16, V20.B16; \
	VEOR V21.B16, V21.B16, V21.B16; \
	VEOR V22.B16, V22.B16, V22.B16; \
	VEOR V23.B16, V23.B16, V23.B16
#define PANEL_ROW(Q, D, S0, S1) \
	VLD1.P 32(Q), [V4.B16, V5.B16]; \
	DOTS; \
	VLD1R.P 4(D), [V9.S4]; \
	FMUL(8, 9, 11); \
	FMUL(10, 9, 12); \
	VFMLA V6.S4, V11.S4, S0.S4; \
	VFMLA V7.S4, V12.S4, S1.S4
#define PANEL_SUMS \
blk: \
	VLD1.P 32(R0), [V2.B16, V3.B16]; \
	VLD1R.P 4(R2), [V8.S4]; \
	VLD1R.P 4(R2), [V10.S4]; \
	PANEL_ROW(R3, R7, V16, V17); \
	PANEL_ROW(R4, R8, V18, V19); \
	PANEL_ROW(R5, R9, V20, V21); \
	PANEL_ROW(R6, R10, V22, V23); \
	SUB  $32, R1; \
	CBNZ R1, blk
#define MIN_ROW(S, S0, S1) \
	VLD1.P 32(S), [V4.S4, V5.S4]; \
	VFMLA V4.S4, V2.S4, S0.S4; \
	VFMLA V5.S4, V3.S4, S1.S4
#define PANEL_MINS \
	MOVD mins_base+56(FP), R2; \
	MOVD mins_len+64(FP), R1; \
	MOVD s_base+128(FP), R3; \
	CBZ  R1, done; \
	ROWS_OF_FOUR(R12, R3, R4, R5, R6); \
	VEOR V24.B16, V24.B16, V24.B16; \
	VEOR V25.B16, V25.B16, V25.B16; \
	VEOR V26.B16, V26.B16, V26.B16; \
	VEOR V27.B16, V27.B16, V27.B16; \
	VEOR V28.B16, V28.B16, V28.B16; \
	VEOR V29.B16, V29.B16, V29.B16; \
	VEOR V30.B16, V30.B16, V30.B16; \
	VEOR V31.B16, V31.B16, V31.B16; \
min: \
	VLD1.P 32(R2), [V2.S4, V3.S4]; \
	MIN_ROW(R3, V24, V25); \
	MIN_ROW(R4, V26, V27); \
	MIN_ROW(R5, V28, V29); \
	MIN_ROW(R6, V30, V31); \
	SUB  $8, R1; \
	CBNZ R1, min; \
	FSUB(24, 16, 16); \
	FSUB(25, 17, 17); \
	FSUB(26, 18, 18); \
	FSUB(27, 19, 19); \
	FSUB(28, 20, 20); \
	FSUB(29, 21, 21); \
	FSUB(30, 22, 22); \
	FSUB(31, 23, 23)
#define PANEL_STORE \
done: \
	MOVD dst+0(FP), R0; \
	FADD(17, 16, 16); \
	FADD(19, 18, 18); \
	FADD(21, 20, 20); \
	FADD(23, 22, 22); \
	HSUM(16, V16, 2, V2); \
	HSUM(18, V18, 2, V2); \
	HSUM(20, V20, 2, V2); \
	HSUM(22, V22, 2, V2); \
	FMOVS F16, 0(R0); \
	FMOVS F18, 4(R0); \
	FMOVS F20, 8(R0); \
	FMOVS F22, 12(R0); \
	RET

// Bit i mod 8 in byte i; then the byte of Q5_0's high bits that weight i of the first and of the second half takes.
DATA q5bytes<>+0(SB)/8, $0x8040201008040201
DATA q5bytes<>+8(SB)/8, $0x8040201008040201
DATA q5bytes<>+16(SB)/8, $0x0000000000000000
DATA q5bytes<>+24(SB)/8, $0x0101010101010101
DATA q5bytes<>+32(SB)/8, $0x0202020202020202
DATA q5bytes<>+40(SB)/8, $0x0303030303030303
GLOBL q5bytes<>(SB), RODATA|NOPTR, $48
