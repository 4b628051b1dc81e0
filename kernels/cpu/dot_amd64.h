// Bodies of the dot products on weights that are quantised, shared by the AVX2 and the VNNI file. The file that includes this one
// defines, for a weight vector W of 32 signed bytes and activations Q (a register or an address),
//   DOTS(W, Q)  Y3 = eight int32, lane l the sum of W[i]·Q[i] for i = 4l..4l+3; uses Y2, Y3, Y5
//   DOTU(W, Q)  the same for W of unsigned bytes below 128
// and for the panel
//   DOTP(Q)     Y7 likewise for weights Y4 and their magnitudes Y5; uses Y7, Y8
//   ROWS_ONES, PANEL_ONES  the constant they need, in Y10 and Y14
//
// |W| ≤ 128 and |Q| ≤ 127, so two products of bytes add up to at most 32512: VPMADDUBSW does not saturate.

// All lanes of a register from a 32-bit number; uses AX.
#define SPLAT(imm, X, Y) MOVL imm, AX; VMOVD AX, X; VPBROADCASTD X, Y

// Arguments of rows(dst []float32, w []byte, q []int8, d, s []float32, h []int16):
// DI dst, R8 rows left, SI w, DX q, CX d, R9 blocks in a row, R10 s.
#define ROWS_ARGS \
	MOVQ dst_base+0(FP), DI; \
	MOVQ dst_len+8(FP), R8;  \
	MOVQ w_base+24(FP), SI;  \
	MOVQ q_base+48(FP), DX;  \
	MOVQ d_base+72(FP), CX;  \
	MOVQ d_len+80(FP), R9;   \
	MOVQ s_base+96(FP), R10

// Arguments of unpack(w []int8, ds, mins []float32, src []byte): DI w, R8 weights left, DX ds, CX mins, SI src.
#define UNPACK_ARGS \
	MOVQ w_base+0(FP), DI;     \
	MOVQ w_len+8(FP), R8;      \
	MOVQ ds_base+24(FP), DX;   \
	MOVQ mins_base+48(FP), CX; \
	MOVQ src_base+72(FP), SI

// Y1 = the 32 weights of the block at SI+o, constants from the _CONST macro beside.
#define Q8_0_LOAD(o) VMOVDQU (2+o)(SI), Y1

#define Q4_0_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15); \
	SPLAT($0x08080808, X14, Y14)
#define Q4_0_LOAD(o) \
	VMOVDQU     (2+o)(SI), X1;  \
	VPSRLW      $4, X1, X2;     \
	VINSERTI128 $1, X2, Y1, Y1; \
	VPAND       Y15, Y1, Y1;    \
	VPSUBB      Y14, Y1, Y1

// A weight is nibble - 16 where its high bit is clear, so the nibble with F0 above, and the nibble where it is set.
#define Q5_0_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15);   \
	VMOVDQU  q5bytes<>(SB), Y14;    \
	VPBROADCASTQ q5bits<>(SB), Y13; \
	SPLAT($0xf0f0f0f0, X12, Y12);   \
	VPCMPEQB Y11, Y11, Y11
#define Q5_0_LOAD(o) \
	VMOVDQU      (6+o)(SI), X1;  \
	VPSRLW       $4, X1, X2;     \
	VINSERTI128  $1, X2, Y1, Y1; \
	VPAND        Y15, Y1, Y1;    \
	VPBROADCASTD (2+o)(SI), Y2;  \
	VPSHUFB      Y14, Y2, Y2;    \ // byte i is the one with the high bit of weight i
	VPOR         Y13, Y2, Y2;    \ // all ones if the bit is set
	VPCMPEQB     Y11, Y2, Y2;    \
	VPANDN       Y12, Y2, Y2;    \ // F0 where it is clear
	VPOR         Y2, Y1, Y1

