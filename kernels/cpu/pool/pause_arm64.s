//go:build !noasm

#include "textflag.h"

// func pause(n uint32)
// An ISB takes about as long as the pause of other CPUs; YIELD takes no time at all on most.
TEXT ·pause(SB), NOSPLIT, $0-4
	MOVWU n+0(FP), R0
	CBZ   R0, done
again:
	ISB  $15
	SUB  $1, R0
	CBNZ R0, again
done:
	RET
