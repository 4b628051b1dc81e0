// The arguments that quads and octs set alike. AX is the bytes of w, R9 those of a row of x.d.
#define GROUP_ARGS(size, log) \
	MOVQ  dst_base+0(FP), DI;       \
	MOVQ  w_base+32(FP), SI;        \
	MOVQ  w_len+40(FP), AX;         \
	MOVQ  x_q_base+56(FP), DX;      \
	MOVQ  x_d_base+80(FP), CX;      \
	MOVQ  n+160(FP), R10;           \
	MOVQ  R10, R9;                  \
	SHRQ  $3, R9;                   \
	MOVQ  R10, R12;                 \
	SHRQ  $log, R12;                \
	IMUL3Q $size, R12, R12

// Fetches a line of what is ahead. Many at once keep loads waiting, so they stand between other instructions.
#define FETCH(line) PREFETCHT0 (64*(line))(R15)
