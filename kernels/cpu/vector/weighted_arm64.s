//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"

// Begins a block of columns: R10 row of v, R7 p, R1 rows left.
#define COLUMN \
	MOVD R2, R10; \
	MOVD R4, R7; \
	MOVD R5, R1

// func axpyF32NEON(acc, p []float32, v []byte, stride int)
// Columns by 32, 4 and 1, over all rows each, with the sums in registers. With 32 columns eight sums wait for nothing
// where a multiply-add takes four cycles. R0 acc, R8 columns left, R2 v, R3 stride, R4 p, R5 rows.
TEXT ·axpyF32NEON(SB), NOSPLIT, $0-80
	MOVD acc_base+0(FP), R0
	MOVD acc_len+8(FP), R8
	MOVD p_base+24(FP), R4
	MOVD p_len+32(FP), R5
	MOVD v_base+48(FP), R2
	MOVD stride+72(FP), R3
	SUBS $32, R8
	BLT  fours
column32:
	COLUMN
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1 (R0), [V4.S4, V5.S4, V6.S4, V7.S4]
	SUB  $64, R0
row32:
	MOVD R10, R6
	VLD1R.P 4(R7), [V20.S4]
	VLD1.P 64(R6), [V16.S4, V17.S4, V18.S4, V19.S4]
	FMLA(16, 20, 0)
	FMLA(17, 20, 1)
	FMLA(18, 20, 2)
	FMLA(19, 20, 3)
	VLD1.P 64(R6), [V16.S4, V17.S4, V18.S4, V19.S4]
	FMLA(16, 20, 4)
	FMLA(17, 20, 5)
	FMLA(18, 20, 6)
	FMLA(19, 20, 7)
	ADD  R3, R10
	SUBS $1, R1
	BNE  row32
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	ADD  $(32*4), R2
	SUBS $32, R8
	BGE  column32
fours:
	ADDS $28, R8
	BLT  rest
four:
	COLUMN
	VLD1 (R0), [V0.S4]
row4:
	MOVD R10, R6
	VLD1.P 16(R6), [V16.S4]
	VLD1R.P 4(R7), [V20.S4]
	VFMLA V16.S4, V20.S4, V0.S4
	ADD  R3, R10
	SUBS $1, R1
	BNE  row4
	VST1.P [V0.S4], 16(R0)
	ADD  $(4*4), R2
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	COLUMN
	FMOVS (R0), F0
row1:
	MOVD R10, R6
	FMOVS.P 4(R6), F16
	FMOVS.P 4(R7), F20
	FMADDS F20, F0, F16, F0
	ADD  R3, R10
	SUBS $1, R1
	BNE  row1
	FMOVS.P F0, 4(R0)
	ADD  $4, R2
	SUBS $1, R8
	BNE  one
done:
	RET

// Begins a block of columns: R10 row of a, R7 of b, R1 rows left.
#define COLUMN2 \
	MOVD R2, R10; \
	MOVD R4, R7; \
	MOVD R5, R1
#define NEXT2 \
	ADD  R3, R10; \
	ADD  R6, R7; \
	SUBS $1, R1

// func productSumNEON(dst, a, b []float32, strideA, strideB, n int)
// Columns by 16, 4 and 1, over all rows each, with the sums in registers. R0 dst, R8 columns left, R2 a, R3 its stride,
// R4 b, R6 its stride, R5 rows.
TEXT ·productSumNEON(SB), NOSPLIT, $0-96
	MOVD dst_base+0(FP), R0
	MOVD dst_len+8(FP), R8
	MOVD a_base+24(FP), R2
	MOVD b_base+48(FP), R4
	MOVD strideA+72(FP), R3
	MOVD strideB+80(FP), R6
	MOVD n+88(FP), R5
	LSL  $2, R3
	LSL  $2, R6
	SUBS $16, R8
	BLT  fours
column16:
	COLUMN2
	ZERO(0)
	ZERO(1)
	ZERO(2)
	ZERO(3)
row16:
	VLD1 (R10), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1 (R7), [V20.S4, V21.S4, V22.S4, V23.S4]
	FMLA(16, 20, 0)
	FMLA(17, 21, 1)
	FMLA(18, 22, 2)
	FMLA(19, 23, 3)
	NEXT2
	BNE  row16
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	ADD  $64, R2
	ADD  $64, R4
	SUBS $16, R8
	BGE  column16
fours:
	ADDS $12, R8
	BLT  rest
four:
	COLUMN2
	ZERO(0)
row4:
	VLD1 (R10), [V16.S4]
	VLD1 (R7), [V20.S4]
	FMLA(16, 20, 0)
	NEXT2
	BNE  row4
	VST1.P [V0.S4], 16(R0)
	ADD  $16, R2
	ADD  $16, R4
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	COLUMN2
	ZERO(0)
row1:
	FMOVS (R10), F16
	FMOVS (R7), F20
	FMADDS F20, F0, F16, F0
	NEXT2
	BNE  row1
	FMOVS.P F0, 4(R0)
	ADD  $4, R2
	ADD  $4, R4
	SUBS $1, R8
	BNE  one
done:
	RET

// func scaleNEON(dst, x []float32, a float32)
TEXT ·scaleNEON(SB), NOSPLIT, $0-52
	MOVD dst_base+0(FP), R0
	MOVD x_base+24(FP), R2
	MOVD x_len+32(FP), R8
	MOVD $a+48(FP), R9
	VLD1R (R9), [V4.S4]
	SUBS $16, R8
	BLT  fours
sixteen:
	VLD1.P 64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	FMUL(4, 0, 0)
	FMUL(4, 1, 1)
	FMUL(4, 2, 2)
	FMUL(4, 3, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS $16, R8
	BGE  sixteen
fours:
	ADDS $12, R8
	BLT  rest
four:
	VLD1.P 16(R2), [V0.S4]
	FMUL(4, 0, 0)
	VST1.P [V0.S4], 16(R0)
	SUBS $4, R8
	BGE  four
rest:
	ADDS $4, R8
	BEQ  done
one:
	FMOVS.P 4(R2), F0
	FMULS F4, F0, F0
	FMOVS.P F0, 4(R0)
	SUBS $1, R8
	BNE  one
done:
	RET
