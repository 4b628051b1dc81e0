package main

// q5_0 has 32 columns in 22 bytes, d·(w-16):
//
//	0   d, in half precision
//	2   32 bits: bit i is the fifth bit of column i
//	6   16 bytes: column i in the low nibble of byte i, column 16+i in the high one
type q5_0 struct{ oneScale }

func (q5_0) Block() Block { return Block{"Q5_0", 32, 22, Scheme{Bits: 5, Offset: 16}} }

func (q5_0) Unpack(k *Kernel, from Source, visit func(block, part int, w Vec)) {
	var w [8]Vec
	parts := 0
	from.Nibbles(k, 6, func(part int, v Vec) { w[part], parts = v, parts+1 })
	from.FifthBits(k, 2, w)
	for part, v := range w[:parts] {
		visit(0, part, v)
	}
}

// UnpackQuarters takes the 88 bytes of four blocks from bytes 0 and 24. Beside the nibbles it makes of them the head of
// a row, 32 bytes: four scales, and from byte 8 and byte 16 on the fifth bits of columns 0 to 15 and of columns 16 to
// 31 of all blocks, which are masks.
func (q5_0) UnpackQuarters(k *Kernel, rows Rows, _ int, kept Mem) (q Quarters) {
	weights := k.Lookup("q5_0Weights", 2, eightWords(3, 14, 13, 24))
	head := k.Lookup("q5_0Heads", 2, append([]int{0, 11, 10, 21, 1, 12, 11, 22, 2, 13, 12, 23}, make([]int, 20)...))
	var heads [4]Vec
	for row := range 4 {
		start, from24, v := k.Vec(), k.Vec(), k.Vec()
		heads[row] = k.Vec()
		k.Op("VMOVDQU", rows.At(row, 0), start)
		k.Op("VMOVDQU", rows.At(row, 24), from24)
		k.Op("VPERMW", start, weights, v)
		k.Op("VPERMW", from24, weights, k.Mask(0xffff0000), v)
		k.Op("VPERMW", start, head, heads[row])
		k.Op("VPERMW", from24, head, k.Mask(0x0ccc), heads[row])
		k.Op("VMOVDQU", heads[row].Y(), kept.Plus(32*row))
		q.Columns[row][0], q.Columns[row][1] = splitNibbles(k, v)
		k.Free(start, from24)
		k.Loaded(88)
	}
	for i := range 2 {
		k.Op("VPUNPCKLQDQ", heads[2*i+1].X(), heads[2*i].X(), heads[2*i].X())
	}
	scale := heads[0]
	k.Op("VINSERTI32X4", 1, heads[2].X(), scale.Y(), scale.Y())
	order := append([]int{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}, make([]int, 16)...)
	k.Op("VPERMW", scale, k.Lookup("q5_0Scales", 2, order), scale)
	k.Op("VCVTPH2PS", scale.Y(), scale)
	k.Free(heads[1:]...)
	q.Scales[0] = scale
	for row, columns := range q.Columns {
		for i, mask := range []Reg{"K6", "K7"} {
			k.Op("KMOVQ", kept.Plus(32*row+8+8*i), mask)
			k.Op("VPADDB", k.Bytes(0x10), columns[i], mask, columns[i])
		}
		k.Loaded(0)
	}
	return q
}

// ArmConstants sets registers to the bytes of the fifth bits which the weights of a register take, to those which the
// weights sixteen columns on take, and to the bit in it.
func (f q5_0) ArmConstants(l *layout) {
	l.Scheme.Offset = 0 // weights are unpacked with a sign
	name, source := "q5_0Row", neon{}.Source
	if l.panel {
		name, source = "q5_0"+l.set.Packs(), l.set.Source
	}
	low, high, mask := f.fifthBitRegisters(l)
	var bytes, bits []int
	for r := range low {
		for i := range 16 {
			row, column := source(r, i)
			bytes, bits = append(bytes, 4*row+column/8), append(bits, 1<<(column%8))
		}
	}
	bits = bits[:16*min(2, len(low))]
	l.Address(l.Table(name, 1, append(bytes, bits...)), R15)
	l.Op("VLD1.P", At(R15).Plus(len(bytes)), l.List("B16", low...))
	l.Op("VLD1", At(R15), l.List("B16", mask[:len(bits)/16]...))
	l.Constant(31, 2)
	for r := range low {
		l.Lanes("B16", "VADD", 31, low[r], high[r])
	}
	l.Constant(31, 0xff)
}

func (q5_0) fifthBitRegisters(l *layout) (low, high, mask []V) {
	if l.panel {
		return registerRange(4, 16), registerRange(4, 20), []V{24, 25, 24, 25}
	}
	return []V{28}, []V{29}, []V{27}
}

// ArmUnpack puts ones above a nibble, which is less 16, where its bit is clear.
func (f q5_0) ArmUnpack(l *layout) {
	bits := f.loadFifthBits(l)
	low, high := l.loadBytes(6), l.high
	l.Lanes("B16", "VEOR", 31, bits, bits)
	fromLow, fromHigh, mask := f.fifthBitRegisters(l)
	for i := range low {
		for j, from := range []V{fromLow[i], fromHigh[i]} {
			l.Op("VTBL", from.In("B16"), l.List("B16", bits), V(12+j).In("B16"))
		}
		l.Lanes("B16", "VCMTST", mask[i], 12, 12)
		l.Lanes("B16", "VCMTST", mask[i], 13, 13)
		l.Shift("B16", "VUSHR", 4, low[i], high[i])
		l.Shift("B16", "VSLI", 4, 12, low[i])
		l.Shift("B16", "VSLI", 4, 13, high[i])
	}
	l.visit(0, 0, low)
	l.visit(0, 1, high)
}

func (q5_0) loadFifthBits(l *layout) V {
	if !l.panel {
		l.Op("FMOVS", At(R2).Plus(l.at+2), V(20))
		return 20
	}
	twoRows := func(first, second Reg) {
		l.Op("MOVWU", At(first).Plus(2), R15)
		l.Op("MOVWU", At(second).Plus(2), R16)
		l.Op("ORR", R16+"<<32", R15)
	}
	twoRows(R4, R5)
	l.Op("FMOVD", R15, V(28))
	twoRows(R6, R7)
	l.Op("VMOV", R15, V(28).In("D[1]"))
	return 28
}
