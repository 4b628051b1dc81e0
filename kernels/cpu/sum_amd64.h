// All lanes of a register from a 32-bit number; uses AX.
#define SPLAT(imm, X, Y) MOVL imm, AX; VMOVD AX, X; VPBROADCASTD X, Y

#include "prefetch_amd64.h"

// X = (a0+a4)+(a2+a6) + ((a1+a5)+(a3+a7)), the order of accumulators.sum.
#define HSUM(Y, X, XT) \
	VEXTRACTF128 $1, Y, XT; \
	VADDPS       XT, X, X;  \
	VMOVHLPS     X, X, XT;  \
	VADDPS       XT, X, X;  \
	VMOVSHDUP    X, XT;     \
	VADDSS       XT, X, X
