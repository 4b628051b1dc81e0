//go:build !noasm

#include "textflag.h"
#include "words_arm64.h"
#include "pack_arm64.h"

// func packQ8_0By4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ8_0By4(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q8_0(BY4)

// func packQ8_0By8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ8_0By8(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q8_0(BY8)

// func packQ8_0By16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ8_0By16(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q8_0(BY16)

// func packQ4_0By4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ4_0By4(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q4_0(BY4)

// func packQ4_0By8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ4_0By8(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q4_0(BY8)

// func packQ4_0By16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ4_0By16(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q4_0(BY16)

// func packQ5_0By4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ5_0By4(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q5_0(BY4, five4)

// func packQ5_0By8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ5_0By8(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q5_0(BY8, five8)

// func packQ5_0By16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ5_0By16(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q5_0(BY16, five16)

// func packQ4_KBy4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ4_KBy4(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q4_K(BY4)

// func packQ4_KBy8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ4_KBy8(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q4_K(BY8)

// func packQ4_KBy16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ4_KBy16(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q4_K(BY16)

// func packQ5_KBy4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ5_KBy4(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q5_K(BY4)

// func packQ5_KBy8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ5_KBy8(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q5_K(BY8)

// func packQ5_KBy16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ5_KBy16(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q5_K(BY16)

// func packQ6_KBy4(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ6_KBy4(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q6_K(BY4)

// func packQ6_KBy8(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ6_KBy8(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q6_K(BY8)

// func packQ6_KBy16(w []int8, ds, mins []float32, src []byte, stride int, prefetch []byte)
TEXT ·packQ6_KBy16(SB), NOSPLIT, $0-128
	PACK_ARGS
	PACK_Q6_K(BY16)

// For the four registers of sixteen columns of four rows: where in the high bits of the rows the byte is that a weight
// takes, and the bit in it.
DATA five4<>+0(SB)/8, $0x0404040400000000
DATA five4<>+8(SB)/8, $0x0c0c0c0c08080808
DATA five4<>+16(SB)/8, $0x0404040400000000
DATA five4<>+24(SB)/8, $0x0c0c0c0c08080808
DATA five4<>+32(SB)/8, $0x0505050501010101
DATA five4<>+40(SB)/8, $0x0d0d0d0d09090909
DATA five4<>+48(SB)/8, $0x0505050501010101
DATA five4<>+56(SB)/8, $0x0d0d0d0d09090909
DATA five4<>+64(SB)/8, $0x0804020108040201
DATA five4<>+72(SB)/8, $0x0804020108040201
DATA five4<>+80(SB)/8, $0x8040201080402010
DATA five4<>+88(SB)/8, $0x8040201080402010
DATA five4<>+96(SB)/8, $0x0804020108040201
DATA five4<>+104(SB)/8, $0x0804020108040201
DATA five4<>+112(SB)/8, $0x8040201080402010
DATA five4<>+120(SB)/8, $0x8040201080402010
GLOBL five4<>(SB), RODATA|NOPTR, $128

DATA five8<>+0(SB)/8, $0x0000000000000000
DATA five8<>+8(SB)/8, $0x0404040404040404
DATA five8<>+16(SB)/8, $0x0808080808080808
DATA five8<>+24(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA five8<>+32(SB)/8, $0x0101010101010101
DATA five8<>+40(SB)/8, $0x0505050505050505
DATA five8<>+48(SB)/8, $0x0909090909090909
DATA five8<>+56(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA five8<>+64(SB)/8, $0x8040201008040201
DATA five8<>+72(SB)/8, $0x8040201008040201
DATA five8<>+80(SB)/8, $0x8040201008040201
DATA five8<>+88(SB)/8, $0x8040201008040201
DATA five8<>+96(SB)/8, $0x8040201008040201
DATA five8<>+104(SB)/8, $0x8040201008040201
DATA five8<>+112(SB)/8, $0x8040201008040201
DATA five8<>+120(SB)/8, $0x8040201008040201
GLOBL five8<>(SB), RODATA|NOPTR, $128

DATA five16<>+0(SB)/8, $0x0000000000000000
DATA five16<>+8(SB)/8, $0x0101010101010101
DATA five16<>+16(SB)/8, $0x0404040404040404
DATA five16<>+24(SB)/8, $0x0505050505050505
DATA five16<>+32(SB)/8, $0x0808080808080808
DATA five16<>+40(SB)/8, $0x0909090909090909
DATA five16<>+48(SB)/8, $0x0c0c0c0c0c0c0c0c
DATA five16<>+56(SB)/8, $0x0d0d0d0d0d0d0d0d
DATA five16<>+64(SB)/8, $0x8040201008040201
DATA five16<>+72(SB)/8, $0x8040201008040201
DATA five16<>+80(SB)/8, $0x8040201008040201
DATA five16<>+88(SB)/8, $0x8040201008040201
DATA five16<>+96(SB)/8, $0x8040201008040201
DATA five16<>+104(SB)/8, $0x8040201008040201
DATA five16<>+112(SB)/8, $0x8040201008040201
DATA five16<>+120(SB)/8, $0x8040201008040201
GLOBL five16<>(SB), RODATA|NOPTR, $128