// Adds the products of the block at SI+w, with activations at R11+q and their scale at R12+d, to Y0.
#define BLOCK32(LOAD, w, q, d) \
	LOAD(w); \
	DOTS(Y1, q(R11));          \
	VCVTDQ2PS    Y3, Y3;       \
	VPBROADCASTW w(SI), X4;    \
	VCVTPH2PS    X4, Y4;       \
	VBROADCASTSS d(R12), Y5;   \
	VMULPS       Y5, Y4, Y4;   \
	VFMADD231PS  Y3, Y4, Y0

// rows for the types with blocks of 32 and one scale, in size bytes.
// Y0 the sum, Y1 weights, Y3 products, Y4 scale; R11, R12 place in q and d, R13 blocks left.
#define ROWS32(LOAD, size) \
row: \
	MOVQ   DX, R11;            \
	MOVQ   CX, R12;            \
	MOVQ   R9, R13;            \
	VXORPS Y0, Y0, Y0;         \
	SUBQ   $2, R13;            \
	JLT    last;               \
two: \
	AHEAD(SI, 0);              \
	BLOCK32(LOAD, 0, 0, 0);    \
	BLOCK32(LOAD, size, 32, 4); \
	ADDQ $(2*size), SI;        \
	ADDQ $64, R11;             \
	ADDQ $8, R12;              \
	SUBQ $2, R13;              \
	JGE  two;                  \
last: \
	ADDQ $2, R13;              \
	JZ   sum;                  \
	BLOCK32(LOAD, 0, 0, 0);    \
	ADDQ $size, SI;            \
sum: \
	HSUM(Y0, X0, X1);          \
	VMOVSS X0, (DI);           \
	ADDQ $4, DI;               \
	DECQ R8;                   \
	JNZ  row;                  \
	VZEROUPPER;                \
	RET

// unpack for the same types.
#define UNPACK32(LOAD, size) \
blk: \
	AHEAD(SI, 0);             \
	LOAD(0); \
	VMOVDQU      Y1, (DI);    \
	VPBROADCASTW (SI), X4;    \
	VCVTPH2PS    X4, X4;      \
	VMOVLPS      X4, (DX);    \
	ADDQ $size, SI;           \
	ADDQ $32, DI;             \
	ADDQ $8, DX;              \
	SUBQ $32, R8;             \
	JNZ  blk;                 \
	VZEROUPPER;               \
	RET

// Y6 = the eight scales, Y7 = the eight minima of the Q4_K or Q5_K block at SI: see scalesK. Uses AX, BX, R13, R14, R15, Y5.
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

// Adds the products of the sub-block at Q with weights W, whose scale lies on the stack, to Y0.
#define SUBK(k, W) \
	DOTU(W, (32*k)(R11));        \
	VCVTDQ2PS    Y3, Y3;         \
	VBROADCASTSS (4*k)(SP), Y5;  \
	VFMADD231PS  Y3, Y5, Y0
#define PAIRK(PAIR, k, l) PAIR; SUBK(k, Y1); SUBK(l, Y4)

// rows for Q4_K and Q5_K. Y0 the sum, Y8 that of minima; R11 place in q, R12 block; 0(SP) eight scales·d.
#define ROWSK(PAIR0, PAIR1, PAIR2, PAIR3, size) \
row: \
	MOVQ   DX, R11;                       \
	XORL   R12, R12;                      \
	VXORPS Y0, Y0, Y0;                    \
	VXORPS Y8, Y8, Y8;                    \
blk: \
	AHEAD(SI, 0);                         \
	AHEAD(SI, 64);                        \
	AHEAD(SI, 128);                       \
	SCALES_K; \
	VMULPS      (CX)(R12*4), Y6, Y6;      \
	VMOVUPS     Y6, 0(SP);                \
	VFMADD231PS (R10)(R12*4), Y7, Y8;     \
	PAIRK(PAIR0, 0, 1);                   \
	PAIRK(PAIR1, 2, 3);                   \
	PAIRK(PAIR2, 4, 5);                   \
	PAIRK(PAIR3, 6, 7);                   \
	ADDQ $size, SI;                       \
	ADDQ $256, R11;                       \
	ADDQ $8, R12;                         \
	CMPQ R12, R9;                         \
	JLT  blk;                             \
	VSUBPS Y8, Y0, Y0;                    \
	HSUM(Y0, X0, X1);                     \
	VMOVSS X0, (DI);                      \
	ADDQ $4, DI;                          \
	DECQ R8;                              \
	JNZ  row;                             \
	VZEROUPPER;                           \
	RET

