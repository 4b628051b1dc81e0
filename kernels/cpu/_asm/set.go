package main

// Set is an instruction set: its registers, and how it implements the parts of microkernels.
type Set interface {
	Vectors() (letter string, count int) // names of vector registers
	Spell(name string) string            // of an instruction with another name in this set
	Width() int                          // bytes of a register
	Outputs() int                        // rows of weights in a panel, one to each 32-bit lane of a register

	// LoadRows loads 16 bytes of each row of a panel: register i those of row i, of row 4+i and so on.
	LoadRows(k *Kernel, rows Rows, offset int) [4]Vec
	// SplitHalves converts the lower and the upper half of each lane to float32.
	SplitHalves(k *Kernel, v Vec) (lower, upper Vec)
	// FifthBits adds 16 to the bytes of w, four columns of each row to a register, where bits has a one: 32 bits of
	// each row. If signed weights are needed, it subtracts 16 elsewhere instead.
	FifthBits(k *Kernel, bits Vec, w [8]Vec)

	// InRegisters returns how many of the scales and minima of a panel are in registers while tokens are multiplied.
	InRegisters() int
	// Order returns the order in which the registers of a block of 32 columns are multiplied: all of a group with a
	// token, then with the next token.
	Order(s Scheme) [][]int
	// Start begins a sum of products for each half block, or for one that is whole, and each panel.
	Start(k *Kernel, c Correction, halves, panels int) [][]*Sum
	// MultiplyAdd adds the products of four columns w of each panel with the four activations q to the panel's sum.
	MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem)
	// Finish ends sums that belong together, which were started with the correction or without: an integer for each
	// output.
	Finish(k *Kernel, c Correction, sums ...*Sum) Vec
	// ScaleAdd returns acc + sum·scale·d, for numbers in memory or in registers.
	ScaleAdd(k *Kernel, sum Vec, scale, d, acc any) Vec
	// SubtractMinimum subtracts minimum·s from acc, likewise.
	SubtractMinimum(k *Kernel, minimum, s any, acc Vec)
}

// RowSet is a set that can multiply a row of weights at a time, for gemv: 32 columns to a register.
type RowSet interface {
	Set
	// Dot returns products of 32 columns with activations: pairs summed in 16 bits, or groups of four in 32.
	Dot(k *Kernel, w Vec, q Mem) Vec
	// DotAdds returns how many of them may be added in 16 bits; 0 if they have 32.
	DotAdds(s Scheme) int
}

// Sum is a running sum of products.
type Sum struct {
	total Vec // in 32 bits, once there is one
	words Vec // of the last products, in 16 bits
	added int // products in words

	times16 bool // of high nibbles as they lie, see Kernel.highAsTheyLie
}

// Correction corrects for the offset of weights: it is the product of the offset with two sums of sixteen activations
// each, the words at Sums. The zero value is for weights without an offset.
type Correction struct {
	Sums   Mem
	Second bool // the second sum alone, for half blocks
}

// Needed reports whether there is an offset.
func (c Correction) Needed() bool { return c.Sums.Base != "" }

// Rows is the place of rows of weights: two pointers, to rows 0 and 1, and some odd multiples of the bytes of a row. An
// even row is an odd multiple, times 2, 4 or 8, after row 0.
type Rows struct {
	even, odd Reg
	offset    int         // of all rows
	multiples map[int]Reg // 1, 3 and, for 16 rows, 5 and 7
}

// Plus returns the place n bytes further on in all rows.
func (r Rows) Plus(n int) Rows { r.offset += n; return r }

// At returns the address offset bytes into a row.
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

// Halves implements Source.
func (r Rows) Halves() int { return 2 }

// Load implements Source: register i has bytes 4i to 4i+3 of the half in all rows, one row to a lane.
func (r Rows) Load(k *Kernel, offset, half int) []Vec {
	v := k.Set.LoadRows(k, r, offset+16*half)
	k.Loaded(64)
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
	k.Loaded(64)
	return v[:]
}

// Nibbles implements Source.
func (r Rows) Nibbles(k *Kernel, offset int, visit func(part int, w Vec)) {
	for i, v := range r.Load(k, offset, 0) {
		low, high := splitWeightNibbles(k, v)
		visit(i, low)
		visit(4+i, high)
	}
}

// FifthBits implements Source.
func (r Rows) FifthBits(k *Kernel, offset int, w [8]Vec) {
	v := k.Set.LoadRows(k, r, offset)
	bits := v[0]
	k.Op("VPUNPCKLDQ", v[1], v[0], v[0])
	k.Op("VPUNPCKLDQ", v[3], v[2], v[2])
	k.Op("VPUNPCKLQDQ", v[2], v[0], bits)
	k.Free(v[1:]...)
	k.Loaded(32)
	k.Set.FifthBits(k, bits, w)
	k.Free(bits)
}

// panelRows are the rows of a panel, from SI on.
var panelRows = Rows{even: SI, odd: BX, multiples: map[int]Reg{1: DI, 3: R8, 5: R10, 7: R11}}

// RowPointers sets panelRows from SI and the bytes of a row, DI.
func (k *Kernel) RowPointers() {
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.Op("LEAQ", At(DI).Times(DI, 2), R8)
	if k.Set.Outputs() == 16 {
		k.Op("LEAQ", At(DI).Times(DI, 4), R10)
		k.Op("LEAQ", At(R8).Times(DI, 4), R11)
	}
}

// RowBytes sets to to the number of bytes in a row of the given number of columns.
func (k *Kernel) RowBytes(columns, to Reg) {
	b := k.Format.Block()
	k.Op("MOVQ", columns, to)
	k.Op("SHRQ", log2(b.Columns), to)
	k.Op("IMUL3Q", b.Bytes, to, to)
}

// Scales loads a half-precision number of each row and converts it to float32. It collects the numbers in integer
// registers, which are free. One load sets the words of two rows: the word of an odd row is the upper half of 32 bits,
// and the lower half is overwritten.
func (k *Kernel) Scales(rows Rows, offset int) Vec {
	spare := R11
	if k.Set.Outputs() == 16 {
		spare = R15
	}
	fours := k.Vecs(k.Set.Outputs() / 4)
	for i, v := range fours {
		k.Op("MOVL", rows.At(4*i+1, offset-2), R13)
		k.Op("MOVL", rows.At(4*i+3, offset-2), spare)
		k.Op("MOVW", rows.At(4*i, offset), R13)
		k.Op("MOVW", rows.At(4*i+2, offset), spare)
		k.Op("SHLQ", 32, spare)
		k.Op("ORQ", spare, R13)
		k.Op("VMOVQ", R13, v.X())
	}
	k.Loaded(16)
	v := fours[0]
	for i := 0; i < len(fours); i += 2 {
		k.Op("VPUNPCKLQDQ", fours[i+1].X(), fours[i].X(), fours[i].X())
	}
	if len(fours) == 4 {
		k.Op("VINSERTI128", 1, fours[2].X(), v.Y(), v.Y())
		k.Op("VCVTPH2PS", v.Y(), v)
	} else {
		k.Op("VCVTPH2PS", v.X(), v)
	}
	k.Free(fours[1:]...)
	return v
}
