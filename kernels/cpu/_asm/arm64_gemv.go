package main

// armGEMV multiplies one output after the other with one token. The integers of a block (of a half block in Q6_K) are
// added exactly. The sum of block b goes to accumulator b mod 4, or mod 8 in formats with blocks of 256, in ascending
// order of b; the accumulators are added at the end. So four blocks share one conversion, scale and addition: with SDOT
// 15 vector operations for four blocks of Q8_0. Weights w with an offset o are multiplied as w+o, and -o·ΣQ corrects
// the sum, for four blocks at once.
//
// R0 dst, R1 end of w, R2 w, R3 q, R4 d, R5 blocks of 32 columns, R6 s, R16 h; in a row R7 q, R8 d, R10 s, R17 h, R9
// blocks left; R11-R15 for anything. V0, V1 accumulators, V2, V3, V16-V23 weights (rowLayout), V4, V5 activations,
// V6-V9 and V12-V15 sums of products, V10, V11 for anything, V24-V27 scales, V29 the offset in each lane.
func armGEMV(a *arm) {
	l := rowLayout(a)
	a.ToArgs(R7)
	a.Load(R7, "dst", R0, "w", R2, "wBytes", R1)
	a.Op("ADD", R2, R1)
	a.Load(R7, "q", R3, "d", R4, "n", R5)
	a.Op("LSR", 5, R5)
	a.Load(R7, "s", R6, "h", R16)
	a.format.ArmConstants(l)
	if a.Scheme.Offset != 0 {
		a.Op("MOVD", a.Scheme.Offset, R11)
		a.Op("VDUP", R11, V(29).In("S4"))
	}
	row := a.Here("row")
	for _, r := range [][2]Reg{{R3, R7}, {R4, R8}, {R6, R10}, {R16, R17}, {R5, R9}} {
		a.Op("MOVD", r[0], r[1])
	}
	a.Zero(2, 0)
	switch {
	case a.format.Block().Columns == 32:
		a.addRowByFours(l)
	case a.Scheme.Halves:
		a.addRowByEights(l, a.multiplyHalfBlocks)
	default:
		a.addRowByEights(l, a.multiplyMinimaBlocks)
	}
	a.HorizontalSum(0, 1)
	a.Op("FMOVS.P", V(0), At(R0).Plus(4))
	a.Op("CMP", R1, R2)
	a.Op("BLT", row)
	a.Op("RET")
}

// dotActivations sets p to the products of a block with the activations q bytes after R7.
func (a *arm) dotActivations(w []V, q int, p V) {
	a.LoadPair("", At(R7).Plus(q), 4)
	a.set.Dot(a, p, 10, w, []V{4, 5})
}

// addRowByFours adds a row of blocks of 32 columns, first four at a time, then one at a time; after each single block
// the lanes are rotated by one, which does not change their total. Four scales are collected in R11, because the
// integer units are free.
func (a *arm) addRowByFours(l *layout) {
	size := a.format.Block().Bytes
	multiply := func(block int, p V) {
		l.at = block * size
		l.eachBlock(func(_ int, w []V) { a.dotActivations(w, 32*block, p) })
	}
	a.Op("SUBS", 4, R9)
	a.Op("BLT", "last")
	four := a.Here("four")
	total := [4]V{6, 7, 14, 15}
	for block, p := range total {
		multiply(block, p)
	}
	for block, r := range []Reg{R11, R12, R13, R14} {
		a.Op("MOVHU", At(R2).Plus(block*size), r)
	}
	a.Op("ORR", R12+"<<16", R11)
	a.Op("ORR", R14+"<<16", R13)
	a.Op("ORR", R13+"<<32", R11)
	a.Op("FMOVD", R11, V(8))
	a.Word("FCVTL", 8, 8)
	a.Op("FMOVQ.P", At(R8).Plus(16), V(9))
	a.Word("FMUL", 8, 9, 11)
	a.sumRegisterLanes(total, 6)
	a.addBlocks("FMOVQ.P", 16)
	a.Advance(4*size, R2)
	a.Advance(128, R7)
	a.Op("SUBS", 4, R9)
	a.Op("BGE", four)

	a.Place("last")
	a.Op("ADDS", 4, R9)
	a.Op("BEQ", "sum")
	one := a.Here("one")
	multiply(0, 6)
	a.Lanes("S4", "VADDP", 6, 6, 6)
	a.Lanes("S4", "VADDP", 6, 6, 6)
	a.Op("MOVHU", At(R2), R11)
	a.Op("FMOVS", R11, V(8))
	a.Word("FCVTL", 8, 8)
	a.Op("FMOVS.P", At(R8).Plus(4), V(9))
	a.Word("FMUL", 8, 9, 11)
	a.addBlocks("FMOVS.P", 4)
	a.Shift("B16", "VEXT", 4, 0, 0, 0)
	a.Advance(size, R2)
	a.Advance(32, R7)
	a.Op("SUBS", 1, R9)
	a.Op("BNE", one)
	a.Place("sum")
}

