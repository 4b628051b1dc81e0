// Bodies of the dot products on weights that are quantised, shared by the AVX2 and the VNNI file. The file that
// includes this one defines, for a vector W of 32 weights and activations Q (an address),
//   DOTU(W, w, Q, P, p)  P = sums of W[i]·Q[i], W of unsigned bytes below 64: by fours in 32 bits, or by twos in 16
//                        bits; w, p the numbers of the registers, for an instruction that the assembler does not know
//   ADDP                 the instruction that adds such P
//   WIDEN(P)             P = sums by fours in 32 bits
//   DOT_ONES            the constant that they need, in Y10
//
// Order of the sums, here and in the tiles: the integers of a block (of a half block in Q6_K) are added exactly. What
// belongs to block b goes to accumulator b mod 4, or mod 8 for the types with blocks of 256, in ascending order of b;
// the accumulators are added at the end.
//
// A type whose weights are W - o takes them unsigned, as W, and adds -o·ΣQ: with H words of o this is one VPMADDWD.

// Arguments of gemv: DI dst, R8 end of w, SI w, DX q, CX d, R9 blocks in a row, R10 s, R13 h.
#define GEMV_ARGS \
	MOVQ a+0(FP), AX;             \
	MOVQ gemmArgs_dst(AX), DI;    \
	MOVQ gemmArgs_w(AX), SI;      \
	MOVQ gemmArgs_wBytes(AX), R8; \
	ADDQ SI, R8;                  \
	MOVQ gemmArgs_q(AX), DX;      \
	MOVQ gemmArgs_d(AX), CX;      \
	MOVQ gemmArgs_n(AX), R9;      \
	SHRQ $5, R9;                  \
	MOVQ gemmArgs_s(AX), R10;     \
	MOVQ gemmArgs_h(AX), R13

// Y1 = the 32 weights of the block at SI+o, less the offset of the type; constants from the _CONST macro beside.
#define Q4_0_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15); \
	SPLAT($0x08080808, X14, Y14); \
	VPMOVZXBD nibbles<>(SB), Y8
#define Q4_0_LOAD(o) \
	VBROADCASTI128 (2+o)(SI), Y1;  \
	VPSRLVD        Y8, Y1, Y1;     \
	VPAND          Y15, Y1, Y1

#define Q5_0_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15);   \
	VPMOVZXBD nibbles<>(SB), Y8;    \
	VMOVDQU  q5bytes<>(SB), Y14;    \
	VPBROADCASTQ q5bits<>(SB), Y13; \
	SPLAT($0x10101010, X12, Y12);   \
	VPCMPEQB Y11, Y11, Y11
#define Q5_0_LOAD(o) \
	VBROADCASTI128 (6+o)(SI), Y1; \
	VPSRLVD      Y8, Y1, Y1;     \
	VPAND        Y15, Y1, Y1;    \
	VPBROADCASTD (2+o)(SI), Y2;  \
	VPSHUFB      Y14, Y2, Y2;    \ // byte i is the one with the high bit of weight i
	VPOR         Y13, Y2, Y2;    \ // all ones if the bit is set
	VPCMPEQB     Y11, Y2, Y2;    \
	VPAND        Y12, Y2, Y2;    \
	VPOR         Y2, Y1, Y1

// P = products of the block at SI+w with activations at R11+q.
#define Q4_0_DOT(w, q, P, p) Q4_0_LOAD(w); DOTU(Y1, 1, q(R11), P, p)
#define Q5_0_DOT(w, q, P, p) Q5_0_LOAD(w); DOTU(Y1, 1, q(R11), P, p)

// H words that make up for the offset.
#define Q4_0_OFF SPLAT($0xfff8fff8, X9, Y9)
#define Q5_0_OFF SPLAT($0xfff0fff0, X9, Y9)

// A = two sums each of A, in the lower half of each 128 bits, and of B, from more; ADD adds them. JOIN2: A = one each
// of what A and B hold. (VPHADDD is three operations and a slow one.)
#define JOIN4(A, B, T, ADD) \
	VPUNPCKLQDQ B, A, T; \
	VPUNPCKHQDQ B, A, A; \
	ADD         T, A, A
