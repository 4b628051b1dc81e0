// Panels from the rows as they are stored, four rows at a time. Sixteen columns of them fill four registers of the
// panel, V4-V7, from V0-V3, which have those of a row each; in which order is up to the variant. A block of 32 columns
// of four rows is 128 bytes, and a block of all sixteen rows 512.

// Four columns of all four rows in each: the panel of SDOT, and that of the scales. Uses V8-V11.
#define BY4 \
	VTRN1 V1.S4, V0.S4, V8.S4; \
	VTRN2 V1.S4, V0.S4, V9.S4; \
	VTRN1 V3.S4, V2.S4, V10.S4; \
	VTRN2 V3.S4, V2.S4, V11.S4; \
	VTRN1 V10.D2, V8.D2, V4.D2; \
	VTRN1 V11.D2, V9.D2, V5.D2; \
	VTRN2 V10.D2, V8.D2, V6.D2; \
	VTRN2 V11.D2, V9.D2, V7.D2

// The first eight columns of rows 0 and 1, of rows 2 and 3, then the other eight: the panel of SMMLA.
#define BY8 \
	VZIP1 V1.D2, V0.D2, V4.D2; \
	VZIP1 V3.D2, V2.D2, V5.D2; \
	VZIP2 V1.D2, V0.D2, V6.D2; \
	VZIP2 V3.D2, V2.D2, V7.D2

// The rows: the panel of plain NEON.
#define BY16 \
	VMOV V0.B16, V4.B16; \
	VMOV V1.B16, V5.B16; \
	VMOV V2.B16, V6.B16; \
	VMOV V3.B16, V7.B16

// pack: four rows at a time. R0 w, R1 ds, R2 mins, R3 src of four rows, R12 stride, R13 groups of four rows left, R14
// what to prefetch, R17 its end, R19 columns; of a group R4-R7 src, R8 w, R9 ds, R10 mins, R11 columns left.
#define PACK_ARGS \
	MOVD a+0(FP), R4; \
	MOVD packArgs_w(R4), R0; \
	MOVD packArgs_ds(R4), R1; \
	MOVD packArgs_mins(R4), R2; \
	MOVD packArgs_src(R4), R3; \
	MOVD packArgs_stride(R4), R12; \
	MOVD packArgs_prefetch(R4), R14; \
	MOVD packArgs_prefetchBytes(R4), R17; \
	ADD  R14, R17; \
	MOVD packArgs_columns(R4), R19; \
	MOVD $4, R13
#define PACK_GROUP \
	MOVD R3, R4; \
	ADD  R12, R4, R5; \
	ADD  R12, R5, R6; \
	ADD  R12, R6, R7; \
	ADD  R12, R7, R3; \
	MOVD R0, R8; \
	MOVD R1, R9; \
	MOVD R2, R10; \
	MOVD R19, R11

// Prefetches 128 bytes more of prefetch, unless all of it is: then, on to fetched.
#define PACK_PREFETCH \
	CMP  R17, R14; \
	BGE  fetched; \
	PRFM (R14), PLDL1KEEP; \
	PRFM 64(R14), PLDL1KEEP; \
	ADD  $128, R14

// To the next block, of size bytes and cols columns, or the next four rows.
#define PACK_NEXT(size, cols) \
	ADD  $size, R4; \
	ADD  $size, R5; \
	ADD  $size, R6; \
	ADD  $size, R7; \
	ADD  $(16*cols), R8; \
	ADD  $(4*cols), R9; \
	ADD  $(2*cols), R10; \
	SUBS $cols, R11; \
	BNE  blk; \
	ADD  $128, R0; \
	ADD  $16, R1; \
	ADD  $16, R2; \
	SUBS $1, R13; \
	BNE  group; \
	RET

// pack with CONST, which sets what BLOCK, a block of four rows, needs, and PREFETCH.
#define PACK(CONST, BLOCK, PREFETCH, size, cols) \
	PACK_ARGS; \
	CONST; \
group: \
	PACK_GROUP; \
blk: \
	BLOCK; \
	PREFETCH; \
fetched: \
	PACK_NEXT(size, cols)

// The same for types with blocks of 32, whose scales come last.
#define WITH_SCALES(BLOCK) \
	BLOCK; \
	HALVES(0); \
	FMOVQ F15, (R9)
