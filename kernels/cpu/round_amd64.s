//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

DATA roundc<>+0(SB)/4, $0x42fe0000 // 127
DATA roundc<>+4(SB)/4, $0x7fffffff // all but the sign
GLOBL roundc<>(SB), RODATA|NOPTR, $8

// VPACK works on halves of a register: this puts its groups of four bytes back into order.
DATA packed<>+0(SB)/8, $0x0000000400000000
DATA packed<>+8(SB)/8, $0x0000000500000001
DATA packed<>+16(SB)/8, $0x0000000600000002
DATA packed<>+24(SB)/8, $0x0000000700000003
GLOBL packed<>(SB), RODATA|NOPTR, $32

// func roundAVX2(a *actsArgs)
// DI q, DX d, R8 blocks left, CX s, BX h, SI x; Y0-Y3 the block; Y15 all but the sign, Y14 packed, X13 127.
TEXT ·roundAVX2(SB), NOSPLIT, $0-8
	MOVQ a+0(FP), AX
	MOVQ actsArgs_q(AX), DI
	MOVQ actsArgs_d(AX), DX
	MOVQ actsArgs_n(AX), R8
	SHRQ $5, R8
	MOVQ actsArgs_s(AX), CX
	MOVQ actsArgs_h(AX), BX
	MOVQ actsArgs_x(AX), SI
	VBROADCASTSS roundc<>+4(SB), Y15
	VMOVDQU packed<>(SB), Y14
	VMOVSS roundc<>+0(SB), X13
block:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VPAND Y15, Y0, Y4 // magnitudes order as integers do, infinity and NaN above all
	VPAND Y15, Y1, Y5
	VPAND Y15, Y2, Y6
	VPAND Y15, Y3, Y7
	VPMAXSD Y5, Y4, Y4
	VPMAXSD Y7, Y6, Y6
	VPMAXSD Y6, Y4, Y4
	VEXTRACTI128 $1, Y4, X5
	VPMAXSD X5, X4, X4
	VPSHUFD $0x4e, X4, X5
	VPMAXSD X5, X4, X4
	VPSHUFD $0xb1, X4, X5
	VPMAXSD X5, X4, X4
	VMOVD X4, AX
	CMPL AX, $0x7f800000
	JGE  notfinite
	CMPL AX, $0x03aa2425 // 1e-36
	JLT  zero
	VDIVSS X13, X4, X5 // d
	VMOVSS X5, (DX)
	VDIVSS X4, X13, X6
	VBROADCASTSS X6, Y6
	VMULPS Y6, Y0, Y0
	VMULPS Y6, Y1, Y1
	VMULPS Y6, Y2, Y2
	VMULPS Y6, Y3, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPADDD Y1, Y0, Y7 // h is the sums of both halves, s = d times that of both
	VPADDD Y3, Y2, Y8
	VPHADDD Y8, Y7, Y7
	VPHADDD Y7, Y7, Y7
	VEXTRACTI128 $1, Y7, X8
	VPADDD X8, X7, X7
	VPACKSSDW X7, X7, X8
	VMOVD X8, (BX)
	VPHADDD X7, X7, X7
	VCVTDQ2PS X7, X7
	VMULSS X5, X7, X7
	VMOVSS X7, (CX)
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSWB Y2, Y0, Y0
	VPERMD Y0, Y14, Y0
	VMOVDQU Y0, (DI)
next:
	ADDQ $128, SI
	ADDQ $32, DI
	ADDQ $4, DX
	ADDQ $4, CX
	ADDQ $4, BX
	DECQ R8
	JNZ  block
	VZEROUPPER
	RET
notfinite:
	MOVL $0x7fc00000, AX
	JMP  fill
zero:
	XORL AX, AX
fill:
	MOVL AX, (DX)
	MOVL AX, (CX)
	MOVL $0, (BX)
	VPXOR Y0, Y0, Y0
	VMOVDQU Y0, (DI)
	JMP  next
