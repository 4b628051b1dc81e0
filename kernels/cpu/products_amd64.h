// What the products of products_avx2_amd64.h and products_avxvnni_amd64.h share. The file that includes one of them
// defines DS, where the scales of the eight rows are, and MINS, where their minima are.

#define WORDS(imm, X, Y) MOVL imm, R13; VMOVD R13, X; VPBROADCASTD X, Y

// Two tokens: places of their q, their d, and their s or h.
#define Q0 (R13)
#define Q1 (R13)(R9*1)
#define D0 (R14)
#define D1 (R14)(R10*1)
#define S0 (R14)(R15*1)
#define S1 (R14)(BP*1)

// Adds the integers A times the scales at D, times those at ds, to SUM.
#define SCALED(A, D, ds, SUM) \
	VCVTDQ2PS    A, A;          \
	VBROADCASTSS D, Y10;        \
	VMULPS       ds, Y10, Y10;  \
	VFMADD231PS  A, Y10, SUM

// The end of a row: its sums are at O.
#define ADD_32(A, D, O) \
	VMOVUPS O(R12), Y11;    \
	SCALED(A, D, DS, Y11);  \
	VMOVUPS Y11, O(R12)
#define ADD_K(A, D, S, O) \
	VMOVUPS O(R12), Y11;          \
	SCALED(A, D, DS, Y11);        \
	VBROADCASTSS S, Y10;          \
	VFNMADD231PS MINS, Y10, Y11;  \
	VMOVUPS Y11, O(R12)