#define JOIN2(A, B, T, ADD) \
	VSHUFPS $0x88, B, A, T; \
	VSHUFPS $0xdd, B, A, A; \
	ADD     T, A, A

// Y3 = the integers of four blocks at SI, to be added in halves of the register.
#define GEMM4(DOT, ADD, WIDEN, size) \
	DOT(0, 0, Y3, 3);          \
	DOT(size, 32, Y4, 4);      \
	DOT(2*size, 64, Y5, 5);    \
	DOT(3*size, 96, Y6, 6);    \
	JOIN4(Y3, Y4, Y1, ADD);    \
	JOIN4(Y5, Y6, Y2, ADD);    \
	JOIN2(Y3, Y5, Y1, ADD);    \
	WIDEN(Y3)

// X = the scales of four blocks at SI, in half precision, collected in AX: the integer units have nothing else to do.
#define GEMM4_SCALES(size, X) \
	MOVWQZX (SI), AX;          \
	MOVWQZX size(SI), BX;      \
	SHLQ $16, BX;              \
	ORQ  BX, AX;               \
	MOVWQZX (2*size)(SI), BX;  \
	SHLQ $32, BX;              \
	ORQ  BX, AX;               \
	MOVWQZX (3*size)(SI), BX;  \
	SHLQ $48, BX;              \
	ORQ  BX, AX;               \
	VMOVQ AX, X

// gemv for the same types: four blocks at a time, then one. What DOT gives is added by ADD and made 32 bits wide by
// WIDEN. X0 the sums, which are rotated by a lane with each single block (their total is the same from any lane on);
// Y3-Y6 products, X7 scales; R11, R12, R14 place in q, d, h, R15 blocks left.
#define GEMV32(DOT, ADD, WIDEN, size) \
row: \
	MOVQ   DX, R11;            \
	MOVQ   CX, R12;            \
	MOVQ   R13, R14;           \
	MOVQ   R9, R15;            \
	VXORPS X0, X0, X0;         \
	SUBQ   $4, R15;            \
	JLT    last;               \
four: \
	PREFETCH(SI, 0);              \
	PREFETCH(SI, 64);             \
	GEMM4(DOT, ADD, WIDEN, size); \
	VEXTRACTI128 $1, Y3, X4;   \
	VPADDD X4, X3, X3;         \
	VPMADDWD (R14), X9, X4;    \
	VPADDD X4, X3, X3;         \
	VCVTDQ2PS X3, X3;          \
	GEMM4_SCALES(size, X7);     \
	VCVTPH2PS X7, X7;          \
	VMULPS (R12), X7, X7;      \
	VFMADD231PS X3, X7, X0;    \
	ADDQ $(4*size), SI;        \
	ADDQ $128, R11;            \
	ADDQ $16, R12;             \
	ADDQ $16, R14;             \
	SUBQ $4, R15;              \
	JGE  four;                 \
last: \
	ADDQ $4, R15;              \
	JZ   sum;                  \
one: \
	DOT(0, 0, Y3, 3);          \
	WIDEN(Y3);                 \
	VEXTRACTI128 $1, Y3, X4;   \
	VPADDD X4, X3, X3;         \
	VPHADDD X3, X3, X3;        \
	VPHADDD X3, X3, X3;        \
	VMOVD (R14), X4;           \
	VPMADDWD X4, X9, X4;       \
	VPADDD X4, X3, X3;         \
	VCVTDQ2PS X3, X3;          \
	VPBROADCASTW (SI), X7;     \
	VCVTPH2PS X7, X7;          \
	VMULSS (R12), X7, X7;      \
	VFMADD231SS X3, X7, X0;    \
	VPERMILPS $0x39, X0, X0;   \
	ADDQ $size, SI;            \
	ADDQ $32, R11;             \
	ADDQ $4, R12;              \
	ADDQ $4, R14;              \
	DECQ R15;                  \
	JNZ  one;                  \
