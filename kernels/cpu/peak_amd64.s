//go:build !noasm

#include "textflag.h"

// peak(n int) uint64: n rounds of twelve instructions OP on zeros, which do not wait for each other.
#define PEAK(OP, A, B, C, D, E, F, G, H, I, J, K, L) \
	MOVQ n+0(FP), CX; \
	VZEROALL;   \
round: \
	OP(A);      \
	OP(B);      \
	OP(C);      \
	OP(D);      \
	OP(E);      \
	OP(F);      \
	OP(G);      \
	OP(H);      \
	OP(I);      \
	OP(J);      \
	OP(K);      \
	OP(L);      \
	DECQ CX;    \
	JNZ  round; \
	VZEROUPPER; \
	MOVQ CX, ret+8(FP); \
	RET
#define MADDUBS(R) VPMADDUBSW Y0, Y1, R
#define FMA(R) VFMADD231PS Y0, Y1, R
// VPDPBUSD Y0, Y1, Yp in the form of AVX-VNNI; the assembler knows only that of AVX-512.
#define DPBUSD256(p) BYTE $0xc4; BYTE $(0xe2 - 128*(p/8)); BYTE $0x75; BYTE $0x50; BYTE $(0xc0 + 8*(p%8))
#define DPBUSD512(R) VPDPBUSD Z0, Z1, R
#define FMA512(R) VFMADD231PS Z0, Z1, R

// func peakBytesAVX2(n int) uint64
TEXT ·peakBytesAVX2(SB), NOSPLIT, $0-16
	PEAK(MADDUBS, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13)

// func peakFloatsAVX2(n int) uint64
TEXT ·peakFloatsAVX2(SB), NOSPLIT, $0-16
	PEAK(FMA, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13)

// func peakBytesVNNI(n int) uint64
TEXT ·peakBytesVNNI(SB), NOSPLIT, $0-16
	PEAK(DPBUSD512, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13)

// func peakFloatsAVX512(n int) uint64
TEXT ·peakFloatsAVX512(SB), NOSPLIT, $0-16
	PEAK(FMA512, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13)

// func peakBytesAVXVNNI(n int) uint64
TEXT ·peakBytesAVXVNNI(SB), NOSPLIT, $0-16
	PEAK(DPBUSD256, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)

// Four products of tiles of 16 rows of 64 bytes, the instructions as kernels/cpu/_asm writes them. The configuration is
// byte 0 the palette, words 8-15 bytes of a row of each tile, bytes 48-55 their rows; tiles then are zeros.
#define LDTILECFG BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0x04; BYTE $0x24
#define TILERELEASE BYTE $0xC4; BYTE $0xE2; BYTE $0x78; BYTE $0x49; BYTE $0xC0
#define TDPBSSD(c, a, b) BYTE $0xC4; BYTE $0xE2; BYTE $(0x7B - b*8); BYTE $0x5E; BYTE $(0xC0 + c*8 + a)

// func peakBytesAMX(n int) uint64
TEXT ·peakBytesAMX(SB), NOSPLIT, $64-16
	VPXORD    Z16, Z16, Z16
	VMOVDQU64 Z16, (SP)
	MOVB $1, (SP)
	MOVQ $0x0040004000400040, R14
	MOVQ R14, 16(SP)
	MOVQ R14, 24(SP)
	MOVQ $0x1010101010101010, R14
	MOVQ R14, 48(SP)
	LDTILECFG
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

// func readAVX2(p []byte) uint64
// Reads 256 bytes a pass; what is left below that is not read.
TEXT ·readAVX2(SB), NOSPLIT, $0-32
	MOVQ p_base+0(FP), SI
	MOVQ p_len+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	SUBQ $256, CX
	JLT  done
again:
	VPOR (SI), Y0, Y0
	VPOR 32(SI), Y1, Y1
	VPOR 64(SI), Y2, Y2
	VPOR 96(SI), Y3, Y3
	VPOR 128(SI), Y0, Y0
	VPOR 160(SI), Y1, Y1
	VPOR 192(SI), Y2, Y2
	VPOR 224(SI), Y3, Y3
	ADDQ $256, SI
	SUBQ $256, CX
	JGE  again
done:
	VPOR Y1, Y0, Y0
	VPOR Y3, Y2, Y2
	VPOR Y2, Y0, Y0
	VMOVQ X0, AX
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET
