//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

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

// The tiles of AVX-512 VNNI with the products taken by AMX, which Go's assembler does not know. A panel's dwords,
// four columns of sixteen weight rows after each other, are what AMX wants of its second factor, tokens are the first
// as they lie:
//
//   C [T, 16 rows of weights] = A [T, 32 columns] · B [32 columns by four, 16 rows of weights]
//
// C goes through memory to the vector units. There the float operations are those of the tiles of AVX-512 VNNI, in the
// same order.

// Each instruction is C4, a byte with the inverted high bits of the register numbers, one with a prefix and the
// inverted number of the second source, the opcode, and the operands. t, c, a and b are numbers of tiles; base and
// index those of registers, as in the names below, o is in bytes. Row r of the memory of a tile lies at base + o +
// r·index.
#define rSI 6
#define rDX 2
#define rR9 9
#define rR14 14
#define rR15 15
#define TILE_MEMORY(prefix, t, o, base, index) \
	BYTE $0xC4; BYTE $(0xE2 - index/8*64 - base/8*32); BYTE $prefix; BYTE $0x4B; \
	BYTE $(0x84 + t*8); BYTE $(index%8*8 + base%8); LONG $o
#define TILELOADD(t, o, base, index) TILE_MEMORY(0x7B, t, o, base, index)
#define TILESTORED(t, o, base, index) TILE_MEMORY(0x7A, t, o, base, index)
#define TILEZERO(t) BYTE $0xC4; BYTE $0xE2; BYTE $0x7B; BYTE $0x49; BYTE $(0xC0 + t*8)
#define TILERELEASE BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0xC0

// Of the 64 bytes at o(SP): byte 0 the palette, words 8-15 the bytes of a row of each tile, bytes 48-55 their rows.
#define LDTILECFG(o) BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0x84; BYTE $0x24; LONG $o

// C += A·B, signed bytes by fours.
#define TDPBSSD(c, a, b) BYTE $0xC4; BYTE $0xE2; BYTE $(0x7B - b*8); BYTE $0x5E; BYTE $(0xC0 + c*8 + a)

// A loop that begins here does so in the 10th of 64 bytes. In the 1st to 6th of 16 the products take 2 to 3% longer
// (EXPERIMENTS.md). The instruction does nothing. Jumps go behind it: Go's assembler did not end with one to a label
// before PCALIGN $16.
#define ALIGN_LOOP PCALIGN $64; BYTE $0x66; BYTE $0x0F; BYTE $0x1F; BYTE $0x84; BYTE $0; LONG $0

// Tiles 0 and 3 are C [R11, 16], 1 and 4 A [R11, depth], 2 and 5 B [depth, 16], all of dwords.
#define CONFIGURE(depth) \
	VPXORD    Z16, Z16, Z16;                     \
	VMOVDQU64 Z16, 32(SP);                       \
	MOVB      $1, 32(SP);                        \
	MOVQ      $(0x0040004000000040 + depth<<18), R14; \
	MOVQ      R14, 48(SP);                       \
	MOVL      $(0x00400000 + depth*4), 56(SP);   \
	MOVQ      $0x0101000101, R14;                \
	IMULQ     R11, R14;                          \
	MOVQ      $(depth<<16 + depth<<40), R12;     \
	ORQ       R12, R14;                          \
	MOVQ      R14, 80(SP);                       \
	LDTILECFG(32)

// (R15) = C of the block; Z24 its scales, Z25 its minima. R14 is 64.
#define PRODUCTS_32 \
	TILELOADD(1, 0, rDX, rR9);    \
	TILELOADD(2, 0, rSI, rR14);   \
	TILEZERO(0);                  \
	TDPBSSD(0, 1, 2);             \
	TILESTORED(0, 0, rR15, rR14); \
	VMOVUPS (AX), Z24
#define PRODUCTS_K \
	PRODUCTS_32; \
	VMOVUPS (BX), Z25

// (R15), 1024(R15) = C of both half blocks; Z24, Z25 their scales.
#define PRODUCTS_6 \
	PRODUCTS_32; \
	TILELOADD(4, 16, rDX, rR9);      \
	TILELOADD(5, 256, rSI, rR14);    \
	TILEZERO(3);                     \
	TDPBSSD(3, 4, 5);                \
	TILESTORED(3, 1024, rR15, rR14); \
	VMOVUPS 64(AX), Z25

