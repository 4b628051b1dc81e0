// Bodies of the tiles, shared by the files of the variants. A panel has sixteen weight rows; a block of 32 columns is
// 512 bytes of it, 128 for four rows. Four rows of it are multiplied with four tokens (fours) or two (pairs) with all
// sums in registers, a block at a time; a row that is missing in a four or pair is the last one again, and its sums are
// stored twice. The file that includes this one defines
//   LOAD_Q4, LOAD_Q2   the activations of a block to V0-V7, or V0-V3
//   FIRST, SECOND      the numbers of the registers that get integer sums, four in each, a register for each token
//   FREE, FREE6        those of four registers that are free after DOT and after HALVES
//   DOT4, DOT2         FIRST = the products of a block, whose weights are in V8-V15
//   HALVES4, HALVES2   FIRST, SECOND = the products of its first and of its second half
//
// Registers: R0 acc, R1 q, R2 d of the four or pair, R3 rows left, R4, R5 a row of q and of d in bytes, R19 from d to
// s, R20 a lane of acc in bytes, R23 what to prefetch; R6-R9 q, R10-R13 d, R14-R17 acc of each row, R22 blocks done,
// R24 w, R25 ds, R26 mins of a block; R21 for anything; in the frame the end of what to prefetch, and the number of
// blocks. V24-V27 d, V20-V23 s of each row.
#define TILE_ARGS \
	MOVD a+0(FP), R22; \
	MOVD tileArgs_acc(R22), R0; \
	MOVD tileArgs_q(R22), R1; \
	MOVD tileArgs_d(R22), R2; \
	MOVD tileArgs_s(R22), R19; \
	SUB  R2, R19; \
	MOVD tileArgs_tokens(R22), R3; \
	MOVD tileArgs_n(R22), R4; \
	LSR  $3, R4, R5; \
	LSL  $6, R3, R20; \
	MOVD tileArgs_prefetch(R22), R23; \
	MOVD tileArgs_prefetchBytes(R22), R21; \
	ADD  R23, R21; \
	MOVD R21, prefetchEnd-8(SP); \
	MOVD tileArgs_wBytes(R22), R21; \
	LSR  $9, R21; \
	MOVD R21, blocks-16(SP)

// Begins a four or pair; ROW makes the pointers of a row from those of the one before it, the same ones if no more than
// i rows are left.
#define TILE_BEGIN \
	MOVD R0, R14; \
	MOVD R1, R6; \
	MOVD R2, R10; \
	MOVD a+0(FP), R22; \
	MOVD tileArgs_w(R22), R24; \
	MOVD tileArgs_ds(R22), R25; \
	MOVD tileArgs_mins(R22), R26; \
	MOVD $0, R22
#define ROW(i, Q, D, A, Q2, D2, A2) \
	ADD  R4, Q, Q2; \
	ADD  R5, D, D2; \
	ADD  $64, A, A2; \
	CMP  $i, R3; \
	CSEL GT, Q2, Q, Q2; \
	CSEL GT, D2, D, D2; \
	CSEL GT, A2, A, A2

// To the next block; after the last lane of acc comes the first. SHIFT is log2 of the lanes.
#define ADD4 \
	ADD R20, R14; \
	ADD R20, R15; \
	ADD R20, R16; \
	ADD R20, R17
#define BACK4(SHIFT) \
	SUB R20<<SHIFT, R14; \
	SUB R20<<SHIFT, R15; \
	SUB R20<<SHIFT, R16; \
	SUB R20<<SHIFT, R17
#define ADD2 \
	ADD R20, R14; \
	ADD R20, R15
#define BACK2(SHIFT) \
	SUB R20<<SHIFT, R14; \
	SUB R20<<SHIFT, R15
#define TILE_NEXT \
	ADD $512, R24; \
	ADD $128, R25; \
	ADD $64, R26; \
	ADD $1, R22

// Prefetches 320 bytes more of prefetch, unless all of it is: then, on to end.
#define PREFETCH_NEXT(end) \
	MOVD prefetchEnd-8(SP), R21; \
	CMP  R21, R23; \
	BGE  end; \
	PRFM (R23), PLDL1KEEP; \
	PRFM 64(R23), PLDL1KEEP; \
	PRFM 128(R23), PLDL1KEEP; \
	PRFM 192(R23), PLDL1KEEP; \
	PRFM 256(R23), PLDL1KEEP; \
	ADD  $320, R23

// Flags: whether there are more blocks.
#define TILE_MORE \
	MOVD blocks-16(SP), R21; \
	CMP  R21, R22

// The blocks of a four or pair, by BLOCK; ADD and BACK move on its rows of acc, as above.
#define BLOCKS(BLOCK, SHIFT, ADD, BACK, blk, lane, fetched) \
blk: \
	BLOCK; \
	TILE_NEXT; \
	ADD; \
	TST  $((1<<SHIFT)-1), R22; \
	BNE  lane; \
	BACK(SHIFT); \
lane: \
	PREFETCH_NEXT(fetched); \
fetched: \
	TILE_MORE; \
	BLT  blk

// All fours, the last of which may have three rows, and then all pairs, the last of which may have one. BLOCK is a
// block of either.
#define FOURS(BLOCK, SHIFT) \
	CMP  $3, R3; \
	BLT  pairs; \
fours: \
	TILE_BEGIN; \
	ROW(1, R6, R10, R14, R7, R11, R15); \
	ROW(2, R7, R11, R15, R8, R12, R16); \
	ROW(3, R8, R12, R16, R9, R13, R17); \
	BLOCKS(BLOCK, SHIFT, ADD4, BACK4, blk4, lane4, fetched4); \
	ADD  R4<<2, R1; \
	ADD  R5<<2, R2; \
	ADD  $256, R0; \
	SUB  $4, R3; \
	CMP  $3, R3; \
	BGE  fours; \
pairs:
#define PAIRS(BLOCK, SHIFT) \
	CMP  $0, R3; \
	BLE  done; \
pair: \
	TILE_BEGIN; \
	ROW(1, R6, R10, R14, R7, R11, R15); \
	BLOCKS(BLOCK, SHIFT, ADD2, BACK2, blk2, lane2, fetched2); \
	ADD  R4<<1, R1; \
	ADD  R5<<1, R2; \
	ADD  $128, R0; \
	SUBS $2, R3; \
	BGT  pair; \
done: \
	RET
#define TILE(BLOCK4, BLOCK2, SHIFT) \
	TILE_ARGS; \
	FOURS(BLOCK4, SHIFT) \
	PAIRS(BLOCK2, SHIFT)

// What a token has for a block.
#define LOAD_D2 \
	FMOVS.P 4(R10), F24; \
	FMOVS.P 4(R11), F25
#define LOAD_D4 \
	LOAD_D2; \
	FMOVS.P 4(R12), F26; \
	FMOVS.P 4(R13), F27
#define LOAD_S2 \
	FMOVS (R10)(R19), F20; \
	FMOVS (R11)(R19), F21
#define LOAD_S4 \
	LOAD_S2; \
	FMOVS (R12)(R19), F22; \
	FMOVS (R13)(R19), F23

// The weights of the four rows whose scales are g bytes into those of sixteen.
#define WEIGHTS(g) \
	FMOVQ (8*g)(R24), F8; \
	FMOVQ (8*g+16)(R24), F9; \
	FMOVQ (8*g+32)(R24), F10; \
	FMOVQ (8*g+48)(R24), F11; \
	FMOVQ (8*g+64)(R24), F12; \
	FMOVQ (8*g+80)(R24), F13; \
	FMOVQ (8*g+96)(R24), F14; \
	FMOVQ (8*g+112)(R24), F15

// V8-V11 = sums of the same rows; and back.
#define LOAD_ACC2(g) \
	FMOVQ g(R14), F8; \
	FMOVQ g(R15), F9
#define LOAD_ACC4(g) \
	LOAD_ACC2(g); \
	FMOVQ g(R16), F10; \
	FMOVQ g(R17), F11
