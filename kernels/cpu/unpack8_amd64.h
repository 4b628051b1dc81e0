// Eight weight rows at a time, a dword of each in a register of 256 bits, to be multiplied with activations that are
// broadcast from memory, four at a time: that takes no vector unit. The integers of a block are then a dword for each
// row, with no step across lanes, and one instruction converts the scales of eight rows. The bits are those of the gemv
// functions, whose order of sums (gemv_amd64.h) this keeps.
//
// Here are the ways to unpack such rows, for one token (gemv8_amd64.h) and for several (gemm8_amd64.h). SI and BX
// places in rows 0 and 1, DI and R8 bytes of a row and of three, R14 what is prefetched, eight rows and two pages
// further on; R11, R13 for anything.

// Sets AX to the arguments and SI, DI, R8, R14, for weights of size bytes to 2^log columns, and R9 to n.
#define UNPACK8_PLACES(size, log) \
	MOVQ   a+0(FP), AX;          \
	MOVQ   gemmArgs_w(AX), SI;   \
	MOVQ   gemmArgs_n(AX), R9;   \
	MOVQ   R9, DI;               \
	SHRQ   $log, DI;             \
	IMUL3Q $size, DI, DI;        \
	LEAQ   (DI)(DI*2), R8;       \
	LEAQ   8192(SI)(DI*8), R14

// Prefetches a line of what comes next. Many at once keep loads waiting, so they stand between other instructions.
#define LINE(i) NEAR(R14, 64*(i))

// A-D = dwords 0 to 3 of the sixteen bytes at o of the eight rows. Y8, Y9, T for anything.
#define TRANSPOSE(o, XA, A, XB, B, XC, C, XD, D, T) \
	VMOVDQU     (o)(SI), XA;              \
	VMOVDQU     (o)(BX), XB;              \
	VMOVDQU     (o)(SI)(DI*2), XC;        \
	VMOVDQU     (o)(BX)(DI*2), XD;        \
	VINSERTI128 $1, (o)(SI)(DI*4), A, A;  \
	VINSERTI128 $1, (o)(BX)(DI*4), B, B;  \
	VINSERTI128 $1, (o)(SI)(R8*2), C, C;  \
	VINSERTI128 $1, (o)(BX)(R8*2), D, D;  \
	VPUNPCKLDQ  B, A, Y8;                 \
	VPUNPCKHDQ  B, A, Y9;                 \
	VPUNPCKLDQ  D, C, T;                  \
	VPUNPCKHDQ  D, C, D;                  \
	VPUNPCKLQDQ T, Y8, A;                 \
	VPUNPCKHQDQ T, Y8, B;                 \
	VPUNPCKLQDQ D, Y9, C;                 \
	VPUNPCKHQDQ D, Y9, D
#define TRANSPOSE_LOW(o, T) TRANSPOSE(o, X0, Y0, X1, Y1, X2, Y2, X3, Y3, T)
#define TRANSPOSE_HIGH(o, T) TRANSPOSE(o, X4, Y4, X5, Y5, X6, Y6, X7, Y7, T)

// X = the words A, B, C and D. Those of B and D are the upper halves of dwords, so that one load sets both: the lower
// ones lie in the row before.
#define FOUR_WORDS(A, B, C, D, X) \
	MOVL  B, R13;    \
	MOVL  D, R11;    \
	MOVW  A, R13;    \
	MOVW  C, R11;    \
	SHLQ  $32, R11;  \
	ORQ   R11, R13;  \
	VMOVQ R13, X

// X13 = the scales at o of the eight rows, in half precision, collected in integer registers, which have nothing else
// to do.
#define EIGHT_SCALES(o) \
	FOUR_WORDS((o)(SI), (o-2)(BX), (o)(SI)(DI*2), (o-2)(BX)(DI*2), X13);            \
	FOUR_WORDS((o)(SI)(DI*4), (o-2)(BX)(DI*4), (o)(SI)(R8*2), (o-2)(BX)(R8*2), X8); \
	VPUNPCKLQDQ X8, X13, X13

