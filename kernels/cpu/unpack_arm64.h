// Unpacking that gemv (gemv_arm64.h) and packing (pack_arm64.h) share: nibbles with further bits above them, in two
// registers at a time. V, W have a nibble in each half of a byte, Q, R the other bits, which SHIFT by n brings to their
// place; MASK keeps the bits of a weight. V31 is bytes of 15.

// A, B = the low nibbles of V, W with the bits of Q, R.
#define LOW2(SHIFT, n, Q, R, V, W, MASK, A, B) \
	SHIFT(n, Q, A); \
	SHIFT(n, R, B); \
	VBIT V31.B16, V.B16, A.B16; \
	VBIT V31.B16, W.B16, B.B16; \
	VAND MASK.B16, A.B16, A.B16; \
	VAND MASK.B16, B.B16, B.B16

// A, B = the high nibbles of V, W with the bits of Q, R.
#define HIGH2(SHIFT, n, Q, R, V, W, MASK, A, B) \
	SHIFT(n, Q, A); \
	SHIFT(n, R, B); \
	VSRI $4, V.B16, A.B16; \
	VSRI $4, W.B16, B.B16; \
	VAND MASK.B16, A.B16, A.B16; \
	VAND MASK.B16, B.B16, B.B16
