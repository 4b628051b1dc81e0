#define WORDS(imm, Z) MOVL $imm, AX; VPBROADCASTD AX, Z
#define FETCH(line) PREFETCHT0 (64*(line))(R15)

#define OCT_ARGS(size, off, ahead) \
	MOVQ  dst_base+0(FP), DI;       \
	MOVQ  w_base+32(FP), SI;        \
	MOVQ  w_len+40(FP), AX;         \
	ADDQ  SI, AX;                   \
	MOVQ  AX, 8(SP);                \
	MOVQ  q_base+56(FP), DX;        \
	MOVQ  d_base+80(FP), CX;        \
	MOVQ  h_base+128(FP), R13;      \
	MOVQ  n+160(FP), R10;           \
	MOVQ  R10, R9;                  \
	SHRQ  $3, R9;                   \
	MOVQ  R9, 0(SP);                \
	MOVQ  R10, R12;                 \
	SHRQ  $5, R12;                  \
	IMUL3Q $size, R12, R12;         \
	LEAQ  (R12)(R12*2), R8;         \
	LEAQ  ahead(SI)(R12*8), R15;    \
	MOVL  $0x0c0c0c0c, AX;              \
	KMOVD AX, K1;                   \
	SHLL  $2, AX;                   \
	KMOVD AX, K2;                   \
	SHLL  $2, AX;                   \
	KMOVD AX, K3;                   \
	MOVL  $0xaaaa, AX;              \
	KMOVW AX, K4;                   \
	MOVL  $0xf0f0, AX;              \
	KMOVW AX, K5;                   \
	MOVL  $0x5555, AX;              \
	KMOVW AX, K6;                   \
	WORDS(off, Z14);                \
	VMOVDQU32 octswap<>(SB), Z15

// A-D = 32 bytes at o of eight rows
#define TURN8(o, A, B, C, D) \
	VMOVDQU32    (o)(SI), Y8;                     \
	VINSERTI64X4 $1, (o)(SI)(R12*2), Z8, Z8;      \
	VMOVDQU32    (o)(BX), Y9;                     \
	VINSERTI64X4 $1, (o)(BX)(R12*2), Z9, Z9;      \
	VMOVDQU32    (o)(SI)(R12*4), Y10;             \
	VINSERTI64X4 $1, (o)(SI)(R8*2), Z10, Z10;     \
	VMOVDQU32    (o)(BX)(R12*4), Y11;             \
	VINSERTI64X4 $1, (o)(BX)(R8*2), Z11, Z11;     \
	VPUNPCKLQDQ  Z9, Z8, C;         \
	VPUNPCKHQDQ  Z9, Z8, D;         \
	VPUNPCKLQDQ  Z11, Z10, Z8;      \
	VPUNPCKHQDQ  Z11, Z10, Z9;      \
	VSHUFI32X4   $0x88, Z8, C, A;   \
	VSHUFI32X4   $0x88, Z9, D, B;   \
	VSHUFI32X4   $0xdd, Z8, C, C;   \
	VSHUFI32X4   $0xdd, Z9, D, D

#define ACT8(j, A) \
	VPXORD Z8, Z8, Z8;  \
	VPXORD Z9, Z9, Z9;  \
	VPBROADCASTQ (64*j)(AX)(R14*8), Z10;    \
	VPDPBUSD Z10, Z0, Z8;                   \
	VPBROADCASTQ (64*j+32)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z4, Z9;                   \
	VPBROADCASTQ (64*j+8)(AX)(R14*8), Z10;  \
	VPDPBUSD Z10, Z1, Z8;                   \
	VPBROADCASTQ (64*j+40)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z5, Z9;                   \
	VPBROADCASTQ (64*j+16)(AX)(R14*8), Z10; \
	VPDPBUSD Z10, Z2, Z8;                   \
	VPBROADCASTQ (64*j+48)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z6, Z9;                   \
	VPBROADCASTQ (64*j+24)(AX)(R14*8), Z10; \
	VPDPBUSD Z10, Z3, Z8;                   \
	VPBROADCASTQ (64*j+56)(AX)(R14*8), Z11; \
	VPDPBUSD Z11, Z7, Z9;                   \
	VPBLENDMD Z9, Z8, K4, Z10;              \
	VPERMT2D Z9, Z15, Z8;                   \
	VPADDD Z10, Z8, Z8;                     \
	VPBROADCASTQ (8*j)(R13)(R11*1), Z10;    \
	VPDPWSSD Z14, Z10, Z8;                  \
	VCVTDQ2PS Z8, Z8;                       \
	VPBROADCASTQ (8*j)(CX)(R11*1), Z11;     \
	VMULPS Z11, Z13, Z11;                   \
	VFMADD231PS Z8, Z11, A

#define NEXT(number, end) \
	CMPQ rows+152(FP), $number; \
	JEQ  end;                   \
	ADDQ R10, AX;               \
	ADDQ 0(SP), R11

#define ACTS8(j, A, B, C, D, E, F, G, H, end) \
	MOVQ DX, AX;   \
	MOVQ R14, R11; \
	ACT8(j, A);    \
	NEXT(1, end);  \
	ACT8(j, B);    \
	NEXT(2, end);  \
	ACT8(j, C);    \
	NEXT(3, end);  \
	ACT8(j, D);    \
	NEXT(4, end);  \
	ACT8(j, E);    \
	NEXT(5, end);  \
	ACT8(j, F);    \
	NEXT(6, end);  \
	ACT8(j, G);    \
	NEXT(7, end);  \
	ACT8(j, H);    \
end:

#define PUT8(A, B, number, end) \
	VADDPS B, A, A;           \
	VPERMILPS $0xb1, A, Z0;   \
	VADDPS Z0, A, A;          \
	VCOMPRESSPS A, K6, Z0;    \
	VMOVUPS Y0, (R11);        \
	CMPQ rows+152(FP), $number; \
	JEQ  end;                 \
	ADDQ AX, R11

#define BEGIN8 \
	LEAQ (SI)(R12*1), BX;   \
	XORL R14, R14;          \
	VPXORD Z16, Z16, Z16;   \
	VPXORD Z17, Z17, Z17;   \
	VPXORD Z18, Z18, Z18;   \
	VPXORD Z19, Z19, Z19;   \
	VPXORD Z20, Z20, Z20;   \
	VPXORD Z21, Z21, Z21;   \
	VPXORD Z22, Z22, Z22;   \
	VPXORD Z23, Z23, Z23;   \
	VPXORD Z24, Z24, Z24;   \
	VPXORD Z25, Z25, Z25;   \
	VPXORD Z26, Z26, Z26;   \
	VPXORD Z27, Z27, Z27;   \
	VPXORD Z28, Z28, Z28;   \
	VPXORD Z29, Z29, Z29;   \
	VPXORD Z30, Z30, Z30;   \
	VPXORD Z31, Z31, Z31

#define END8(more, put) \
	MOVQ DI, R11;           \
	MOVQ stride+24(FP), AX; \
	SHLQ $2, AX;            \
	PUT8(Z16, Z24, 1, put); \
	PUT8(Z17, Z25, 2, put); \
	PUT8(Z18, Z26, 3, put); \
	PUT8(Z19, Z27, 4, put); \
	PUT8(Z20, Z28, 5, put); \
	PUT8(Z21, Z29, 6, put); \
	PUT8(Z22, Z30, 7, put); \
	PUT8(Z23, Z31, 8, put); \
put: \
	ADDQ $32, DI;           \
	LEAQ (BX)(R8*2), SI;    \
	CMPQ SI, 8(SP);         \
	JLT  more;              \
	VZEROUPPER;             \
	RET
