//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// peak(n int) uint64: n rounds of twelve instructions OP on the registers of these numbers, which do not wait for each
// other.
#define PEAK(OP) \
	MOVD n+0(FP), R0; \
	VEOR V0.B16, V0.B16, V0.B16; \
	VMOV V0.B16, V2.B16;  \
	VMOV V0.B16, V3.B16;  \
	VMOV V0.B16, V4.B16;  \
	VMOV V0.B16, V5.B16;  \
	VMOV V0.B16, V6.B16;  \
	VMOV V0.B16, V7.B16;  \
	VMOV V0.B16, V16.B16; \
	VMOV V0.B16, V17.B16; \
	VMOV V0.B16, V18.B16; \
	VMOV V0.B16, V19.B16; \
	VMOV V0.B16, V20.B16; \
	VMOV V0.B16, V21.B16; \
round: \
	OP(2);  \
	OP(3);  \
	OP(4);  \
	OP(5);  \
	OP(6);  \
	OP(7);  \
	OP(16); \
	OP(17); \
	OP(18); \
	OP(19); \
	OP(20); \
	OP(21); \
	SUBS $1, R0; \
	BNE  round;  \
	MOVD R0, ret+8(FP); \
	RET
#define FMA(d) WORD $(0x4e20cc00 | 0<<16 | 0<<5 | (d)) // d.S4 += V0.S4·V0.S4
#define MULTIPLY(d) SMULL(0, 0, d)
#define DOT(d) SDOT(0, 0, d)
#define SQUARE(d) SMMLA(0, 0, d)

// func peakFloatsNEON(n int) uint64
TEXT ·peakFloatsNEON(SB), NOSPLIT, $0-16
	PEAK(FMA)

// func peakBytesNEON(n int) uint64
TEXT ·peakBytesNEON(SB), NOSPLIT, $0-16
	PEAK(MULTIPLY)

// func peakBytesSDOT(n int) uint64
TEXT ·peakBytesSDOT(SB), NOSPLIT, $0-16
	PEAK(DOT)

// func peakBytesSMMLA(n int) uint64
TEXT ·peakBytesSMMLA(SB), NOSPLIT, $0-16
	PEAK(SQUARE)

// func readNEON(p []byte) uint64
// Reads 128 bytes a pass; what is left below that is not read.
TEXT ·readNEON(SB), NOSPLIT, $0-32
	MOVD p_base+0(FP), R0
	MOVD p_len+8(FP), R1
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	SUBS $128, R1
	BLT  done
again:
	VLD1.P 64(R0), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P 64(R0), [V20.B16, V21.B16, V22.B16, V23.B16]
	VORR V17.B16, V16.B16, V16.B16
	VORR V19.B16, V18.B16, V18.B16
	VORR V21.B16, V20.B16, V20.B16
	VORR V23.B16, V22.B16, V22.B16
	VORR V18.B16, V16.B16, V16.B16
	VORR V22.B16, V20.B16, V20.B16
	VORR V16.B16, V0.B16, V0.B16
	VORR V20.B16, V1.B16, V1.B16
	SUBS $128, R1
	BGE  again
done:
	VORR V1.B16, V0.B16, V0.B16
	VMOV V0.D[0], R2
	VMOV V0.D[1], R3
	ORR  R3, R2
	MOVD R2, ret+24(FP)
	RET