// unpack for Q4_K and Q5_K.
#define STOREK(PAIR, k) \
	PAIR; \
	VMOVDQU Y1, (64*k)(DI); \
	VMOVDQU Y4, (64*k+32)(DI)
#define UNPACKK(PAIR0, PAIR1, PAIR2, PAIR3, size) \
blk: \
	SCALES_K; \
	VMOVUPS      Y7, (CX);         \
	VUNPCKLPS    Y6, Y6, Y1;       \ // scales 0 0 1 1 4 4 5 5
	VUNPCKHPS    Y6, Y6, Y2;       \ // scales 2 2 3 3 6 6 7 7
	VMOVUPS      X1, (DX);         \
	VMOVUPS      X2, 16(DX);       \
	VEXTRACTF128 $1, Y1, 32(DX);   \
	VEXTRACTF128 $1, Y2, 48(DX);   \
	STOREK(PAIR0, 0);              \
	STOREK(PAIR1, 1);              \
	STOREK(PAIR2, 2);              \
	STOREK(PAIR3, 3);              \
	ADDQ $size, SI;                \
	ADDQ $256, DI;                 \
	ADDQ $64, DX;                  \
	ADDQ $32, CX;                  \
	SUBQ $256, R8;                 \
	JNZ  blk;                      \
	VZEROUPPER;                    \
	RET

// Y6, Y7 = the sixteen scales of the Q6_K block at SI, times its d.
#define Q6_K_CONST \
	SPLAT($0x0f0f0f0f, X15, Y15); \
	SPLAT($0x30303030, X14, Y14); \
	SPLAT($0x20202020, X13, Y13); \
	VMOVDQU scale16<>(SB), Y12
#define Q6_K_SCALES \
	VPMOVSXBD    192(SI), Y6;  \
	VPMOVSXBD    200(SI), Y7;  \
	VCVTDQ2PS    Y6, Y6;       \
	VCVTDQ2PS    Y7, Y7;       \
	VPBROADCASTW 208(SI), X5;  \
	VCVTPH2PS    X5, Y5;       \
	VMULPS       Y5, Y6, Y6;   \
	VMULPS       Y5, Y7, Y7

// L = 32 weights from the low nibbles of the 32 bytes at ql, H = those from the high nibbles. SHL and SHH bring their upper two
// bits, in the 32 bytes at qh, to bits 4 and 5.
#define Q6_K_PAIR(L, H, ql, qh, SHL, nl, SHH, nh) \
	VMOVDQU ql(SI), L;         \
	VPSRLW  $4, L, H;          \
	VPAND   Y15, L, L;         \
	VPAND   Y15, H, H;         \
	VMOVDQU qh(SI), Y9;        \
	SHL     $nl, Y9, Y2;       \
	VPAND   Y14, Y2, Y2;       \
	VPOR    Y2, L, L;          \
	VPSUBB  Y13, L, L;         \
	SHH     $nh, Y9, Y2;       \
	VPAND   Y14, Y2, Y2;       \
	VPOR    Y2, H, H;          \
	VPSUBB  Y13, H, H

// Half of a Q6_K block: 128 weights in order in Y1, Y8, Y4, Y11.
#define Q6_K_HALF(ql, qh) \
	Q6_K_PAIR(Y1, Y4, ql, qh, VPSLLW, 4, VPSLLW, 0); \
	Q6_K_PAIR(Y8, Y11, ql+32, qh, VPSLLW, 2, VPSRLW, 2)