#define STORE_ACC2(g) \
	FMOVQ F8, g(R14); \
	FMOVQ F9, g(R15)
#define STORE_ACC4(g) \
	STORE_ACC2(g); \
	FMOVQ F10, g(R16); \
	FMOVQ F11, g(R17)

// Adds the integers from p on, times the scales s, times d, to the sums; t and on are free. The order suits CPUs that
// keep to it.
#define SCALED2(p, s, t) \
	FMULE(24, s, t); \
	FMULE(25, s, t+1); \
	SCVTF(p, p); \
	SCVTF(p+1, p+1); \
	FMLA(p, t, 8); \
	FMLA(p+1, t+1, 9)
#define SCALED4(p, s, t) \
	FMULE(24, s, t); \
	FMULE(25, s, t+1); \
	FMULE(26, s, t+2); \
	FMULE(27, s, t+3); \
	SCVTF(p, p); \
	SCVTF(p+1, p+1); \
	SCVTF(p+2, p+2); \
	SCVTF(p+3, p+3); \
	FMLA(p, t, 8); \
	FMLA(p+1, t+1, 9); \
	FMLA(p+2, t+2, 10); \
	FMLA(p+3, t+3, 11)

// Takes the minima m, times s, from the sums.
#define LESS2(m) \
	FMLSE(20, m, 8); \
	FMLSE(21, m, 9)
#define LESS4(m) \
	LESS2(m); \
	FMLSE(22, m, 10); \
	FMLSE(23, m, 11)

// A block of the types with one scale a block, of Q4_K and Q5_K, and of Q6_K, by four weight rows; of the last
// arguments, which are those for four tokens or for two, each takes what it needs.
#define GROUP32(g, DOT, HALVES, LOAD, SCALE, LESS, STORE) \
	WEIGHTS(g); \
	FMOVQ g(R25), F28; \
	DOT; \
	LOAD(g); \
	SCALE(FIRST, 28, FREE); \
	STORE(g)
#define GROUPK(g, DOT, HALVES, LOAD, SCALE, LESS, STORE) \
	WEIGHTS(g); \
	FMOVQ g(R25), F28; \
	FMOVQ g(R26), F29; \
	DOT; \
	LOAD(g); \
	SCALE(FIRST, 28, FREE); \
	LESS(29); \
	STORE(g)
#define GROUP6(g, DOT, HALVES, LOAD, SCALE, LESS, STORE) \
	WEIGHTS(g); \
	FMOVQ g(R25), F28; \
	FMOVQ (g+64)(R25), F29; \
	HALVES; \
	LOAD(g); \
	SCALE(FIRST, 28, FREE6); \
	SCALE(SECOND, 29, FREE6); \
	STORE(g)
#define FOUR_TOKENS(g, GROUP) GROUP(g, DOT4, HALVES4, LOAD_ACC4, SCALED4, LESS4, STORE_ACC4)
#define TWO_TOKENS(g, GROUP) GROUP(g, DOT2, HALVES2, LOAD_ACC2, SCALED2, LESS2, STORE_ACC2)

// All sixteen weight rows.
#define GROUPS(TOKENS, GROUP) \
	TOKENS(0, GROUP); \
	TOKENS(16, GROUP); \
	TOKENS(32, GROUP); \
	TOKENS(48, GROUP)
#define QUAD(GROUP) \
	LOAD_Q4; \
	LOAD_D4; \
	GROUPS(FOUR_TOKENS, GROUP)
#define PAIR(GROUP) \
	LOAD_Q2; \
	LOAD_D2; \
	GROUPS(TWO_TOKENS, GROUP)
#define QUADK \
	LOAD_Q4; \
	LOAD_S4; \
	LOAD_D4; \
	GROUPS(FOUR_TOKENS, GROUPK)
#define PAIRK \
	LOAD_Q2; \
	LOAD_S2; \
	LOAD_D2; \
	GROUPS(TWO_TOKENS, GROUPK)
