//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// Products of bytes, summed by twos in 16 bits, where eight of them fit: 16·15·127 = 30480. Y12 words of 1.
#define START(b)
#define LOW_FIRST(W, w, Q) \
	VPAND        Y15, W, Y8;    \
	VPBROADCASTD Q, Y10;        \
	VPMADDUBSW   Y10, Y8, Y10
#define LOW(W, w, Q) \
	VPAND        Y15, W, Y8;    \
	VPBROADCASTD Q, Y9;         \
	VPMADDUBSW   Y9, Y8, Y8;    \
	VPADDW       Y8, Y10, Y10
#define HIGH_FIRST(W, w, Q) \
	VPSRLW       $4, W, W;      \
	VPAND        Y15, W, W;     \
	VPBROADCASTD Q, Y11;        \
	VPMADDUBSW   Y11, W, Y11
#define HIGH(W, w, Q) \
	VPSRLW       $4, W, W;      \
	VPAND        Y15, W, W;     \
	VPBROADCASTD Q, Y9;         \
	VPMADDUBSW   Y9, W, W;      \
	VPADDW       W, Y11, Y11
#define END(b) \
	VPADDW       Y11, Y10, Y10;     \
	VPMADDWD     Y12, Y10, Y10;     \
	VPBROADCASTD (4*b)(SP), Y9;  \
	VPADDD       Y9, Y10, Y10

#include "sum_amd64.h"
#include "gemv8_amd64.h"

// func gemv8Q4_0AVX2(a *gemmArgs)
TEXT ·gemv8Q4_0AVX2(SB), NOSPLIT, $16-8
	SPLAT($0x00010001, X12, Y12)
	GEMV8_Q4_0
