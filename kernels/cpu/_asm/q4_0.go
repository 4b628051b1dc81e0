package main

// q4_0 has 32 columns in 18 bytes, d·(w-8):
//
//	0   d, in half precision
//	2   16 bytes: column i in the low nibble of byte i, column 16+i in the high one
type q4_0 struct {
	lowNibbles              Vec
	shifts                  Vec // how far the dwords of a register are, if its halves are low and high nibbles
	weightWords, scaleWords Vec // which words of four blocks go where
}

func (*q4_0) Block() Block {
	return Block{Name: "Q4_0", Columns: 32, Bytes: 18, Bits: 4, Offset: 8}
}

func (f *q4_0) Constants(k *Kernel) { f.lowNibbles = k.Set.Broadcast(k, eachByte(0x0f)) }

func (f *q4_0) Unpack(k *Kernel, rows Rows, visit func(block, part int, w Vec)) {
	for i, v := range k.Set.Interleave(k, rows, 2) {
		low, high := nibbles(k, f.lowNibbles, v)
		visit(0, i, low)
		visit(0, 4+i, high)
	}
}

func (f *q4_0) UnpackBlocks(k *Kernel, rows Rows, _ BlockTemps, multiply func(w [8]Vec)) {
	var w [8]Vec
	f.Unpack(k, rows, func(_, part int, v Vec) { w[part] = v })
	multiply(w)
	k.Free(w[:]...)
}

func (*q4_0) StoreScales(k *Kernel, rows Rows, scales Mem, _ int, _ Mem, _ int) {
	v := k.Set.Scales(k, rows, 0)
	k.Op("VMOVUPS", v, scales)
	k.Free(v)
}

// QuarterConstants: of the 72 bytes of four blocks a register has the first 64, from which words come to their
// quarters; the last eight bytes are the last of the nibbles.
func (f *q4_0) QuarterConstants(k *Kernel) {
	f.Constants(k)
	var weights, scales []int
	for block := range 4 {
		for word := range 8 {
			weights = append(weights, 9*block+1+word)
		}
		scales = append(scales, repeat(4, 9*block)...)
	}
	f.weightWords, f.scaleWords = k.Vec(), k.Vec()
	k.Op("VMOVDQU", k.Table("q4_0Weights", 2, weights), f.weightWords)
	k.Op("VMOVDQU", k.Table("q4_0Scales", 2, repeat(2, scales...)), f.scaleWords)
	k.Op("MOVL", 0x80, R11)
	k.Op("KMOVD", R11, lastQword)
}

// lastQword is a mask.
const lastQword Reg = "K4"

func (f *q4_0) UnpackQuarters(k *Kernel, rows Rows, _ int, _ Mem) (q Quarters) {
	q.Scale = k.Vec()
	for row := range 4 {
		all, v := k.Vec(), k.Vec()
		k.Op("VMOVDQU", rows.At(row, 0), all)
		k.Op("VPERMW", all, f.weightWords, v)
		k.Op("VPBROADCASTQ", rows.At(row, 64), lastQword, v)
		q.Columns[row][0], q.Columns[row][1] = nibbles(k, f.lowNibbles, v)
		if row == 0 {
			k.Op("VPERMW", all, f.scaleWords, q.Scale)
		} else {
			k.Op("VPERMW", all, f.scaleWords, quarterMasks[row-1], q.Scale)
		}
		k.Free(all)
		k.Loaded(72)
	}
	k.Op("VCVTPH2PS", q.Scale.Y(), q.Scale)
	return q
}

func (f *q4_0) ContiguousConstants(k *Kernel) {
	f.Constants(k)
	f.shifts = k.Vec()
	k.Op("VMOVDQU", k.Table("nibbleShifts", 4, repeat(k.Set.Width()/32, 0, 0, 0, 0, 4, 4, 4, 4)), f.shifts)
}

func (f *q4_0) UnpackContiguous(k *Kernel, bytes int, visit func(block int, w Vec)) {
	w := k.Vec()
	k.Op("VBROADCASTI128", At(SI).Plus(2+bytes), w)
	k.Op("VPSRLVD", f.shifts, w, w)
	k.Op("VPAND", f.lowNibbles, w, w)
	visit(0, w)
}

func (*q4_0) ContiguousScales(k *Kernel) (scale, minimum Vec) { return k.FourScales(18), minimum }