#define PACK32(CONST, BLOCK, size) PACK(CONST, WITH_SCALES(BLOCK), PACK_PREFETCH, size, 32)
#define NO_CONST
#define PACK_PREFETCH3 \
	PACK_PREFETCH; \
	PACK_PREFETCH; \
	PACK_PREFETCH
#define PACK_PREFETCH4 \
	PACK_PREFETCH3; \
	PACK_PREFETCH

// V0-V3 = the sixteen bytes at o of each row.
#define ROWS16(o) \
	FMOVQ o(R4), F0; \
	FMOVQ o(R5), F1; \
	FMOVQ o(R6), F2; \
	FMOVQ o(R7), F3

// V15 = the half-precision numbers at o.
#define HALVES(o) \
	MOVHU o(R4), R15; \
	MOVHU o(R5), R16; \
	ORR   R16<<16, R15; \
	MOVHU o(R6), R16; \
	ORR   R16<<32, R15; \
	MOVHU o(R7), R16; \
	ORR   R16<<48, R15; \
	FMOVD R15, F15; \
	FCVTL(15, 15)

#define BLOCK_Q8_0(BY) \
	ROWS16(2); \
	BY; \
	FSTPQ (F4, F5), (R8); \
	FSTPQ (F6, F7), 32(R8); \
	ROWS16(18); \
	BY; \
	FSTPQ (F4, F5), 64(R8); \
	FSTPQ (F6, F7), 96(R8)
#define PACK_Q8_0(BY) PACK32(NO_CONST, BLOCK_Q8_0(BY), 34)

// OP of V4-V7, at o and what follows.
#define EACH(OP, o) \
	OP(o, F4, V4); \
	OP(o+16, F5, V5); \
	OP(o+32, F6, V6); \
	OP(o+48, F7, V7)

// The lower nibbles of V, less 8, to the panel at o, and the upper ones sixteen columns on.
#define FOUR(o, F, V) \
	VUSHR $4, V.B16, V12.B16; \
	VAND  V31.B16, V.B16, V.B16; \
	VSUB  V30.B16, V12.B16, V12.B16; \
	VSUB  V30.B16, V.B16, V.B16; \
	FMOVQ F, o(R8); \
	FMOVQ F12, (o+64)(R8)
#define CONST_Q4_0 \
	VMOVI $15, V31.B16; \
	VMOVI $8, V30.B16
#define BLOCK_Q4_0(BY) \
	ROWS16(2); \
	BY; \
	EACH(FOUR, 0)
#define PACK_Q4_0(BY) PACK32(CONST_Q4_0, BLOCK_Q4_0(BY), 18)

// The same of Q5_0: where MASK finds a bit clear in what LOW, or HIGH sixteen columns on, take of the high bits, ones
// are put above the nibble, which is less 16. V28 has the high bits of all four rows, inverted.
#define FIVE(o, F, V, LOW, HIGH, MASK) \
	VUSHR  $4, V.B16, V12.B16; \
	VTBL   LOW.B16, [V28.B16], V13.B16; \
	VTBL   HIGH.B16, [V28.B16], V14.B16; \
	VCMTST MASK.B16, V13.B16, V13.B16; \
	VCMTST MASK.B16, V14.B16, V14.B16; \
	VSLI   $4, V13.B16, V.B16; \
	VSLI   $4, V14.B16, V12.B16; \
	FMOVQ  F, o(R8); \
	FMOVQ  F12, (o+64)(R8)
#define CONST_Q5_0(TABLE) \
	MOVD  $TABLE<>(SB), R15; \
	VLD1.P 64(R15), [V16.B16, V17.B16, V18.B16, V19.B16]; \
	VLD1  (R15), [V24.B16, V25.B16]; \
	VMOVI $2, V31.B16; \
	VADD  V31.B16, V16.B16, V20.B16; \
	VADD  V31.B16, V17.B16, V21.B16; \
	VADD  V31.B16, V18.B16, V22.B16; \
	VADD  V31.B16, V19.B16, V23.B16
