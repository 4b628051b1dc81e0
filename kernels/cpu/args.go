package cpu

import "unsafe"

// Every microkernel takes a pointer to one of the structs below and only reads it; assembly finds the offsets of fields
// by the names that the Go compiler writes to go_asm.h. A call through the table makes the pointer escape, so the
// structs are part of a [Scratch] (actsArgs come from a pool). Fields are set one by one, because a literal would be
// made first and then copied. The code that sets a struct clears it after the call, so that it does not keep weights
// and activations alive.
//
// The activations q, d, s and h begin at the first column that is multiplied, see [Acts]. n is the number of
// activations of a whole token, which is the distance to the next token in q; the distance is n/32 in d and s, and n/16
// in h.

// gemmArgs are the arguments of a product with quantised weights as they are stored: gemv, gemv8, gemm8, gemm4.
type gemmArgs struct {
	dst       *float32 // [tokens, stride]; gemv writes as many results as there are rows of w
	stride    int      // distance between the results of two tokens; unused for one token
	w         *byte    // rows of n weights, one directly after the other
	wBytes    int      // bytes of all rows
	q         *int8    // [tokens, n] Q of activations, or P for gemm4 of an instruction set that takes it
	d, s      *float32 // [tokens, n/32]
	h         *int16   // [tokens, n/16]
	tokens, n int      // n is the columns of w; gemv and gemv8 take one token
}

// packArgs are the arguments of pack, which makes a panel of some columns of panelOutputs rows.
type packArgs struct {
	w             *int8    // [columns/4, outputs, 4]: weights of the panel, to be written
	columns       int      // a whole number of blocks
	ds, mins      *float32 // [columns/16, outputs], [columns/32, outputs]: scales and minima, to be written
	src           *byte    // the first of the columns in the first row
	stride        int      // bytes from one row of src to the next
	prefetch      *byte    // memory that is prefetched meanwhile
	prefetchBytes int      // bytes of it; 0 for none
}

// tileArgs are the arguments of tile, which adds the products of some columns of a panel, or of two consecutive panels,
// with some tokens.
type tileArgs struct {
	acc           *float32 // [panels, accumulators, tokens, outputs]
	accBytes      int      // bytes of it
	w             *int8    // [panels, columns/4, outputs, 4]
	wBytes        int      // bytes of it, which determine the number of columns
	ds            *float32 // [panels, columns/16, outputs]
	dsBytes       int      // bytes of it, which determine where the second panel begins
	mins          *float32 // [panels, columns/32, outputs]
	minsBytes     int      // bytes of it, likewise
	q             *int8    // [tokens, n] activations
	d, s          *float32 // [tokens, n/32]
	h             *int16   // [tokens, n/16]
	tokens, n     int      // tokens are at most [tileTokens]
	prefetch      *byte    // memory that is prefetched meanwhile
	prefetchBytes int      // bytes of it; 0 for none

	// Of AMX: d and s as in tiled of [Acts]; memory that is prefetched after that, for [tileTokens] tokens; the order
	// of multiplication, see tilePasses; and the destination of results.
	tiled     *float32 // [n/32, 2, tileTokens]
	then      *byte
	thenBytes int
	passes    *tilePass
	passCount int
	dst       *float32 // [tokens, stride]
	stride    int      // from a token's results to those of the next one
	add       bool     // whether results are added to dst
}

// tilePass is blocks of a panel that are added to the same accumulator one after the other. q to dst are bytes from
// the beginning of the argument with the same name.
type tilePass struct {
	q, tiled, w, ds, mins, acc, dst int
	qEnd, tiledEnd                  int    // where q and tiled are after the last block
	first                           bool   // the accumulator is zero at first, whatever acc holds
	adds                            int    // accumulators to add afterwards, the last ones of add first
	add                             [3]int // like acc
	last                            bool   // the sum is a result and goes to dst, not to acc
}

