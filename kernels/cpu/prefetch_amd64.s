//go:build !noasm

#include "textflag.h"

// func prefetch(p []byte)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ p_base+0(FP), SI
	MOVQ p_len+8(FP), CX
	ADDQ SI, CX
	JMP  test
line:
	PREFETCHT1 (SI)
	ADDQ $64, SI
test:
	CMPQ SI, CX
	JLT  line
	RET