// Adds the products of 32 weights W, elements 32k.. of the block, to Y0. Two of the scales on the stack are theirs.
#define SUB6(k, W) \
	DOTS(W, (32*k)(R11));                 \
	VCVTDQ2PS    Y3, Y3;                  \
	VMOVSD       (8*k)(SP), X5;           \
	VPERMPS      Y5, Y12, Y5;             \
	VBROADCASTSS (4*k)(CX)(R12*4), Y2;    \
	VMULPS       Y2, Y5, Y5;              \
	VFMADD231PS  Y3, Y5, Y0

// rows for Q6_K. 0(SP) sixteen scales.
#define ROWS6 \
row: \
	MOVQ   DX, R11;                       \
	XORL   R12, R12;                      \
	VXORPS Y0, Y0, Y0;                    \
blk: \
	AHEAD(SI, 0);                         \
	AHEAD(SI, 64);                        \
	AHEAD(SI, 128);                       \
	AHEAD(SI, 192);                       \
	Q6_K_SCALES; \
	VMOVUPS Y6, 0(SP);                    \
	VMOVUPS Y7, 32(SP);                   \
	Q6_K_HALF(0, 128);                    \
	SUB6(0, Y1);                          \
	SUB6(1, Y8);                          \
	SUB6(2, Y4);                          \
	SUB6(3, Y11);                         \
	Q6_K_HALF(64, 160);                   \
	SUB6(4, Y1);                          \
	SUB6(5, Y8);                          \
	SUB6(6, Y4);                          \
	SUB6(7, Y11);                         \
	ADDQ $210, SI;                        \
	ADDQ $256, R11;                       \
	ADDQ $8, R12;                         \
	CMPQ R12, R9;                         \
	JLT  blk;                             \
	HSUM(Y0, X0, X1);                     \
	VMOVSS X0, (DI);                      \
	ADDQ $4, DI;                          \
	DECQ R8;                              \
	JNZ  row;                             \
	VZEROUPPER;                           \
	RET

// unpack for Q6_K.
#define STORE6(at) \
	VMOVDQU Y1, at(DI);      \
	VMOVDQU Y8, (at+32)(DI); \
	VMOVDQU Y4, (at+64)(DI); \
	VMOVDQU Y11, (at+96)(DI)
#define UNPACK6 \
blk: \
	Q6_K_SCALES; \
	VMOVUPS Y6, (DX);     \
	VMOVUPS Y7, 32(DX);   \
	Q6_K_HALF(0, 128);    \
	STORE6(0);            \
	Q6_K_HALF(64, 160);   \
	STORE6(128);          \
	ADDQ $210, SI;        \
	ADDQ $256, DI;        \
	ADDQ $64, DX;         \
	SUBQ $256, R8;        \
	JNZ  blk;             \
	VZEROUPPER;           \
	RET

// panel(dst *[4]float32, w []int8, ds, mins []float32, q []int8, d, s []float32): four rows of activations at once.
// Y0-Y3 sums, Y9-Y12 those of minima, Y4 weights, Y5 |weights|, Y6 scales, Y13 which scale goes to which lane, Y7 products;
// SI w, CX weights left, AX ds, DX q, BX d, R8, R9 one and three rows of q, R10, R11 the same of d.
#define PANEL_ARGS \
	MOVQ dst+0(FP), DI;         \
	MOVQ w_base+8(FP), SI;      \
	MOVQ w_len+16(FP), CX;      \
	MOVQ ds_base+32(FP), AX;    \
	MOVQ q_base+80(FP), DX;     \
	MOVQ d_base+104(FP), BX;    \
	MOVQ CX, R8;                \
	LEAQ (CX)(CX*2), R9;        \
	MOVQ CX, R10;               \
	SHRQ $3, R10;               \
	LEAQ (R10)(R10*2), R11;     \
	VXORPS Y0, Y0, Y0;          \
	VXORPS Y1, Y1, Y1;          \
	VXORPS Y2, Y2, Y2;          \
	VXORPS Y3, Y3, Y3;          \
	VMOVDQU scale16<>(SB), Y13
