// Bodies of the tiles, shared by the AVX2 and the AVX-512 file, which define the products of a block and the width.

// Prefetches what comes next at P, 320 bytes, unless that is the end: then, on to fetched.
#define PREFETCH_NEXT(P, end) \
	CMPQ P, end;         \
	JGE  fetched;        \
	PREFETCHT0 (P);      \
	PREFETCHT0 64(P);    \
	PREFETCHT0 128(P);   \
	PREFETCHT0 192(P);   \
	PREFETCHT0 256(P);   \
	ADDQ $320, P

// Arguments of tile: DI acc, SI w, R8 columns left, AX ds, BX mins, DX q, CX d, R15 from d to s, for the same place;
// R9, R10 a row of q and of d, s or h in bytes; R12 place in acc, 0(SP) its end; 8(SP) what to prefetch, 16(SP) its
// end; tokens at the end of the frame; R11 the arguments. SHIFT is log2 of the weight rows in the panel.
#define TILE_ARGS(SHIFT) \
	MOVQ a+0(FP), R11;         \
	MOVQ tileArgs_acc(R11), DI; \
	MOVQ tileArgs_accBytes(R11), R12; \
	ADDQ DI, R12;              \
	MOVQ R12, 0(SP);           \
	MOVQ DI, R12;              \
	MOVQ tileArgs_w(R11), SI;  \
	MOVQ tileArgs_wBytes(R11), R8; \
	SHRQ $SHIFT, R8;           \
	MOVQ tileArgs_ds(R11), AX; \
	MOVQ tileArgs_mins(R11), BX; \
	MOVQ tileArgs_q(R11), DX;  \
	MOVQ tileArgs_d(R11), CX;  \
	MOVQ tileArgs_s(R11), R15; \
	SUBQ CX, R15;              \
	MOVQ tileArgs_n(R11), R9;  \
	MOVQ R9, R10;              \
	SHRQ $3, R10;              \
	MOVQ tileArgs_tokens(R11), R13; \
	MOVQ R13, tokens-8(SP);    \
	MOVQ tileArgs_prefetch(R11), R13; \
	MOVQ R13, 8(SP);           \
	ADDQ tileArgs_prefetchBytes(R11), R13; \
	MOVQ R13, 16(SP)

// R15 is from d to h in place of s.
#define TILE_OFFSETS \
	MOVQ tileArgs_h(R11), R15; \
	SUBQ CX, R15

// For each block the macro LOAD, which reads the weights of the block, then for each token the macro ROW; BYTES are
// those of 32 columns in the panel. R11 rows left, R13 place in q, R14 in d, R12 in acc, whose lanes follow each other.
#define TILE(LOAD, ROW, BYTES, SCALES, WIDTH) \
blk: \
	LOAD; \
	MOVQ 8(SP), R13;           \
	PREFETCH_NEXT(R13, 16(SP));        \
	MOVQ R13, 8(SP);           \
fetched: \
	MOVQ DX, R13;              \
	MOVQ CX, R14;              \
	MOVQ tokens-8(SP), R11;    \
row: \
	ROW; \
	ADDQ R9, R13;              \
	ADDQ R10, R14;             \
	ADDQ $WIDTH, R12;          \
	DECQ R11;                  \
	JNZ  row;                  \
	CMPQ R12, 0(SP);           \
	JNE  lane;                 \
	MOVQ DI, R12;              \
lane: \
	ADDQ $BYTES, SI;           \
	ADDQ $SCALES, AX;          \
	ADDQ $WIDTH, BX;           \
	ADDQ $32, DX;              \
	ADDQ $4, CX;               \
	SUBQ $32, R8;              \
	JNZ  blk;                  \
	VZEROUPPER;                \
	RET