sum: \
	VMOVHLPS  X0, X0, X1;      \
	VADDPS    X1, X0, X0;      \
	VMOVSHDUP X0, X1;          \
	VADDSS    X1, X0, X0;      \
	VMOVSS X0, (DI);           \
	ADDQ $4, DI;               \
	CMPQ SI, R8;               \
	JLT  row;                  \
	VZEROUPPER;                \
	RET

// Y6 = the eight scales, Y7 = the eight minima of the Q4_K or Q5_K block at SI: see scalesK. Uses AX, BX, R13, R14,
// R15, Y5.
#define SCALES_K \
	MOVL 4(SI), AX;           \
	MOVL 8(SI), BX;           \
	MOVL 12(SI), R13;         \
	MOVL AX, R14;             \ // the last four scales, to the upper half of AX
	SHRL $2, R14;             \
	ANDL $0x30303030, R14;    \
	MOVL R13, R15;            \
	ANDL $0x0f0f0f0f, R15;    \
	ORL  R15, R14;            \
	SHLQ $32, R14;            \
	ANDL $0x3f3f3f3f, AX;     \
	ORQ  R14, AX;             \
	SHRL $4, R13;             \ // the last four minima, to the upper half of BX
	ANDL $0x0f0f0f0f, R13;    \
	MOVL BX, R14;             \
	SHRL $2, R14;             \
	ANDL $0x30303030, R14;    \
	ORL  R14, R13;            \
	SHLQ $32, R13;            \
	ANDL $0x3f3f3f3f, BX;     \
	ORQ  R13, BX;             \
	VMOVQ        AX, X6;      \
	VPMOVZXBD    X6, Y6;      \
	VCVTDQ2PS    Y6, Y6;      \
	VPBROADCASTW (SI), X5;    \
	VCVTPH2PS    X5, Y5;      \
	VMULPS       Y5, Y6, Y6;  \
	VMOVQ        BX, X7;      \
	VPMOVZXBD    X7, Y7;      \
	VCVTDQ2PS    Y7, Y7;      \
	VPBROADCASTW 2(SI), X5;   \
	VCVTPH2PS    X5, Y5;      \
	VMULPS       Y5, Y7, Y7

// Sub-blocks 2j and 2j+1 of Q4_K: Y1 the low nibbles, Y4 the high ones of 32 bytes.
#define Q4_K_CONST SPLAT($0x0f0f0f0f, X15, Y15)
#define Q4_K_PAIR(j) \
	VMOVDQU (16+32*j)(SI), Y1; \
	VPSRLW  $4, Y1, Y4;        \
	VPAND   Y15, Y1, Y1;       \
	VPAND   Y15, Y4, Y4

// The same for Q5_K. SHL and SHH bring bits 2j and 2j+1 of the high bits, in Y9, to bit 4.
#define Q5_K_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15); \
	SPLAT($0x10101010, X14, Y14)
#define Q5_K_PAIR(j, SHL, nl, SHH, nh) \
	VMOVDQU (48+32*j)(SI), Y1; \
	VPSRLW  $4, Y1, Y4;        \
	VPAND   Y15, Y1, Y1;       \
	VPAND   Y15, Y4, Y4;       \
	VMOVDQU 16(SI), Y9;        \
	SHL     $nl, Y9, Y2;       \
	VPAND   Y14, Y2, Y2;       \
	VPOR    Y2, Y1, Y1;        \
	SHH     $nh, Y9, Y2;       \
	VPAND   Y14, Y2, Y2;       \
	VPOR    Y2, Y4, Y4
#define Q5_K_PAIR0 Q5_K_PAIR(0, VPSLLW, 4, VPSLLW, 3)
#define Q5_K_PAIR1 Q5_K_PAIR(1, VPSLLW, 2, VPSLLW, 1)
#define Q5_K_PAIR2 Q5_K_PAIR(2, VPSLLW, 0, VPSRLW, 1)
#define Q5_K_PAIR3 Q5_K_PAIR(3, VPSRLW, 2, VPSRLW, 3)

