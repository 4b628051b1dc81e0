package main

// q6_K has 256 columns in 210 bytes: eight blocks of 32 columns. Each half of 16 columns has a signed scale of eight
// bits: d·scale·(w-32).
//
//	0     2 times 64 bytes, the nibbles of 128 columns each: blocks 4h and 4h+1 in the low ones of both 32 bytes, 4h+2
//	      and 4h+3 in the high ones
//	128   2 times 32 bytes: bits 2b and 2b+1 of byte i are the upper bits of column i of block 4h+b
//	192   16 scales
//	208   d, in half precision
type q6_K struct{}

func (q6_K) Block() Block { return Block{"Q6_K", 256, 210, Scheme{Bits: 6, Offset: 32, Halves: true}} }

func (q6_K) Unpack(k *Kernel, from Source, visit func(block, part int, w Vec)) {
	for four := range 2 {
		for half := range from.Halves() {
			bits := from.Load(k, 128+32*four, half)
			for b := range 2 {
				for i, v := range from.Load(k, 64*four+32*b, half) {
					low, high := splitNibbles(k, v)
					addBits(k, 0x30, bits[i], 4-2*b, low)
					visit(4*four+b, 4*half+i, k.signWeight(low))
					addBits(k, 0x30, bits[i], -2*b, high)
					visit(4*four+2+b, 4*half+i, k.signWeight(high))
				}
			}
			k.Free(bits...)
		}
	}
}

func (q6_K) StoreScales(k *Kernel, rows Rows, to ScalePlaces) {
	d := k.Scales(rows, 208)
	for i, v := range rows.Load(k, 192, 0) {
		k.StoreBytes(v, d, true, to.Scales.Plus(2*i*to.Step), to.Step/2)
		k.Free(v)
	}
	k.Free(d)
}

func (q6_K) ContiguousScales(k *Kernel, _ int) [2]Vec {
	first, second := k.Vec(), k.Vec()
	k.Op("VPMOVSXWD", At(SI).Plus(192), second)
	k.Op("VPSLLD", 24, second, first)
	k.Op("VPSRAD", 24, first, first)
	k.Op("VPSRAD", 8, second, second)
	k.multiplyByHalf(first, At(SI).Plus(208))
	k.multiplyByHalf(second, At(SI).Plus(208))
	return [2]Vec{first, second}
}

func (f q6_K) UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) (q Quarters) {
	k.Phase(func() { q.Scales = f.quarterScales(k, rows, half, kept) })
	for row := range 4 {
		q.Columns[row] = k.nibbleQuarters(rows.At(row, 64*half), 0x88, 0xdd, 0, 0, 4, 4)
		k.addQuarterBits("q6_KLeft", []int{4, 2, 0, 30}, 0x30, rows.At(row, 128+32*half), q.Columns[row])
		k.Loaded(32)
	}
	return q
}

// quarterScales brings the two bytes of each block to the upper half of 32 bits, of which the one is then shifted out.
func (q6_K) quarterScales(k *Kernel, rows Rows, half int, kept Mem) [2]Vec {
	if half == 1 {
		return k.loadKeptScales(kept)
	}
	all, d := k.loadQuarters(rows, 192), k.Vec()
	k.Op("VPBROADCASTW", rows.At(0, 208), d.Y())
	for row := 1; row < 4; row++ {
		k.Op("VPBROADCASTW", rows.At(row, 208), k.rowMask(row), d.Y())
	}
	k.Op("VCVTPH2PS", d.Y(), d)
	var numbers [4]Vec
	for i := range 2 {
		first, second := k.Vec(), k.Vec()
		var twos []int
		for block := range 4 {
			twos = append(twos, 0x80, 0x80, 8*i+2*block, 8*i+2*block+1)
		}
		k.Op("VPSHUFB", k.Lookup("q6_KScales"+digitString(i), 1, twos), all, second)
		k.Op("VPSLLD", 8, second, first)
		k.Op("VPSRAD", 24, first, first)
		k.Op("VPSRAD", 24, second, second)
		numbers[2*i], numbers[2*i+1] = first, second
	}
	k.Free(all)
	k.transposeScales(numbers, [2]Vec{d, d}, kept)
	k.Free(d)
	return [2]Vec(numbers[:2])
}

func (q6_K) ArmConstants(l *layout) {
	l.Constant(31, 0x0f)
	l.Constant(30, 0x3f)
}

func (q6_K) ArmUnpack(l *layout) {
	for four := range 2 {
		v := [2][]V{l.loadBytes(64 * four), l.loadBytes(64*four + 32)}
		bits := l.loadTo(l.bits, 128+32*four)
		for b := range 2 {
			low, high := l.nibblesWithBits(v[b], bits, 4-2*b, -2*b)
			l.visit(4*four+b, l.half, low)
			l.visit(4*four+2+b, l.half, high)
		}
	}
}

func (q6_K) ArmScales(a *arm) {
	a.Op("FMOVQ", At(R2).Plus(192), V(9))
	a.Op("MOVHU", At(R2).Plus(208), R11)
	a.Op("FMOVS", R11, V(8))
	a.Word("FCVTL", 8, 8)
	a.Word("SXTLB", 9, 10)
	a.Word("SXTLB2", 9, 11)
	for i := range V(2) {
		a.Word("SXTLH", 10+i, 24+2*i)
		a.Word("SXTLH2", 10+i, 25+2*i)
	}
	a.Each("SCVTF", 4, 24)
	for i := range V(4) {
		a.Word("FMULE", 8, 24+i, 24+i)
	}
}

func (q6_K) ArmPanelScales(a *arm) {
	a.loadFourHalves(208)
	a.loadFourRows(192)
	a.transposeRegisters(registerRange(4, 4))
	for i := range 4 {
		a.storeBytes(V(4+i), 15, true, At(R9).Plus(256*i), 64)
	}
}
