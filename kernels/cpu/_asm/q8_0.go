package main

// q8_0 has 32 columns in 34 bytes, d·w:
//
//	0   d, in half precision
//	2   32 signed bytes
//
// Where the instruction set multiplies unsigned bytes alone, the scheme has an offset of 128, which is the sign bit.
type q8_0 struct{ oneScale }

func (q8_0) Block() Block { return Block{"Q8_0", 32, 34, Scheme{Bits: 8}} }

func (q8_0) Unpack(k *Kernel, from Source, visit func(block, part int, w Vec)) {
	if row, one := from.(Row); one && !k.Scheme.Signed() {
		w := k.Vec()
		k.Op("VPXOR", row.addressAt(2), k.Bytes(0x80), w) // two instructions take 1.5% longer
		visit(0, 0, w)
		return
	}
	for half := range from.Halves() {
		for i, w := range from.Load(k, 2, half) {
			if !k.Scheme.Signed() {
				k.Op("VPXOR", k.Bytes(0x80), w, w)
			}
			visit(0, 4*half+i, w)
		}
	}
}

// UnpackQuarters loads 64 bytes twice and moves the words of two blocks from each load to their quarters: the first
// sixteen columns and the scales from bytes 0 and 68, the last sixteen columns from bytes 18 and 72.
func (q8_0) UnpackQuarters(k *Kernel, rows Rows, _ int, _ Mem) (q Quarters) {
	low := k.Lookup("q8_0Low", 2, repeatValues(2, eightWords(1, 18)...))
	high := k.Lookup("q8_0High", 2, eightWords(0, 17, 7, 24))
	scales := k.Lookup("q8_0Scales", 2, repeatValues(4, 0, 0, 0, 0, 17, 17, 17, 17))
	lastTwo := k.Mask(0xffff0000)
	first, last := k.Vec(), k.Vec() // scales of the first two blocks and of the last two
	for row := range 4 {
		start, from68 := k.Vec(), k.Vec()
		k.Op("VMOVDQU", rows.At(row, 0), start)
		k.Op("VMOVDQU", rows.At(row, 68), from68)
		w := [2]Vec(k.Vecs(2))
		k.Op("VPERMW", start, low, w[0])
		k.Op("VPERMW", from68, low, lastTwo, w[0])
		k.Op("VPERMW", rows.At(row, 18), high, w[1])
		k.Op("VPERMW", rows.At(row, 72), high, lastTwo, w[1])
		for _, v := range w {
			k.Op("VPXOR", k.Bytes(0x80), v, v)
		}
		k.permuteWords(start, scales, row, first)
		k.permuteWords(from68, scales, row, last)
		k.Free(start, from68)
		k.Loaded(72)
		k.Loaded(64)
		q.Columns[row] = w
	}
	k.Op("VPBLENDD", 0xf0, last.Y(), first.Y(), first.Y())
	k.Op("VCVTPH2PS", first.Y(), first)
	k.Free(last)
	q.Scales[0] = first
	return q
}

func (q8_0) ArmConstants(*layout) {}

func (q8_0) ArmUnpack(l *layout) {
	l.visit(0, 0, l.loadBytes(2))
	l.visit(0, 1, l.loadBytes(18))
}
