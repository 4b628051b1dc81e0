// Eight rows of weights at a time, a dword of each in a register: oct in 256 bits, for one row of activations, four of which are broadcast
// from memory: that takes no vector unit. The integers of a block are then a dword for each row, with no step across lanes, and one instruction
// turns the scales of eight rows. The bits are those of the rows leaves, whose order of sums (dot_amd64.h) this keeps.
//
// The file that includes this one defines, for four registers of weights in turn, register W, number w, and an address Q of four activations,
//   START(b)                            begins the sums of block b of four, whose offset is at (4·b)(SP)
//   LOW_FIRST(W, w, Q), LOW(W, w, Q)    add the products of the low nibbles of W
//   HIGH_FIRST(W, w, Q), HIGH(W, w, Q)  add those of the high ones, and spoil W
//   END(b)                              Y10 = the sums in 32 bits
// on Y8 to Y11.
//
// Arguments of oct(dst []float32, stride int, w []byte, x form, rows, n int), rows being 1 and x as in [Acts]: DI dst, R10 end of w, SI and BX
// places in rows 0 and 1, R12 and R8 bytes of a row and of three, DX x.q, CX x.d, R13 x.h, R14 place in d and h in bytes (q is eight times as far), R9 its end, R15 what is fetched: eight rows and two
// pages further on. AX, R11 for anything. Y0-Y3 sums of lanes 0 to 3; Y4-Y7 weights; Y8-Y13 for anything; Y15 low nibbles. OCT_ARGS32 and so on are for
// types with blocks of 32, which come by fours: X13 scales, Y14 words of the offset.
#define OCT_ARGS(size, log) \
	GROUP_ARGS(size, log);          \
	LEAQ (SI)(AX*1), R10;           \
	LEAQ (R12)(R12*2), R8;          \
	LEAQ 8192(SI)(R12*8), R15;      \
	SPLAT($0x0f0f0f0f, X15, Y15)
#define OCT_ARGS32(size, off) \
	OCT_ARGS(size, 5);         \
	MOVQ x_h_base+128(FP), R13;  \
	SPLAT($off, X14, Y14)

// Begins eight rows.
#define OCT_BEGIN \
	LEAQ (SI)(R12*1), BX; \
	XORL R14, R14
#define OCT_BEGIN32 \
	OCT_BEGIN;            \
	VXORPS Y0, Y0, Y0;    \
	VXORPS Y1, Y1, Y1;    \
	VXORPS Y2, Y2, Y2;    \
	VXORPS Y3, Y3, Y3

// The offsets of four blocks, to the stack.
#define OCT_OFFSETS \
	VPMADDWD (R13)(R14*1), X14, X4; \
	VMOVDQU  X4, 0(SP)

// Y4-Y7 = dwords 0 to 3 of the sixteen bytes at o of the eight rows; uses T.
#define OCT_TURN(o, T) \
	VMOVDQU     (o)(SI), X4;                 \
	VMOVDQU     (o)(BX), X5;                 \
	VMOVDQU     (o)(SI)(R12*2), X6;          \
	VMOVDQU     (o)(BX)(R12*2), X7;          \
	VINSERTI128 $1, (o)(SI)(R12*4), Y4, Y4;  \
	VINSERTI128 $1, (o)(BX)(R12*4), Y5, Y5;  \
	VINSERTI128 $1, (o)(SI)(R8*2), Y6, Y6;   \
	VINSERTI128 $1, (o)(BX)(R8*2), Y7, Y7;   \
	VPUNPCKLDQ  Y5, Y4, Y8;                  \
	VPUNPCKHDQ  Y5, Y4, Y9;                  \
	VPUNPCKLDQ  Y7, Y6, T;                   \
	VPUNPCKHDQ  Y7, Y6, Y7;                  \
	VPUNPCKLQDQ T, Y8, Y4;                   \
	VPUNPCKHQDQ T, Y8, Y5;                   \
	VPUNPCKLQDQ Y7, Y9, Y6;                  \
	VPUNPCKHQDQ Y7, Y9, Y7

