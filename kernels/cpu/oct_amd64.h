// Eight rows of weights at a time, with eight columns of each to a register, meet some rows of activations, eight columns of which are
// broadcast from memory: that takes no vector unit, as a broadcast of sixteen does, and a sum has one step less than that of a quad. The bits
// are those of the rows leaves, whose order of sums (dot_amd64.h) this keeps. The file that includes this one includes quad_amd64.h before it.
//
// Arguments of oct(dst []float32, stride int, w []byte, q []int8, d, s []float32, h []int16, rows, n int): DI dst, 8(SP) end of w,
// SI and BX places in rows 0 and 1, R12 and R8 bytes of a row and of three, DX q, CX d, R13 h, or s for types with minima, R14 place in a row
// of d, s or h in bytes (q is eight times as far), R9 its end, R15 what is fetched: eight rows and ahead bytes further on. For a row of
// activations AX is DX and R11 is R14 in that row; R10 and 0(SP) lead to the next. size is the bytes of a block of 2^log columns.
// Two blocks of 32 columns at a time: Z0-Z3 columns 0 to 7, 8 to 15, 16 to 23 and 24 to 31 of the first one, Z4-Z7 those of the second, as
// unsigned bytes; Z8-Z12 for anything; Z13 scales, a dword for each of the two blocks of row 0, then of row 1 and so on, as are all sums:
// Z16-Z31. Z15 OTHERS. K4 every other dword, from the second on, K6 from the first on.
#define OCT_ARGS(size, log, ahead) \
	GROUP_ARGS(size, log);          \
	ADDQ  SI, AX;                   \
	MOVQ  AX, 8(SP);                \
	LEAQ  (R12)(R12*2), R8;         \
	LEAQ  ahead(SI)(R12*8), R15;    \
	MASK(0xaaaa, K4);               \
	MASK(0x5555, K6);               \
	VMOVDQU32 others<>(SB), Z15

#define MASK(imm, K) MOVL $imm, AX; KMOVD AX, K

// OTHERS: of two registers the second dword of each qword of the first one and the first of the second one.
DATA others<>+0(SB)/8, $0x0000001000000001
DATA others<>+8(SB)/8, $0x0000001200000003
DATA others<>+16(SB)/8, $0x0000001400000005
DATA others<>+24(SB)/8, $0x0000001600000007
DATA others<>+32(SB)/8, $0x0000001800000009
DATA others<>+40(SB)/8, $0x0000001a0000000b
DATA others<>+48(SB)/8, $0x0000001c0000000d
DATA others<>+56(SB)/8, $0x0000001e0000000f
GLOBL others<>(SB), RODATA|NOPTR, $64

DATA nibble<>+0(SB)/4, $0x0f0f0f0f
GLOBL nibble<>(SB), RODATA|NOPTR, $4

// A, B, C, D = bytes 0 to 7, 8 to 15, 16 to 23 and 24 to 31 from o on of the eight rows.
#define TURN8(o, A, B, C, D) \
	VMOVDQU32    (o)(SI), Y8;                  \
	VMOVDQU32    (o)(BX), Y9;                  \
	VMOVDQU32    (o)(SI)(R12*4), Y10;          \
	VMOVDQU32    (o)(BX)(R12*4), Y11;          \
	VINSERTI64X4 $1, (o)(SI)(R12*2), Z8, Z8;   \
	VINSERTI64X4 $1, (o)(BX)(R12*2), Z9, Z9;   \
	VINSERTI64X4 $1, (o)(SI)(R8*2), Z10, Z10;  \
	VINSERTI64X4 $1, (o)(BX)(R8*2), Z11, Z11;  \
	VPUNPCKLQDQ  Z9, Z8, C;        \
	VPUNPCKHQDQ  Z9, Z8, D;        \
	VPUNPCKLQDQ  Z11, Z10, Z8;     \
	VPUNPCKHQDQ  Z11, Z10, Z9;     \
	VSHUFI32X4   $0x88, Z8, C, A;  \
	VSHUFI32X4   $0x88, Z9, D, B;  \
	VSHUFI32X4   $0xdd, Z8, C, C;  \
	VSHUFI32X4   $0xdd, Z9, D, D

// E, O = the sixteen bytes at o of rows 0, 2, 4 and 6, and of rows 1, 3, 5 and 7.
#define SIXTEEN8(o, E, O) \
	VMOVDQU      (o)(SI), X8;                \
	VMOVDQU      (o)(BX), X9;                \
	VINSERTI128  $1, (o)(SI)(R12*2), Y8, Y8; \
	VINSERTI128  $1, (o)(BX)(R12*2), Y9, Y9; \
	VINSERTI32X4 $2, (o)(SI)(R12*4), Z8, Z8; \
	VINSERTI32X4 $2, (o)(BX)(R12*4), Z9, Z9; \
	VINSERTI32X4 $3, (o)(SI)(R8*2), Z8, E;   \
	VINSERTI32X4 $3, (o)(BX)(R8*2), Z9, O

// Z8 = products of blocks 2j and 2j+1 with a row of activations.
#define OCT_DOT(j) \
	VPXORD Z8, Z8, Z8;                      \
	VPXORD Z9, Z9, Z9;                      \
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
	VPBLENDMD Z9, Z8, K4, Z10;              \ // both have two sums for each row: one of each
	VPERMT2D Z9, Z15, Z8;                   \ // and the others
	VPADDD   Z10, Z8, Z8

// Adds the integers Z8 of blocks 2j and 2j+1 times the scales Z13, times d, to A.
#define OCT_ADD(j, A) \
	VCVTDQ2PS Z8, Z8;                       \
	VPBROADCASTQ (8*j)(CX)(R11*1), Z11;     \
	VMULPS   Z11, Z13, Z11;                 \
	VFMADD231PS Z8, Z11, A

// The lanes of A and B summed up, to the eight numbers at R11, which moves on by a row; to end if that was the number-th and last.
#define OCT_PUT(A, B, number, end) \
	VADDPS B, A, A;             \
	VPERMILPS $0xb1, A, Z0;     \
	VADDPS Z0, A, A;            \
	VCOMPRESSPS A, K6, Z0;      \
	VMOVUPS Y0, (R11);          \
	CMPQ rows+152(FP), $number; \
	JEQ  end;                   \
	ADDQ AX, R11

// Begins eight rows of weights.
#define OCT_BEGIN \
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

// Moves on to the next eight rows; to more if there are any, else returns.
#define OCT_END(more, put) \
put: \
	ADDQ $32, DI;           \
	LEAQ (BX)(R8*2), SI;    \
	CMPQ SI, 8(SP);         \
	JLT  more;              \
	VZEROUPPER;             \
	RET