#define BLOCK_Q5_0(BY) \
	MOVWU 2(R4), R15; \
	MOVWU 2(R5), R16; \
	ORR   R16<<32, R15; \
	MVN   R15, R15; \
	FMOVD R15, F28; \
	MOVWU 2(R6), R15; \
	MOVWU 2(R7), R16; \
	ORR   R16<<32, R15; \
	MVN   R15, R15; \
	VMOV  R15, V28.D[1]; \
	ROWS16(6); \
	BY; \
	FIVE(0, F4, V4, V16, V20, V24); \
	FIVE(16, F5, V5, V17, V21, V25); \
	FIVE(32, F6, V6, V18, V22, V24); \
	FIVE(48, F7, V7, V19, V23, V25)
#define PACK_Q5_0(BY, TABLE) PACK32(CONST_Q5_0(TABLE), BLOCK_Q5_0(BY), 22)

// o(R) = byte i of the words V times the scales d, as TOP makes them of the uppermost bytes: without a sign or with
// one.
#define UNSIGNED VUSHR $24, V12.S4, V12.S4
#define SIGNED SSHR(24, 12, 12)
#define BYTE(TOP, i, V, d, o, R) \
	VSHL  $(24-8*i), V.S4, V12.S4; \
	TOP; \
	SCVTF(12, 12); \
	FMUL(d, 12, 12); \
	FMOVQ F12, o(R)
#define BYTES(TOP, V, d, o, step, R) \
	BYTE(TOP, 0, V, d, o, R); \
	BYTE(TOP, 1, V, d, (o+step), R); \
	BYTE(TOP, 2, V, d, (o+2*step), R); \
	BYTE(TOP, 3, V, d, (o+3*step), R)

// The scales and minima of a Q4_K or Q5_K block: see scalesK. V31 bytes of 15, V30 of 63, V29 of 48.
#define PACK_SCALES_K \
	ROWS16(0); \
	BY4; \
	VUZP1 V4.H8, V4.H8, V20.H8; \
	VUZP2 V4.H8, V4.H8, V21.H8; \
	FCVTL(20, 20); \
	FCVTL(21, 21); \
	VAND  V30.B16, V5.B16, V22.B16; \
	VAND  V30.B16, V6.B16, V23.B16; \
	VUSHR $2, V5.B16, V5.B16; \
	VUSHR $2, V6.B16, V6.B16; \
	VAND  V29.B16, V5.B16, V5.B16; \
	VAND  V29.B16, V6.B16, V6.B16; \
	VAND  V31.B16, V7.B16, V8.B16; \
	VUSHR $4, V7.B16, V9.B16; \
	VORR  V8.B16, V5.B16, V5.B16; \
	VORR  V9.B16, V6.B16, V6.B16; \
	BYTES(UNSIGNED, V22, 20, 0, 128, R9); \
	BYTES(UNSIGNED, V5, 20, 512, 128, R9); \
	BYTES(UNSIGNED, V23, 21, 0, 64, R10); \
	BYTES(UNSIGNED, V6, 21, 256, 64, R10)

// The lower nibbles of V to the panel at o, and the upper ones 32 columns on; of the sixteen bytes at src of each row.
#define FOURK(o, F, V) \
	VUSHR $4, V.B16, V12.B16; \
	VAND  V31.B16, V.B16, V.B16; \
	FMOVQ F, o(R8); \
	FMOVQ F12, (o+512)(R8)
#define PAIRK(BY, src, o) \
	ROWS16(src); \
	BY; \
	EACH(FOURK, o)
#define CONST_Q4_K \
	VMOVI $15, V31.B16; \
	VMOVI $63, V30.B16; \
	VMOVI $48, V29.B16
#define BLOCK_Q4_K(BY) \
	PACK_SCALES_K; \
	PAIRK(BY, 16, 0); \
	PAIRK(BY, 32, 64); \
	PAIRK(BY, 48, 1024); \
	PAIRK(BY, 64, 1088); \
	PAIRK(BY, 80, 2048); \
	PAIRK(BY, 96, 2112); \
	PAIRK(BY, 112, 3072); \
	PAIRK(BY, 128, 3136)
#define PACK_Q4_K(BY) PACK(CONST_Q4_K, BLOCK_Q4_K(BY), PACK_PREFETCH3, 144, 256)

