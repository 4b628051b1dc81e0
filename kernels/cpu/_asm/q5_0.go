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
	weights := k.Lookup("q5_0Weights", 2, words(3, 14, 13, 24))
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
		q.Columns[row][0], q.Columns[row][1] = nibbles(k, v)
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
