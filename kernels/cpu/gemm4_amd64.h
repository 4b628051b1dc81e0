// Four weight rows at a time are multiplied with some tokens: what an instruction costs is shared by four rows, and
// weights are unpacked once for all activations. The bits are those of the gemv functions, whose order of sums
// (gemv_amd64.h) this keeps: block b goes to accumulator b mod 4 of its row, or mod 8 for the types with blocks of 256.
//
// Four blocks of 32 columns at a time, a quarter of a register for each: a register of weights is sixteen columns of
// each block of one row. It is the number of loads that counts, two a cycle whatever their width, and one more where
// they cross a cache line: so weights come in whole registers and are brought to their places there, and activations
// are interleaved beforehand ([Acts]).
//
// Arguments of gemm4: DI dst, R8 end of w, SI, SI+R12, SI+2·R12 and BX place in the rows, R12 bytes of a row, DX q, CX
// d, R13 h, or s for types with minima, R14 place in a row of d, s or h in bytes (q is eight times as far), R15 what is
// prefetched: some bytes behind the next four rows; tokens at the end of the frame. For a token AX is DX and R11 is R14
// in that row; R10 and R9 lead to the next, and R9 is the end of R14. size is the bytes of a block of 2^log columns,
// off words that make up for the offset of the weights. Z0, Z2, Z4 and Z6 columns 0 to 15 of the blocks of rows 0 to 3,
// as unsigned bytes, Z1, Z3, Z5 and Z7 columns 16 to 31; Z8-Z11 products of the rows; Z12, Z13 activations; Z14 sums of
// products, with a dword for each row in the quarter of a block, as have the scales, Z24, and the sums of each token,
// Z16-Z23. K1-K3 words of rows 1-3 there. Z27 words of 1, Z28 dword b in quarter b, Z30 words of the offset, Z31
// nibbles.
#define GEMM4_ARGS(size, log, off, prefetch) \
	MOVQ  a+0(FP), AX;              \
	MOVQ  gemmArgs_dst(AX), DI;     \
	MOVQ  gemmArgs_w(AX), SI;       \
	MOVQ  gemmArgs_wBytes(AX), R8;  \
	ADDQ  SI, R8;                   \
	MOVQ  gemmArgs_q(AX), DX;       \
	MOVQ  gemmArgs_d(AX), CX;       \
	MOVQ  gemmArgs_h(AX), R13;      \
	MOVQ  gemmArgs_tokens(AX), R10; \
	MOVQ  R10, tokens-8(SP);        \
	MOVQ  gemmArgs_n(AX), R10;      \
	MOVQ  R10, R9;                  \
	SHRQ  $3, R9;                   \
	MOVQ  R10, R12;                 \
	SHRQ  $log, R12;                \
	IMUL3Q $size, R12, R12;          \
	LEAQ  prefetch(SI)(R12*4), R15;    \
	MASK(0x2222, K1);               \
	MASK(0x4444, K2);               \
	MASK(0x8888, K3);               \
	WORDS(0x00010001, Z27);         \
	VMOVDQU32 quarters<>(SB), Z28;  \
	WORDS(off, Z30);                \
	WORDS(0x0f0f0f0f, Z31)

// Prefetches a line of what comes next. Many at once keep loads waiting, so they stand between other instructions.
#define PREFETCH_NEXT(line) NEAR(R15, 64*(line))

#define WORDS(imm, Z) MOVL $imm, AX; VPBROADCASTD AX, Z
#define MASK(imm, K) MOVL $imm, AX; KMOVD AX, K

// P = products of a weight row with activations.
#define DOT(V, W, P) \
	VPXORD   P, P, P;   \
	VPDPBUSD Z12, V, P; \
	VPDPBUSD Z13, W, P
#define DOTS \
	VMOVDQU32 (AX)(R14*8), Z12;   \
	VMOVDQU32 64(AX)(R14*8), Z13; \
	DOT(Z0, Z1, Z8);  \
	DOT(Z2, Z3, Z9);  \
	DOT(Z4, Z5, Z10); \
	DOT(Z6, Z7, Z11)

// Z14 = the integers that make up for the offset of the weights, or zeros.
#define OFFSET \
	VPMADDWD (R13)(R11*1), X30, X14; \
	VPERMD   Z14, Z28, Z14
#define NO_OFFSET VPXORD Z14, Z14, Z14

// Adds to Z14 the sums of Z8, Z9, Z10 and Z11 in each quarter. PACK4: Z8 = two words of each of them, Z9 = two others;
// these fit, as sums of eight products do in Q5_0 (8·31·127), and of four in Q6_K (4·63·127). In Q4_0 sums of sixteen
// do (16·15·127).
#define PACK4 \
	VPACKSSDW Z9, Z8, Z12;         \
	VPACKSSDW Z11, Z10, Z13;       \
	VSHUFPS   $0x88, Z13, Z12, Z8; \
	VSHUFPS   $0xdd, Z13, Z12, Z9
