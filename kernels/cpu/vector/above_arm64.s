//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// func aboveNEON(x []float32, bar float32) int
// R1 place in x, R8 elements left; V4 bar. A part with a hit is gone through again one at a time.
TEXT ·aboveNEON(SB), NOSPLIT, $0-40
	MOVD x_base+0(FP), R0
	MOVD R0, R1
	MOVD x_len+8(FP), R8
	MOVD $bar+24(FP), R9
	VLD1R (R9), [V4.S4]
	SUBS $16, R8
	BLT  ones
many:
	VLD1.P 64(R1), [V0.S4, V1.S4, V2.S4, V3.S4]
	FCMGT(4, 0, 0)
	FCMGT(4, 1, 1)
	FCMGT(4, 2, 2)
	FCMGT(4, 3, 3)
	VORR V1.B16, V0.B16, V0.B16
	VORR V3.B16, V2.B16, V2.B16
	VORR V2.B16, V0.B16, V0.B16
	UMAXV(0, 0)
	VMOV V0.S[0], R2
	CBNZW R2, again
	SUBS $16, R8
	BGE  many
	B    ones
again:
	SUB  $64, R1
ones:
	ADDS $16, R8
	BEQ  done
one:
	FMOVS (R1), F0
	FCMPS F4, F0
	BGT  done
	ADD  $4, R1
	SUBS $1, R8
	BNE  one
done:
	SUB  R0, R1
	LSR  $2, R1
	MOVD R1, ret+32(FP)
	RET
