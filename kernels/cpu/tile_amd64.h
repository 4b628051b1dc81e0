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

// Arguments of tile(acc []float32, w []int8, ds, mins []float32, x activations, tokens, n int, prefetch []byte): DI
// acc, SI w, R8 columns left, AX ds, BX mins, DX q, CX d, R15 from d to s, for the same place; R9, R10 a row of q and
// of d, s or h in bytes; R12 place in acc, 0(SP) its end; 8(SP) what to prefetch, 16(SP) its end. SHIFT is log2 of the
// weight rows in the panel.
#define TILE_ARGS(SHIFT) \
	MOVQ acc_base+0(FP), DI;   \
	MOVQ acc_len+8(FP), R12;   \
	LEAQ (DI)(R12*4), R12;     \
	MOVQ R12, 0(SP);           \
	MOVQ DI, R12;              \
	MOVQ w_base+24(FP), SI;    \
	MOVQ w_len+32(FP), R8;     \
	SHRQ $SHIFT, R8;           \
	MOVQ ds_base+48(FP), AX;   \
	MOVQ mins_base+72(FP), BX; \
	MOVQ x_q_base+96(FP), DX;    \
	MOVQ x_d_base+120(FP), CX;   \
	MOVQ x_s_base+144(FP), R15;  \
	SUBQ CX, R15;              \
	MOVQ n+200(FP), R9;        \
	MOVQ R9, R10;              \
	SHRQ $3, R10;              \
	MOVQ prefetch_base+208(FP), R13; \
	MOVQ R13, 8(SP);           \
	ADDQ prefetch_len+216(FP), R13;  \
	MOVQ R13, 16(SP)

// R15 is from d to h in place of s.
#define TILE_OFFSETS \
	MOVQ x_h_base+168(FP), R15; \
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
	MOVQ tokens+192(FP), R11;    \
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

// The COUNT tokens with the weights of a block of eight rows, two at a time by the macro TWO, and a last one by ONE.
#define PAIRS(COUNT, ONE, TWO, two, one, end) \
	MOVQ DX, R13;              \
	MOVQ CX, R14;              \
	MOVQ COUNT, R11;           \
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
	PAIRS(tokens+192(FP), ONE, TWO, two, one, end) \
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

// epilogue(dst []float32, stride int, acc []float32, tokens int, add bool) for panels of 2^SHIFT bytes to a register; A
// to D for anything, Z for zeros: DI dst, R8 stride, SI acc, R9, R10 a lane and three lanes in bytes, BX the fifth lane
// if there are eight, R11 rows left.
#define EPILOGUE(SHIFT, A, B, C, D, Z) \
	MOVQ dst_base+0(FP), DI;    \
	MOVQ stride+24(FP), R8;     \
	MOVQ acc_base+32(FP), SI;   \
	MOVQ acc_len+40(FP), R12;   \
	MOVQ tokens+56(FP), R11;      \
	MOVBLZX add+64(FP), AX;     \
	SHLQ $2, R8;                \
	MOVQ R11, R9;               \
	SHLQ $SHIFT, R9;            \
	LEAQ (R9)(R9*2), R10;       \
	LEAQ (SI)(R9*4), BX;        \
	SHLQ $2, R12;               \
	LEAQ (R9*4), R13;           \
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
	CMPQ R12, R13;              \
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