// Row i of the activations, whose d and s are D and S: adds its products to A.
#define ROW_32(i, D, S, A) \
	VCVTDQ2PS (64*i)(R15), Z16; \
	VMULPS.BCST D, Z24, Z17;    \
	VFMADD231PS Z16, Z17, A
#define ROW_K(i, D, S, A) \
	ROW_32(i, D, S, A); \
	VFNMADD231PS.BCST S, Z25, A
#define ROW_6(i, D, S, A) \
	ROW_32(i, D, S, A); \
	VCVTDQ2PS (1024+64*i)(R15), Z18; \
	VMULPS.BCST D, Z25, Z19;         \
	VFMADD231PS Z18, Z19, A

#define LOAD_ACC(i, D, S, A) VMOVUPS (64*i)(DI), A
#define STORE_ACC(i, D, S, A) VMOVUPS A, (64*i)(DI)

// ROW for each of the R11 tokens, sixteen at most, then on to end. R14 and R12 are the places in d and s of the first
// row.
#define EACH(ROW, end) \
	FOUR(ROW, 0, Z0, Z1, Z2, Z3, end);   \
	FOUR(ROW, 4, Z4, Z5, Z6, Z7, end);   \
	FOUR(ROW, 8, Z8, Z9, Z10, Z11, end); \
	FOUR(ROW, 12, Z12, Z13, Z14, Z15, end)
#define FOUR(ROW, i, A, B, C, D, end) \
	ROW(i, (R14), (R12), A);                     \
	CMPQ R11, $(i+1);                            \
	JEQ  end;                                    \
	ROW((i+1), (R14)(R10*1), (R12)(R10*1), B);   \
	CMPQ R11, $(i+2);                            \
	JEQ  end;                                    \
	ROW((i+2), (R14)(R10*2), (R12)(R10*2), C);   \
	CMPQ R11, $(i+3);                            \
	JEQ  end;                                    \
	ROW((i+3), (R14)(R13*1), (R12)(R13*1), D);   \
	CMPQ R11, $(i+4);                            \
	JEQ  end;                                    \
	LEAQ (R14)(R10*4), R14;                      \
	LEAQ (R12)(R10*4), R12

// At the end of the frame are the arguments that move on, by n blocks; when nothing is left, on to done.
#define KEEP_ARGS(A, R) \
	MOVQ tileArgs_w(A), R;      \
	MOVQ R, w-8(SP);            \
	MOVQ tileArgs_wBytes(A), R; \
	MOVQ R, left-16(SP);        \
	MOVQ tileArgs_ds(A), R;     \
	MOVQ R, ds-24(SP);          \
	MOVQ tileArgs_mins(A), R;   \
	MOVQ R, mins-32(SP);        \
	MOVQ tileArgs_q(A), R;      \
	MOVQ R, q-40(SP);           \
	MOVQ tileArgs_d(A), R;      \
	MOVQ R, d-48(SP)
#define ADVANCE(n) \
	ADDQ $(512*n), w-8(SP);     \
	ADDQ $(128*n), ds-24(SP);   \
	ADDQ $(64*n), mins-32(SP);  \
	ADDQ $(32*n), q-40(SP);     \
	ADDQ $(4*n), d-48(SP);      \
	SUBQ $(512*n), left-16(SP); \
	JLE  done

// The sums of all rows in a lane stay in registers while the blocks of the lane pass, each LANES after the one before:
// so C is all that goes through memory. As two lanes share the cache lines of activations, 32 blocks pass in every lane
// before more do: they stay in a first-level cache. DI acc of the lane, SI w, R8 bytes of it left, AX ds, BX mins, DX
// q, CX d, R9 bytes of a row of q, R10, R13 one and three rows of d in bytes, R11 rows, R15 room for C at a multiple of
// 64; 0(SP) the end of acc, 8(SP), 16(SP) what to prefetch and its end, 24(SP) from d to s.
#define TILE_AMX(DEPTH, LANES, PRODUCTS, ROW) \
	MOVQ a+0(FP), R11;            \
	MOVQ tileArgs_tokens(R11), R11; \
	CONFIGURE(DEPTH);             \
	MOVQ a+0(FP), AX;             \
	KEEP_ARGS(AX, R14);           \
	MOVQ tileArgs_acc(AX), DI;    \
	MOVQ tileArgs_accBytes(AX), R14; \
	ADDQ DI, R14;                 \
	MOVQ R14, 0(SP);              \
	MOVQ tileArgs_prefetch(AX), R14; \
	MOVQ R14, 8(SP);              \
	ADDQ tileArgs_prefetchBytes(AX), R14; \
	MOVQ R14, 16(SP);             \
	MOVQ tileArgs_s(AX), R14;     \
	SUBQ tileArgs_d(AX), R14;     \
	MOVQ R14, 24(SP);             \
	MOVQ tileArgs_n(AX), R9;      \
	MOVQ R9, R10;                 \
	SHRQ $3, R10;                 \
	LEAQ (R10)(R10*2), R13;       \
	LEAQ 159(SP), R15;            \
	ANDQ $-64, R15;               \
