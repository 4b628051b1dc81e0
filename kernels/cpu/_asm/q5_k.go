package main

// q5_K is q4_K with a fifth bit, in 176 bytes: between its scales and its nibbles, which begin at 48, it has
//
//	16   32 bytes: bit b of byte i is the fifth bit of column i of block b
type q5_K struct{ q4_K }

func (q5_K) Block() Block { return Block{"Q5_K", 256, 176, Scheme{Bits: 5, Minima: true}} }

func (q5_K) Unpack(k *Kernel, from Source, visit func(block, part int, w Vec)) {
	for half := range from.Halves() {
		bits := from.Load(k, 16, half)
		for pair := range 4 {
			for i, v := range from.Load(k, 48+32*pair, half) {
				low, high := splitNibbles(k, v)
				addBits(k, 0x10, bits[i], 4-2*pair, low)
				visit(2*pair, 4*half+i, low)
				addBits(k, 0x10, bits[i], 3-2*pair, high)
				visit(2*pair+1, 4*half+i, high)
			}
		}
		k.Free(bits...)
	}
}

// UnpackQuarters rotates the fifth bits of each block by as much as brings them to bit 4.
func (f q5_K) UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) (q Quarters) {
	k.Phase(func() { q.Scales = f.quarterScales(k, rows, half, kept) })
	var left []int
	for block := range 4 {
		left = append(left, (4-4*half-block)&31)
	}
	for row := range 4 {
		q.Columns[row] = k.nibbleQuarters(rows.At(row, 48+64*half), 0xa0, 0xf5, 0, 4, 0, 4)
		k.addQuarterBits("q5_KLeft"+digitString(half), left, 0x10, rows.At(row, 16), q.Columns[row])
		k.Loaded(16)
	}
	return q
}

func (q5_K) ArmConstants(l *layout) {
	q4_K{}.ArmConstants(l)
	l.Constant(30, 0x1f)
}

func (q5_K) ArmUnpack(l *layout) {
	bits := l.loadTo(l.bits, 16)
	for pair := range 4 {
		low, high := l.nibblesWithBits(l.loadBytes(48+32*pair), bits, 4-2*pair, 3-2*pair)
		l.visit(2*pair, l.half, low)
		l.visit(2*pair+1, l.half, high)
	}
}