// sumArgs are the arguments of horizontalSum and epilogue, which compute results from a tile's accumulators.
type sumArgs struct {
	dst          *float32 // horizontalSum: [n]; epilogue: [tokens, stride], of each token the outputs of a panel
	stride       int      // results from one token's to the next token's, for epilogue
	acc          *float32 // [accumulators, n]
	accumulators int      // 4 or 8
	n            int      // results: tokens times the outputs of a panel
	tokens       int      // for epilogue
	add          bool     // for epilogue: whether results are added to dst
}

// floatArgs are the arguments of a product with float weights: gemv, gemm and gemm8.
type floatArgs struct {
	dst      *float32 // gemv: [rows]; gemm: [4 tokens, stride]; gemm8: [gemm8Tokens, stride]
	stride   int      // results from one token's to the next token's, for gemm and gemm8
	w        *byte    // rows of n elements: gemv any number, gemm four, gemm8 eight
	rowBytes int      // bytes from one row of w to the next; except for gemv, those of n elements
	rows     int      // of w, for gemv
	x        *float32 // [tokens, n] activations: gemv one token, gemm four, gemm8 gemm8Tokens
	n        int      // columns: for gemm and gemm8 a multiple of 16
	prefetch int      // bytes from w to the memory that gemm and gemm8 prefetch, as long as their rows of w
	add      bool     // for gemm and gemm8: whether results are added to dst
}

// actsArgs are the arguments of round, which computes the fields of [Acts] for n activations of a token.
type actsArgs struct {
	x    *float32 // [n] what is rounded
	q    *int8    // [n], to be written, as are d, s and h
	d, s *float32 // [n/32]
	h    *int16   // [n/16]
	n    int      // a multiple of 32
	p    *int8    // the token's whole P, of which the n are written, or nil
	from int      // blocks of the token before the n

	tiled *float32 // [n/32, 2, tileTokens] the token's first place in tiled of [Acts], or nil
}

func (a *gemmArgs) setActs(x activations, tokens, n int) {
	a.q, a.d, a.s = unsafe.SliceData(x.q), unsafe.SliceData(x.d), unsafe.SliceData(x.s)
	a.h = unsafe.SliceData(x.h)
	a.tokens, a.n = tokens, n
}

func (a *tileArgs) setActs(x activations, tokens, n int) {
	a.q, a.d, a.s = unsafe.SliceData(x.q), unsafe.SliceData(x.d), unsafe.SliceData(x.s)
	a.h, a.tiled = unsafe.SliceData(x.h), unsafe.SliceData(x.tiled)
	a.tokens, a.n = tokens, n
}

// setPanel sets the panel, or two of them.
func (a *tileArgs) setPanel(w, ds, mins []uint32) {
	a.w, a.wBytes = bytesIn(w), 4*len(w)
	a.ds, a.dsBytes = floatsIn(ds), 4*len(ds)
	a.mins, a.minsBytes = floatsIn(mins), 4*len(mins)
}

func (a *tileArgs) setAcc(acc []float32) { a.acc, a.accBytes = unsafe.SliceData(acc), 4*len(acc) }

func (a *tileArgs) setPasses(p tilePasses) {
	a.passes, a.passCount = unsafe.SliceData(p), len(p)-tilePassesAfter
}

func (a *packArgs) setPrefetch(p []byte) { a.prefetch, a.prefetchBytes = unsafe.SliceData(p), len(p) }

func (a *tileArgs) setPrefetch(p, then []byte) {
	a.prefetch, a.prefetchBytes = unsafe.SliceData(p), len(p)
	a.then, a.thenBytes = unsafe.SliceData(then), len(then)
}

// setRows sets the weights: rows of n columns, size bytes each.
func (a *floatArgs) setRows(w []byte, size, n int) {
	a.w, a.rowBytes, a.rows, a.n = unsafe.SliceData(w), size, len(w)/size, n
}

// setOut sets the destination of results, and the activations.
func (a *floatArgs) setOut(dst, x []float32) { a.dst, a.x = unsafe.SliceData(dst), unsafe.SliceData(x) }