// All tokens with the weights of a block of eight rows, two at a time by the macro TWO, and a last one by ONE.
#define PAIRS(ONE, TWO, two, one, end) \
	MOVQ DX, R13;              \
	MOVQ CX, R14;              \
	MOVQ tokens-8(SP), R11;    \
	SUBQ $2, R11;              \
	JLT  one;                  \
two: \
	TWO; \
	LEAQ (R13)(R9*2), R13;     \
	LEAQ (R14)(R10*2), R14;    \
	ADDQ $64, R12;             \
	SUBQ $2, R11;              \
	JGE  two;                  \
one: \
	ADDQ $2, R11;              \
	JZ   end;                  \
	ONE; \
	ADDQ $32, R12;             \
end:

// TILE for panels of eight rows.
#define TILE2(LOAD, ONE, TWO) \
blk: \
	LOAD; \
	MOVQ 8(SP), R13;           \
	PREFETCH_NEXT(R13, 16(SP));        \
	MOVQ R13, 8(SP);           \
fetched: \
	PAIRS(ONE, TWO, two, one, end) \
	CMPQ R12, 0(SP);           \
	JNE  lane;                 \
	MOVQ DI, R12;              \
lane: \
	ADDQ $256, SI;             \
	ADDQ $64, AX;              \
	ADDQ $32, BX;              \
	ADDQ $32, DX;              \
	ADDQ $4, CX;               \
	SUBQ $32, R8;              \
	JNZ  blk;                  \
	VZEROUPPER;                \
	RET

// epilogue for panels of 2^SHIFT bytes to a register; A to D for anything, Z for zeros: DI dst, R8 stride, SI acc, R9,
// R10 a lane and three lanes in bytes, R12 lanes, BX the fifth of them if there are eight, R11 rows left.
#define EPILOGUE(SHIFT, A, B, C, D, Z) \
	MOVQ a+0(FP), AX;           \
	MOVQ sumArgs_dst(AX), DI;   \
	MOVQ sumArgs_stride(AX), R8; \
	MOVQ sumArgs_acc(AX), SI;   \
	MOVQ sumArgs_accumulators(AX), R12; \
	MOVQ sumArgs_tokens(AX), R11; \
	MOVBLZX sumArgs_add(AX), AX; \
	SHLQ $2, R8;                \
	MOVQ R11, R9;               \
	SHLQ $SHIFT, R9;            \
	LEAQ (R9)(R9*2), R10;       \
	LEAQ (SI)(R9*4), BX;        \
	VXORPS Z, Z, Z;             \
row: \
	VMOVUPS (SI), A;            \
	VMOVUPS (SI)(R9*1), B;      \
	VMOVUPS (SI)(R9*2), C;      \
	VMOVUPS (SI)(R10*1), D;     \
	VMOVUPS Z, (SI);            \
	VMOVUPS Z, (SI)(R9*1);      \
	VMOVUPS Z, (SI)(R9*2);      \
	VMOVUPS Z, (SI)(R10*1);     \
	CMPQ R12, $4;               \
	JEQ  four;                  \
	VADDPS (BX), A, A;          \
	VADDPS (BX)(R9*1), B, B;    \
	VADDPS (BX)(R9*2), C, C;    \
	VADDPS (BX)(R10*1), D, D;   \
	VMOVUPS Z, (BX);            \
	VMOVUPS Z, (BX)(R9*1);      \
	VMOVUPS Z, (BX)(R9*2);      \
	VMOVUPS Z, (BX)(R10*1);     \
	ADDQ $(1<<SHIFT), BX;       \
four: \
	VADDPS C, A, A;             \
	VADDPS D, B, B;             \
	VADDPS B, A, A;             \
	TESTL AX, AX;               \
	JZ   put;                   \
	VADDPS (DI), A, A;          \
put: \
	VMOVUPS A, (DI);            \
	ADDQ $(1<<SHIFT), SI;       \
	ADDQ R8, DI;                \
	DECQ R11;                   \
	JNZ  row;                   \
	VZEROUPPER;                 \
	RET