// X = the words A, B, C and D. Those of B and D are the upper halves of dwords, so that one load sets both: the lower ones lie in the row before.
#define OCT_WORDS(A, B, C, D, X) \
	MOVL  B, AX;     \
	MOVL  D, R11;    \
	MOVW  A, AX;     \
	MOVW  C, R11;    \
	SHLQ  $32, R11;  \
	ORQ   R11, AX;   \
	VMOVQ AX, X

// X13 = the scales at o of the eight rows, collected in integer registers, which have nothing else to do.
#define OCT_SCALES(o) \
	OCT_WORDS((o)(SI), (o-2)(BX), (o)(SI)(R12*2), (o-2)(BX)(R12*2), X13);            \
	OCT_WORDS((o)(SI)(R12*4), (o-2)(BX)(R12*4), (o)(SI)(R8*2), (o-2)(BX)(R8*2), X8); \
	VPUNPCKLQDQ X8, X13, X13

// Adds the products of the nibbles of block b.
#define OCT_DOT(b) \
	LOW_FIRST(Y4, 4, (32*b)(DX)(R14*8));       \
	HIGH_FIRST(Y4, 4, (32*b+16)(DX)(R14*8));   \
	LOW(Y5, 5, (32*b+4)(DX)(R14*8));           \
	HIGH(Y5, 5, (32*b+20)(DX)(R14*8));         \
	LOW(Y6, 6, (32*b+8)(DX)(R14*8));           \
	HIGH(Y6, 6, (32*b+24)(DX)(R14*8));         \
	LOW(Y7, 7, (32*b+12)(DX)(R14*8));          \
	HIGH(Y7, 7, (32*b+28)(DX)(R14*8))

// Adds the integers Y10 of block b times the scales, times d, to A.
#define OCT_ADD(b, A) \
	VCVTDQ2PS    Y10, Y10;              \
	VCVTPH2PS    X13, Y13;              \
	VBROADCASTSS (4*b)(CX)(R14*1), Y9;  \
	VMULPS       Y9, Y13, Y13;          \
	VFMADD231PS  Y10, Y13, A

// Moves on by size bytes of each row, which are step bytes of a row of d; to more if there are any.
#define OCT_MOVE(size, step, more) \
	ADDQ $(8*(size)), R15;  \
	ADDQ $(size), SI;       \
	ADDQ $(size), BX;       \
	ADDQ $step, R14;        \
	CMPQ R14, R9;           \
	JLT  more

// Puts the sums, which are (Y0+Y2) + (Y1+Y3), and moves on by eight rows; to oct if there are any, else returns.
#define OCT_END(oct) \
	VADDPS  Y2, Y0, Y0;     \
	VADDPS  Y3, Y1, Y1;     \
	VADDPS  Y1, Y0, Y0;     \
	VMOVUPS Y0, (DI);       \
	ADDQ    $32, DI;        \
	LEAQ    (BX)(R8*2), SI; \
	CMPQ    SI, R10;        \
	JLT     oct;            \
	VZEROUPPER;             \
	RET

// Block b of four of Q4_0, to be added to A.
#define Q4_0_OCT(b, A) \
	OCT_SCALES(18*b);       \
	FETCH(2*b);             \
	OCT_TURN(18*b+2, Y10);  \
	START(b);               \
	OCT_DOT(b);             \
	FETCH(2*b+1);           \
	END(b);                 \
	OCT_ADD(b, A)

#define OCT_Q4_0 \
	OCT_ARGS32(18, 0xfff8fff8);  \
oct: \
	OCT_BEGIN32;               \
four: \
	OCT_OFFSETS;               \
	Q4_0_OCT(0, Y0);           \
	Q4_0_OCT(1, Y1);           \
	FETCH(8);                  \
	Q4_0_OCT(2, Y2);           \
	Q4_0_OCT(3, Y3);           \
	OCT_MOVE(4*18, 16, four);  \
	OCT_END(oct)