// D times byte i of the dwords SRC, to (o)(R) and what follows.
#define KEEP_BYTE(i, SRC, D, o, R) \
	VPSHUFB   octbytes<>+(32*i)(SB), SRC, Y13; \
	VCVTDQ2PS Y13, Y13;                        \
	VMULPS    D, Y13, Y13;                     \
	VMOVUPS   Y13, (o+32*i)(R)
#define KEEP_BYTES(SRC, D, o, R) \
	KEEP_BYTE(0, SRC, D, o, R); \
	KEEP_BYTE(1, SRC, D, o, R); \
	KEEP_BYTE(2, SRC, D, o, R); \
	KEEP_BYTE(3, SRC, D, o, R)

// The scales of the eight blocks of 32 in a block of Q4_K or Q5_K to (scales)(R), their minima to (mins)(R): see
// scalesK. Takes two lines. Y4-Y13.
#define SCALES_K(scales, mins, R) \
	TRANSPOSE_HIGH(0, Y10);                       \
	LINE(0);                                 \
	VBROADCASTI128 octbytes<>+128(SB), Y8;   \
	VPSHUFB Y8, Y4, Y8;                      \
	VPERMQ  $0xd8, Y8, Y8;                   \
	VEXTRACTI128 $1, Y8, X9;                 \
	VCVTPH2PS X8, Y8;                        \ // d
	VCVTPH2PS X9, Y9;                        \ // dmin
	VPBROADCASTD octbytes<>+144(SB), Y12;    \
	VPBROADCASTD octbytes<>+148(SB), Y10;    \
	VPSRLW $2, Y5, Y4;                       \
	VPSRLW $2, Y6, Y11;                      \
	VPAND  Y10, Y4, Y4;                      \
	VPAND  Y10, Y11, Y11;                    \
	VPAND  Y12, Y7, Y13;                     \
	VPSRLW $4, Y7, Y7;                       \
	VPAND  Y12, Y7, Y7;                      \
	VPOR   Y13, Y4, Y4;                      \ // the last four scales
	VPOR   Y7, Y11, Y11;                     \ // the last four minima
	VPOR   Y10, Y12, Y10;                    \
	VPAND  Y10, Y5, Y5;                      \
	VPAND  Y10, Y6, Y6;                      \
	KEEP_BYTES(Y5, Y8, scales, R);           \
	KEEP_BYTES(Y4, Y8, scales+128, R);       \
	LINE(1);                                 \
	KEEP_BYTES(Y6, Y9, mins, R);             \
	KEEP_BYTES(Y11, Y9, mins+128, R)

// Byte 0, 1, 2 or 3 of each dword; the low words of dwords, then their high words; low nibbles; bits 4 and 5; bit 4.
DATA octbytes<>+0(SB)/8, $0x8080800480808000
DATA octbytes<>+8(SB)/8, $0x8080800c80808008
DATA octbytes<>+16(SB)/8, $0x8080800480808000
DATA octbytes<>+24(SB)/8, $0x8080800c80808008
DATA octbytes<>+32(SB)/8, $0x8080800580808001
DATA octbytes<>+40(SB)/8, $0x8080800d80808009
DATA octbytes<>+48(SB)/8, $0x8080800580808001
DATA octbytes<>+56(SB)/8, $0x8080800d80808009
DATA octbytes<>+64(SB)/8, $0x8080800680808002
DATA octbytes<>+72(SB)/8, $0x8080800e8080800a
DATA octbytes<>+80(SB)/8, $0x8080800680808002
DATA octbytes<>+88(SB)/8, $0x8080800e8080800a
DATA octbytes<>+96(SB)/8, $0x8080800780808003
DATA octbytes<>+104(SB)/8, $0x8080800f8080800b
DATA octbytes<>+112(SB)/8, $0x8080800780808003
DATA octbytes<>+120(SB)/8, $0x8080800f8080800b
DATA octbytes<>+128(SB)/8, $0x0d0c090805040100
DATA octbytes<>+136(SB)/8, $0x0f0e0b0a07060302
DATA octbytes<>+144(SB)/4, $0x0f0f0f0f
DATA octbytes<>+148(SB)/4, $0x30303030
DATA octbytes<>+152(SB)/4, $0x10101010
GLOBL octbytes<>(SB), RODATA|NOPTR, $156