lane: \
	MOVQ w-8(SP), SI;             \
	MOVQ $(512*32), R8;           \
	CMPQ R8, left-16(SP);         \
	JLE  whole;                   \
	MOVQ left-16(SP), R8;         \
whole: \
	MOVQ ds-24(SP), AX;           \
	MOVQ mins-32(SP), BX;         \
	MOVQ q-40(SP), DX;            \
	MOVQ d-48(SP), CX;            \
	EACH(LOAD_ACC, blk);          \
	ALIGN_LOOP;                   \
blk: \
	MOVQ 8(SP), R14;              \
	PREFETCH_NEXT(R14, 16(SP));           \
	MOVQ R14, 8(SP);              \
fetched: \
	MOVQ $64, R14;                \
	PRODUCTS;                     \
	MOVQ CX, R14;                 \
	MOVQ 24(SP), R12;             \
	ADDQ CX, R12;                 \
	EACH(ROW, added);             \
added: \
	ADDQ $(512*LANES), SI;        \
	ADDQ $(128*LANES), AX;        \
	ADDQ $(64*LANES), BX;         \
	ADDQ $(32*LANES), DX;         \
	ADDQ $(4*LANES), CX;          \
	SUBQ $(512*LANES), R8;        \
	JGT  blk;                     \
	EACH(STORE_ACC, stored);      \
stored: \
	MOVQ R11, R14;                \
	SHLQ $6, R14;                 \
	ADDQ R14, DI;                 \
	ADVANCE(1);                   \
	CMPQ DI, 0(SP);               \
	JNE  lane;                    \
	ADVANCE((32-LANES));          \
	MOVQ a+0(FP), DI;             \
	MOVQ tileArgs_acc(DI), DI;    \
	JMP  lane;                    \
done: \
	TILERELEASE;                  \
	VZEROUPPER;                   \
	RET

// func tile32AMX(a *tileArgs)
TEXT ·tile32AMX(SB), 0, $2256-8
	TILE_AMX(8, 4, PRODUCTS_32, ROW_32)

// func tileKAMX(a *tileArgs)
TEXT ·tileKAMX(SB), 0, $2256-8
	TILE_AMX(8, 8, PRODUCTS_K, ROW_K)

// func tile6AMX(a *tileArgs)
TEXT ·tile6AMX(SB), 0, $2256-8
	TILE_AMX(4, 8, PRODUCTS_6, ROW_6)

// func peakBytesAMX(n int) uint64
TEXT ·peakBytesAMX(SB), NOSPLIT, $96-16
	VPXORD    Z16, Z16, Z16
	VMOVDQU64 Z16, 32(SP)
	MOVB $1, 32(SP)
	MOVQ $0x0040004000400040, R14
	MOVQ R14, 48(SP)
	MOVQ R14, 56(SP)
	MOVQ $0x1010101010101010, R14
	MOVQ R14, 80(SP)
	LDTILECFG(32)
	TILEZERO(0)
	TILEZERO(1)
	TILEZERO(2)
	TILEZERO(3)
	TILEZERO(4)
	TILEZERO(5)
	MOVQ n+0(FP), CX
round:
	TDPBSSD(0, 4, 5)
	TDPBSSD(1, 4, 5)
	TDPBSSD(2, 4, 5)
	TDPBSSD(3, 4, 5)
	DECQ CX
	JNZ  round
	TILERELEASE
	VZEROUPPER
	MOVQ CX, ret+8(FP)
	RET
