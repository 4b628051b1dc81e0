#include "avxvnni_amd64.h"

// Products of bytes, summed by fours: the high nibbles as they lie, sixteen times as much.
#define START(b) \
	VPBROADCASTD (4*b)(SP), Y10; \
	VPXOR        Y11, Y11, Y11
#define LOW(W, w, Q) \
	VPAND        Y15, W, Y8;  \
	VPBROADCASTD Q, Y9;       \
	DPBUSD(9, 8, 10)
#define LOW_FIRST(W, w, Q) LOW(W, w, Q)
#define HIGH(W, w, Q) \
	VPANDN       W, Y15, W;   \
	VPBROADCASTD Q, Y9;       \
	DPBUSD(9, w, 11)
#define HIGH_FIRST(W, w, Q) HIGH(W, w, Q)
#define END(b) \
	VPSRAD $4, Y11, Y11;   \
	VPADDD Y11, Y10, Y10

#include "sum_amd64.h"
#include "group_amd64.h"
#include "oct_amd64.h"
