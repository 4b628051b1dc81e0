package main

// Set is an instruction set: its registers, and how it does what microkernels are made of. A value is of one kernel, as
// it knows where that has its constants.
type Set interface {
	Name() string                        // in the names of microkernels
	Vectors() (letter string, count int) // names of vector registers
	Spell(name string) string            // of an instruction that is called differently in this set
	Width() int                          // bytes of a register
	Outputs() int                        // rows of weights in a panel, one to each dword of a register

	// Constants takes registers for constants of the products.
	Constants(k *Kernel)
	// Broadcast is a register of equal dwords.
	Broadcast(k *Kernel, dword int) Vec

	// RowMasks sets what Interleave and Scales need.
	RowMasks(k *Kernel)
	// Interleave loads 16 bytes of each row of the panel: register i has bytes 4i to 4i+3 of all rows, one row to a
	// dword.
	Interleave(k *Kernel, rows Rows, offset int) [4]Vec
	// Scales loads a half-precision number of each row, in float32.
	Scales(k *Kernel, rows Rows, offset int) Vec
	// SplitHalves makes float32 of the lower and of the upper half of each dword.
	SplitHalves(k *Kernel, v Vec) (lower, upper Vec)

	// Operand is an operand for numbers in memory that are needed often: a register, if there are enough.
	Operand(k *Kernel, m Mem) any
	// Start begins the sums of products of a block of each panel. h is where the sums of the activations are, which the
	// offset of the weights is to be multiplied by; without a base if there is no offset.
	Start(k *Kernel, h Mem, panels int) []*Sum
	// MultiplyAdd adds the products of four columns w of each panel with the four activations q to the panel's sum.
	MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem)
	// Finish ends sums that belong together: one integer for each output.
	Finish(k *Kernel, h Mem, sums ...*Sum) Vec
	// Offsets stores what the offset gives in four blocks, whose sums h are, and AddOffset adds it to the products of
	// one that began without h.
	Offsets(k *Kernel, h, offsets Mem)
	AddOffset(k *Kernel, offset Mem, total Vec)
	// ScaleAdd adds sum·scale·d to acc, for a number d in memory or a register that has it in each dword.
	ScaleAdd(k *Kernel, sum Vec, scale, d any, acc Vec)
	// SubtractMinimum takes minimum·s from acc, likewise.
	SubtractMinimum(k *Kernel, minimum, s any, acc Vec)
}

// Sum is a running sum of products.
type Sum struct {
	total Vec // in 32 bits
	empty bool
	chain Vec // in 16 bits
	links int // products in chain
}

// Rows is where a kernel reads rows of weights: two pointers, to rows 0 and 1, and some odd multiples of the bytes of a
// row. An even row is an odd multiple, times 2, 4 or 8, after row 0.
type Rows struct {
	even, odd Reg
	offset    int         // of all rows
	multiples map[int]Reg // 1, 3 and, for 16 rows, 5 and 7
}

// Plus is n bytes further on in all rows.
func (r Rows) Plus(n int) Rows { r.offset += n; return r }

// At is offset bytes into a row.
func (r Rows) At(row, offset int) Mem {
	m := At(r.even).Plus(r.offset + offset)
	if row%2 == 1 {
		m.Base = r.odd
		row--
	}
	if row == 0 {
		return m
	}
	scale := row & -row
	return m.Times(r.multiples[row/scale], scale)
}

// panelRows are the rows of a panel, from SI on.
var panelRows = Rows{even: SI, odd: BX, multiples: map[int]Reg{1: DI, 3: R8, 5: R10, 7: R11}}

// Interleave32 is Interleave for 32 bytes of each row.
func (k *Kernel) Interleave32(rows Rows, offset int) (v [8]Vec) {
	for half := range 2 {
		part := k.Set.Interleave(k, rows, offset+16*half)
		copy(v[4*half:], part[:])
	}
	return v
}

// interleave4 turns dwords: what was dword j of v[i] in each 16 bytes is dword i of the j-th result.
func interleave4(k *Kernel, v [4]Vec) [4]Vec {
	t := k.Vecs(3)
	k.Op("VPUNPCKLDQ", v[1], v[0], t[0])
	k.Op("VPUNPCKHDQ", v[1], v[0], t[1])
	k.Op("VPUNPCKLDQ", v[3], v[2], t[2])
	k.Op("VPUNPCKHDQ", v[3], v[2], v[3])
	k.Op("VPUNPCKLQDQ", t[2], t[0], v[0])
	k.Op("VPUNPCKHQDQ", t[2], t[0], v[1])
	k.Op("VPUNPCKLQDQ", v[3], t[1], v[2])
	k.Op("VPUNPCKHQDQ", v[3], t[1], v[3])
	k.Free(t...)
	return v
}

// eachWord is a dword of two equal words.
func eachWord(n int) int { return n&0xffff<<16 | n&0xffff }

// eachByte is a dword of four equal bytes.
func eachByte(n int) int { return eachWord(n&0xff<<8 | n&0xff) }