#define SUM5 \
	PACK4;                 \
	VPDPWSSD Z27, Z8, Z14; \
	VPDPWSSD Z27, Z9, Z14
#define SUM4 \
	PACK4;                 \
	VPADDW   Z9, Z8, Z8;   \
	VPDPWSSD Z27, Z8, Z14

// Z12 = the number of each block of a token at R, in its quarter.
#define QUARTERS(R) \
	VMOVUPS (R)(R11*1), X12; \
	VPERMPS Z12, Z28, Z12

// Adds the integers Z14 times the scales D, times d, to A.
#define ADD4(D, A) \
	QUARTERS(CX);           \
	VMULPS Z12, D, Z12;     \
	VCVTDQ2PS Z14, Z14;     \
	VFMADD231PS Z14, Z12, A

// To the next token, or to end if that was the number-th and last.
#define NEXT(number, end) \
	CMPQ tokens-8(SP), $number;        \
	JEQ  end;                          \
	ADDQ R10, AX;                      \
	ADDQ R9, R11

// ACT for all tokens, whose sums are A to H.
#define ACTS(ACT, A, B, C, D, E, F, G, H, end) \
	MOVQ DX, AX;   \
	MOVQ R14, R11; \
	ACT(A);        \
	NEXT(1, end);  \
	ACT(B);        \
	NEXT(2, end);  \
	ACT(C);        \
	NEXT(3, end);  \
	ACT(D);        \
	NEXT(4, end);  \
	ACT(E);        \
	NEXT(5, end);  \
	ACT(F);        \
	NEXT(6, end);  \
	ACT(G);        \
	NEXT(7, end);  \
	ACT(H);        \
end:

// The sum of A's quarters, (0+2)+(1+3), to the four numbers at R11, which moves on by a row; to end if that was the
// number-th and last.
#define PUT4(A, number, end) \
	VEXTRACTF64X4 $1, A, Y0;     \
	VADDPS A, Z0, Z0;            \
	VEXTRACTF128 $1, Y0, X1;     \
	VADDPS X1, X0, X0;           \
	VMOVUPS X0, (R11);           \
	CMPQ tokens-8(SP), $number;  \
	JEQ  end;                    \
	ADDQ AX, R11

// Begins four weight rows.
#define BEGIN4 \
	LEAQ (SI)(R12*2), BX;   \
	ADDQ R12, BX;           \
	XORL R14, R14;          \
	VPXORD Z16, Z16, Z16;   \
	VPXORD Z17, Z17, Z17;   \
	VPXORD Z18, Z18, Z18;   \
	VPXORD Z19, Z19, Z19;   \
	VPXORD Z20, Z20, Z20;   \
	VPXORD Z21, Z21, Z21;   \
	VPXORD Z22, Z22, Z22;   \
	VPXORD Z23, Z23, Z23

// Moves on by size bytes of each row, 16 bytes of a row of d; to more if there are more.
#define MOVE4(size, more) \
	ADDQ $(4*size), R15;    \
	ADDQ $size, SI;         \
	ADDQ $size, BX;         \
	ADDQ $16, R14;          \
	CMPQ R14, R9;           \
	JLT  more

// Puts the sums of four rows; to more if there are more weight rows, else returns.
#define END4(more, put) \
	MOVQ DI, R11;           \
	MOVQ a+0(FP), AX;       \
	MOVQ gemmArgs_stride(AX), AX; \
	SHLQ $2, AX;            \
	PUT4(Z16, 1, put);      \
	PUT4(Z17, 2, put);      \
	PUT4(Z18, 3, put);      \
	PUT4(Z19, 4, put);      \
	PUT4(Z20, 5, put);      \
	PUT4(Z21, 6, put);      \
	PUT4(Z22, 7, put);      \
	PUT4(Z23, 8, put);      \
put: \
	ADDQ $16, DI;           \
	MOVQ BX, SI;            \
	CMPQ SI, R8;            \
	JLT  more;              \
	VZEROUPPER;             \
	RET

DATA quarters<>+0(SB)/8, $0x0000000000000000
DATA quarters<>+8(SB)/8, $0x0000000000000000
DATA quarters<>+16(SB)/8, $0x0000000100000001
DATA quarters<>+24(SB)/8, $0x0000000100000001
DATA quarters<>+32(SB)/8, $0x0000000200000002
DATA quarters<>+40(SB)/8, $0x0000000200000002
DATA quarters<>+48(SB)/8, $0x0000000300000003
DATA quarters<>+56(SB)/8, $0x0000000300000003
GLOBL quarters<>(SB), RODATA|NOPTR, $64