// addBlocks adds the integers V6, less the offset times the sums of activations that load loads, times V11.
func (a *arm) addBlocks(load string, bytes int) {
	if a.Scheme.Offset != 0 {
		a.Op(load, At(R17).Plus(bytes), V(10))
		a.Word("SADDLP", 10, 10)
		a.Word("MLS", 29, 10, 6)
	}
	a.Word("SCVTF", 6, 6)
	a.Word("FMLA", 6, 11, 0)
}

// addRowByEights adds a row of blocks of 256 columns: an accumulator for each block of 32 in it.
func (a *arm) addRowByEights(l *layout, add func(l *layout)) {
	block := a.Here("block")
	a.format.ArmScales(a)
	add(l)
	a.Advance(a.format.Block().Bytes, R2)
	a.Advance(256, R7)
	a.Op("SUB", 8, R9)
	a.Op("CBNZ", R9, block)
	a.Word("FADD", 1, 0, 0)
}

// multiplyMinimaBlocks multiplies blocks with scales V24, V25 and minima V26, V27. V28, V29 are their s.
func (a *arm) multiplyMinimaBlocks(l *layout) {
	a.LoadPair(".P", At(R8).Plus(32), 8)
	a.LoadPair(".P", At(R10).Plus(32), 28)
	a.Word("FMUL", 8, 24, 24)
	a.Word("FMUL", 9, 25, 25)
	l.at = 0
	l.eachBlock(func(block int, w []V) {
		first := []V{6, 12}[block/4]
		a.dotActivations(w, 32*block, first+V(block%4))
		if block%4 == 3 {
			a.sumRegisterLanes([4]V(registerRange(4, first)), first)
		}
	})
	a.Word("SCVTF", 6, 6)
	a.Word("SCVTF", 12, 12)
	a.Word("FMLA", 6, 24, 0)
	a.Word("FMLA", 12, 25, 1)
	a.Lanes("S4", "VFMLS", 28, 26, 0)
	a.Lanes("S4", "VFMLS", 29, 27, 1)
}

// multiplyHalfBlocks multiplies blocks with a scale for each half. V24-V31 hold the scales, first and second half in
// turn.
func (a *arm) multiplyHalfBlocks(l *layout) {
	l.at = 0
	visited := 0
	l.eachBlock(func(block int, w []V) {
		p := V(block % 4)
		a.LoadPair("", At(R7).Plus(32*block), 4)
		a.set.Dot(a, 6+p, 10, w[:1], []V{4})
		a.set.Dot(a, 12+p, 10, w[1:], []V{5})
		if visited++; visited%4 == 0 {
			a.addHalfBlocks(V(block / 4))
		}
	})
}

// addHalfBlocks adds the products of four blocks. V6-V9 hold the integer sums of their first halves, V12-V15 those of
// their second halves.
func (a *arm) addHalfBlocks(four V) {
	a.sumRegisterLanes([4]V{6, 7, 8, 9}, 6)
	a.sumRegisterLanes([4]V{12, 13, 14, 15}, 12)
	a.Op("FMOVQ.P", At(R17).Plus(16), V(10)) // sums of a first half in the lower 16 bits, of a second in the upper
	a.Shift("S4", "VSHL", 16, 10, 11)
	a.Word("SSHR", 16, 11, 11)
	a.Word("SSHR", 16, 10, 10)
	a.Word("MLS", 29, 11, 6)
	a.Word("MLS", 29, 10, 12)
	a.Word("SCVTF", 6, 6)
	a.Word("SCVTF", 12, 12)
	scales := 24 + 2*four
	a.Lanes("S4", "VUZP1", scales+1, scales, 8)
	a.Lanes("S4", "VUZP2", scales+1, scales, 9)
	a.Op("FMOVQ.P", At(R8).Plus(16), V(10))
	a.Word("FMUL", 10, 8, 8)
	a.Word("FMUL", 10, 9, 9)
	a.Word("FMLA", 6, 8, four)
	a.Word("FMLA", 12, 9, four)
}