#define PANEL_ROW(Q, D, SUM) \
	DOTP(Q);                    \
	VCVTDQ2PS    Y7, Y7;        \
	VBROADCASTSS D, Y8;         \
	VMULPS       Y8, Y6, Y8;    \
	VFMADD231PS  Y7, Y8, SUM
#define PANEL_SUMS \
blk: \
	VMOVDQU (SI), Y4;                     \
	VPABSB  Y4, Y5;                       \
	VMOVSD  (AX), X6;                     \
	VPERMPS Y6, Y13, Y6;                  \
	PANEL_ROW((DX), (BX), Y0);            \
	PANEL_ROW((DX)(R8*1), (BX)(R10*1), Y1); \
	PANEL_ROW((DX)(R8*2), (BX)(R10*2), Y2); \
	PANEL_ROW((DX)(R9*1), (BX)(R11*1), Y3); \
	ADDQ $32, SI;                         \
	ADDQ $8, AX;                          \
	ADDQ $32, DX;                         \
	ADDQ $4, BX;                          \
	SUBQ $32, CX;                         \
	JNZ  blk
#define PANEL_MINS \
	MOVQ mins_base+56(FP), SI;            \
	MOVQ mins_len+64(FP), CX;             \
	MOVQ s_base+128(FP), BX;              \
	TESTQ CX, CX;                         \
	JZ   done;                            \
	VXORPS Y9, Y9, Y9;                    \
	VXORPS Y10, Y10, Y10;                 \
	VXORPS Y11, Y11, Y11;                 \
	VXORPS Y12, Y12, Y12;                 \
min: \
	VMOVUPS (SI), Y4;                     \
	VFMADD231PS (BX), Y4, Y9;             \
	VFMADD231PS (BX)(R10*1), Y4, Y10;     \
	VFMADD231PS (BX)(R10*2), Y4, Y11;     \
	VFMADD231PS (BX)(R11*1), Y4, Y12;     \
	ADDQ $32, SI;                         \
	ADDQ $32, BX;                         \
	SUBQ $8, CX;                          \
	JNZ  min;                             \
	VSUBPS Y9, Y0, Y0;                    \
	VSUBPS Y10, Y1, Y1;                   \
	VSUBPS Y11, Y2, Y2;                   \
	VSUBPS Y12, Y3, Y3
#define PANEL_STORE \
done: \
	HSUM(Y0, X0, X4);                     \
	HSUM(Y1, X1, X4);                     \
	HSUM(Y2, X2, X4);                     \
	HSUM(Y3, X3, X4);                     \
	VMOVSS X0, (DI);                      \
	VMOVSS X1, 4(DI);                     \
	VMOVSS X2, 8(DI);                     \
	VMOVSS X3, 12(DI);                    \
	VZEROUPPER;                           \
	RET

// Byte i of a vector takes byte i/8 of the high bits of a Q5_0 block.
DATA q5bytes<>+0(SB)/8, $0x0000000000000000
DATA q5bytes<>+8(SB)/8, $0x0101010101010101
DATA q5bytes<>+16(SB)/8, $0x0202020202020202
DATA q5bytes<>+24(SB)/8, $0x0303030303030303
GLOBL q5bytes<>(SB), RODATA|NOPTR, $32

// All bits but bit i mod 8 in byte i.
DATA q5bits<>+0(SB)/8, $0x7fbfdfeff7fbfdfe
GLOBL q5bits<>(SB), RODATA|NOPTR, $8

// Lanes 0-3 take scale 0, lanes 4-7 scale 1.
DATA scale16<>+0(SB)/8, $0x0000000000000000
DATA scale16<>+8(SB)/8, $0x0000000000000000
DATA scale16<>+16(SB)/8, $0x0000000100000001
DATA scale16<>+24(SB)/8, $0x0000000100000001
GLOBL scale16<>(SB), RODATA|NOPTR, $32