// Q5_K and Q6_K: nibbles in V4-V7 with further bits from V16-V19, to the panel at o. TO_PANEL stores V12 and V13, after
// LESS. LOWS are the low nibbles of all four registers, HIGHS the high ones; V28 keeps the bits of a weight.
#define NO_LESS
#define LESS32 \
	VSUB V30.B16, V12.B16, V12.B16; \
	VSUB V30.B16, V13.B16, V13.B16
#define TO_PANEL(o, LESS) \
	LESS; \
	FMOVQ F12, o(R8); \
	FMOVQ F13, (o+16)(R8)
#define LOWS(o, SHIFT, n, LESS) \
	LOW2(SHIFT, n, V16, V17, V4, V5, V28, V12, V13); \
	TO_PANEL(o, LESS); \
	LOW2(SHIFT, n, V18, V19, V6, V7, V28, V12, V13); \
	TO_PANEL(o+32, LESS)
#define HIGHS(o, SHIFT, n, LESS) \
	HIGH2(SHIFT, n, V16, V17, V4, V5, V28, V12, V13); \
	TO_PANEL(o, LESS); \
	HIGH2(SHIFT, n, V18, V19, V6, V7, V28, V12, V13); \
	TO_PANEL(o+32, LESS)
#define FURTHER(BY, o) \
	ROWS16(o); \
	BY; \
	VMOV V4.B16, V16.B16; \
	VMOV V5.B16, V17.B16; \
	VMOV V6.B16, V18.B16; \
	VMOV V7.B16, V19.B16

// Sixteen columns each of two sub-blocks of Q5_K from the bytes at src, the second 32 columns on; then of all
// sub-blocks, with the high bits at high.
#define PAIR5(BY, src, o, LOW, nl, HIGH, nh) \
	ROWS16(src); \
	BY; \
	LOWS(o, LOW, nl, NO_LESS); \
	HIGHS(o+512, HIGH, nh, NO_LESS)
#define HALF5(BY, high, src, o) \
	FURTHER(BY, high); \
	PAIR5(BY, src, o, LEFT, 4, LEFT, 3); \
	PAIR5(BY, src+32, o+1024, LEFT, 2, LEFT, 1); \
	PAIR5(BY, src+64, o+2048, STAY, 0, RIGHT, 1); \
	PAIR5(BY, src+96, o+3072, RIGHT, 2, RIGHT, 3)
#define CONST_Q5_K \
	CONST_Q4_K; \
	VMOVI $31, V28.B16
#define BLOCK_Q5_K(BY) \
	PACK_SCALES_K; \
	HALF5(BY, 16, 48, 0); \
	HALF5(BY, 32, 64, 64)
#define PACK_Q5_K(BY) PACK(CONST_Q5_K, BLOCK_Q5_K(BY), PACK_PREFETCH3, 176, 256)

// Sixteen columns each of four blocks of 32 of Q6_K, from the bytes at low, low+32 and high.
#define QUAD6(BY, low, high, o) \
	FURTHER(BY, high); \
	ROWS16(low); \
	BY; \
	LOWS(o, LEFT, 4, LESS32); \
	HIGHS(o+1024, STAY, 0, LESS32); \
	ROWS16(low+32); \
	BY; \
	LOWS(o+512, LEFT, 2, LESS32); \
	HIGHS(o+1536, RIGHT, 2, LESS32)
#define CONST_Q6_K \
	VMOVI $15, V31.B16; \
	VMOVI $32, V30.B16; \
	VMOVI $63, V28.B16
#define BLOCK_Q6_K(BY) \
	QUAD6(BY, 0, 128, 0); \
	QUAD6(BY, 16, 144, 64); \
	QUAD6(BY, 64, 160, 2048); \
	QUAD6(BY, 80, 176, 2112); \
	HALVES(208); \
	ROWS16(192); \
	BY4; \
	BYTES(SIGNED, V4, 15, 0, 64, R9); \
	BYTES(SIGNED, V5, 15, 256, 64, R9); \
	BYTES(SIGNED, V6, 15, 512, 64, R9); \
	BYTES(SIGNED, V7, 15, 768, 64, R9)
#define PACK_Q6_K(BY) PACK(CONST_Q6_K, BLOCK_Q6_K(BY), PACK_PREFETCH4, 210, 256)