// LOW = the lower halves of A and B, HIGH = their upper halves.
#define HALVES(A, B, LOW, HIGH) \
	VPERM2I128 $0x20, B, A, LOW; \
	VPERM2I128 $0x31, B, A, HIGH

// Y3 = products of sub-blocks k and k+1.
#define PAIRK(PAIR, k) \
	PAIR; \
	DOTU(Y1, 1, (32*k)(R11), Y3, 3);      \
	DOTU(Y4, 4, (32*k+32)(R11), Y5, 5);   \
	JOIN4(Y3, Y5, Y1, ADDP)

// gemv for Q4_K and Q5_K. Y0 the sums; R11 place in q, R12 block.
#define GEMVK(PAIR0, PAIR1, PAIR2, PAIR3, size) \
row: \
	MOVQ   DX, R11;                       \
	XORL   R12, R12;                      \
	VXORPS Y0, Y0, Y0;                    \
blk: \
	PREFETCH(SI, 0);                         \
	PREFETCH(SI, 64);                        \
	PREFETCH(SI, 128);                       \
	SCALES_K; \
	VMULPS  (CX)(R12*4), Y6, Y6;          \
	PAIRK(PAIR0, 0);                      \
	VMOVDQA Y3, Y8;                       \
	PAIRK(PAIR1, 2);                      \
	JOIN2(Y8, Y3, Y1, ADDP);              \
	VMOVDQA Y8, Y11;                      \
	PAIRK(PAIR2, 4);                      \
	VMOVDQA Y3, Y8;                       \
	PAIRK(PAIR3, 6);                      \
	JOIN2(Y8, Y3, Y1, ADDP);              \
	WIDEN(Y11);                           \
	WIDEN(Y8);                            \
	HALVES(Y11, Y8, Y1, Y3);              \
	VPADDD    Y1, Y3, Y3;                 \
	VCVTDQ2PS Y3, Y3;                     \
	VFMADD231PS  Y3, Y6, Y0;              \
	VFNMADD231PS (R10)(R12*4), Y7, Y0;    \
	ADDQ $size, SI;                       \
	ADDQ $256, R11;                       \
	ADDQ $8, R12;                         \
	CMPQ R12, R9;                         \
	JLT  blk;                             \
	HSUM(Y0, X0, X1);                     \
	VMOVSS X0, (DI);                      \
	ADDQ $4, DI;                          \
	CMPQ SI, R8;                          \
	JLT  row;                             \
	VZEROUPPER;                           \
	RET

#define Q6_K_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15); \
	SPLAT($0x30303030, X14, Y14)

// The sixteen scales of the Q6_K block at SI, times its d: Y6 those of the first halves of the eight blocks of 32, Y7
// those of the second.
#define Q6_K_APART \
	VPMOVSXWD    192(SI), Y7;  \
	VPSLLD       $24, Y7, Y6;  \
	VPSRAD       $24, Y6, Y6;  \
	VPSRAD       $8, Y7, Y7;   \
	VCVTDQ2PS    Y6, Y6;       \
	VCVTDQ2PS    Y7, Y7;       \
	VPBROADCASTW 208(SI), X5;  \
	VCVTPH2PS    X5, Y5;       \
	VMULPS       Y5, Y6, Y6;   \
	VMULPS       Y5, Y7, Y7

// L = 32 weights, plus 32, from the low nibbles of the 32 bytes at ql, H = those from the high nibbles. SHL and SHH
// bring their upper two bits, in the 32 bytes at qh, to bits 4 and 5.
#define Q6_K_PAIR(L, H, ql, qh, SHL, nl, SHH, nh) \
	VMOVDQU ql(SI), L;         \
	VPSRLW  $4, L, H;          \
	VPAND   Y15, L, L;         \
	VPAND   Y15, H, H;         \
	VMOVDQU qh(SI), Y9;        \
	SHL     $nl, Y9, Y2;       \
	VPAND   Y14, Y2, Y2;       \
	VPOR    Y2, L, L;          \
	SHH     $nh, Y9, Y2;       \
	VPAND   Y14, Y2, Y2;       \
	VPOR    Y2, H, H

