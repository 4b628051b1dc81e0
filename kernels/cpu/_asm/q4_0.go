package main

// q4_0 has 32 columns in 18 bytes, d·(w-8):
//
//	0   d, in half precision
//	2   16 bytes: column i in the low nibble of byte i, column 16+i in the high one
type q4_0 struct{ oneScale }

func (q4_0) Block() Block { return Block{"Q4_0", 32, 18, Scheme{Bits: 4, Offset: 8}} }

func (q4_0) Unpack(k *Kernel, from Source, visit func(block, part int, w Vec)) {
	from.Nibbles(k, 2, func(part int, w Vec) { visit(0, part, k.signWeight(w)) })
}

// UnpackQuarters loads the first 64 of the 72 bytes of four blocks and moves their words to the quarters of the blocks.
// The last eight bytes are the rest of the nibbles.
func (q4_0) UnpackQuarters(k *Kernel, rows Rows, _ int, _ Mem) (q Quarters) {
	weights := k.Lookup("q4_0Weights", 2, eightWords(1, 10, 19, 28))
	scales := k.Lookup("q4_0Scales", 2, repeatValues(2, eachFour(0, 9, 18, 27)...))
	q.Scales[0] = k.Vec()
	for row := range 4 {
		all, v := k.Vec(), k.Vec()
		k.Op("VMOVDQU", rows.At(row, 0), all)
		k.Op("VPERMW", all, weights, v)
		k.Op("VPBROADCASTQ", rows.At(row, 64), k.Mask(0x80), v)
		q.Columns[row][0], q.Columns[row][1] = splitNibbles(k, v)
		k.permuteWords(all, scales, row, q.Scales[0])
		k.Free(all)
		k.Loaded(72)
	}
	k.Op("VCVTPH2PS", q.Scales[0].Y(), q.Scales[0])
	return q
}

func (q4_0) ArmConstants(l *layout) { l.Constant(31, 0x0f) }

func (q4_0) ArmUnpack(l *layout) {
	low, high := l.splitNibbles(l.loadBytes(2))
	l.visit(0, 0, low)
	l.visit(0, 1, high)
}