// Half of a Q6_K block: 128 weights in order in Y1, Y8, Y4, Y11.
#define Q6_K_HALF(ql, qh) \
	Q6_K_PAIR(Y1, Y4, ql, qh, VPSLLW, 4, VPSLLW, 0); \
	Q6_K_PAIR(Y8, Y11, ql+32, qh, VPSLLW, 2, VPSRLW, 2)

// Y1 = the products of blocks k to k+3: lane b the first half of block k+b, lane b+4 the second.
#define SUM6(k) \
	DOTU(Y1, 1, (32*k)(R11), Y3, 3);      \
	DOTU(Y8, 8, (32*k+32)(R11), Y5, 5);   \
	JOIN4(Y3, Y5, Y1, ADDP);              \
	WIDEN(Y3);                            \
	DOTU(Y4, 4, (32*k+64)(R11), Y5, 5);   \
	DOTU(Y11, 11, (32*k+96)(R11), Y2, 2); \
	JOIN4(Y5, Y2, Y1, ADDP);              \
	WIDEN(Y5);                            \
	JOIN2(Y3, Y5, Y1, VPADDD);            \
	VMOVDQA Y3, Y1

// Adds the products P of half blocks, less 32·H by the words OFF, times the scales D, to Y0.
#define ADD6(P, OFF, D) \
	VPMADDWD  Y8, OFF, Y2;              \
	VPADDD    Y2, P, P;                 \
	VCVTDQ2PS P, P;                     \
	VMULPS    (CX)(R12*4), D, D;        \
	VFMADD231PS P, D, Y0

// gemv for Q6_K. Y0 the sums; R11 place in q, R12 block; Y12, Y13 words of -32 for the first and the second half.
#define GEMV6 \
	SPLAT($0x0000ffe0, X12, Y12);         \
	VPSLLD $16, Y12, Y13;                 \
row: \
	MOVQ   DX, R11;                       \
	XORL   R12, R12;                      \
	VXORPS Y0, Y0, Y0;                    \
blk: \
	PREFETCH(SI, 0);                         \
	PREFETCH(SI, 64);                        \
	PREFETCH(SI, 128);                       \
	PREFETCH(SI, 192);                       \
	Q6_K_HALF(0, 128);                    \
	SUM6(0);                              \
	VMOVDQA Y1, Y6;                       \
	Q6_K_HALF(64, 160);                   \
	SUM6(4);                              \
	HALVES(Y6, Y1, Y3, Y4);               \
	Q6_K_APART; \
	VMOVDQU (R13)(R12*4), Y8;             \
	ADD6(Y3, Y12, Y6);                    \
	ADD6(Y4, Y13, Y7);                    \
	ADDQ $210, SI;                        \
	ADDQ $256, R11;                       \
	ADDQ $8, R12;                         \
	CMPQ R12, R9;                         \
	JLT  blk;                             \
	HSUM(Y0, X0, X1);                     \
	VMOVSS X0, (DI);                      \
	ADDQ $4, DI;                          \
	CMPQ SI, R8;                          \
	JLT  row;                             \
	VZEROUPPER;                           \
	RET

// The lower half of a vector takes the lower nibbles, the upper half the upper ones: how far to shift each word.
DATA nibbles<>+0(SB)/8, $0x0404040400000000
GLOBL nibbles<>(SB), RODATA|NOPTR, $8

// Byte i of a vector takes byte i/8 of the high bits of a Q5_0 block.
DATA q5bytes<>+0(SB)/8, $0x0000000000000000
DATA q5bytes<>+8(SB)/8, $0x0101010101010101
DATA q5bytes<>+16(SB)/8, $0x0202020202020202
DATA q5bytes<>+24(SB)/8, $0x0303030303030303
GLOBL q5bytes<>(SB), RODATA|NOPTR, $32

// All bits but bit i mod 8 in byte i.
DATA q5bits<>+0(SB)/8, $0x7fbfdfeff7fbfdfe
GLOBL q5bits<>(SB), RODATA|NOPTR, $8
