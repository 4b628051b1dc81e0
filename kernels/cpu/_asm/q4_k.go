package main

// q4_K has 256 columns in 144 bytes, which are eight blocks of 32 columns, each with a scale and a minimum of six bits,
// d·scale·w - dmin·minimum:
//
//	0    d, in half precision
//	2    dmin
//	4    4 bytes: scales 0 to 3 in bits 0 to 5, upper bits of scales 4 to 7 in bits 6 and 7
//	8    4 bytes: the same of minima
//	12   4 bytes: lower bits of scales 4 to 7 in the low nibbles, of minima in the high ones
//	16   4 times 32 bytes: block 2j in the low nibbles, block 2j+1 in the high ones
type q4_K struct{}

func (q4_K) Block() Block { return Block{"Q4_K", 256, 144, Scheme{Bits: 4, Minima: true}} }

func (q4_K) Unpack(k *Kernel, from Source, visit func(block, part int, w Vec)) {
	for pair := range 4 {
		for half := range from.Halves() {
			for i, v := range from.Load(k, 16+32*pair, half) {
				low, high := splitWeightNibbles(k, v)
				visit(2*pair, 4*half+i, low)
				visit(2*pair+1, 4*half+i, high)
			}
		}
	}
}

func (q4_K) StoreScales(k *Kernel, rows Rows, to ScalePlaces) {
	v := rows.Load(k, 0, 0)
	d, dmin := k.Set.SplitHalves(k, v[0])
	last := k.Vecs(2)
	low, high := splitNibbles(k, v[3])
	for i, four := range []Vec{low, high} {
		k.Op("VPSRLW", 2, v[1+i], last[i])
		k.Op("VPAND", k.InMemory(0x30), last[i], last[i])
		k.Op("VPOR", four, last[i], last[i])
		k.Op("VPAND", k.InMemory(0x3f), v[1+i], v[1+i])
	}
	k.Free(low, high)
	k.StoreBytes(v[1], d, false, to.Scales, to.Step)
	k.StoreBytes(last[0], d, false, to.Scales.Plus(4*to.Step), to.Step)
	k.StoreBytes(v[2], dmin, false, to.Minima, k.Set.Width())
	k.StoreBytes(last[1], dmin, false, to.Minima.Plus(4*k.Set.Width()), k.Set.Width())
	k.Free(v[1], v[2], d, dmin)
	k.Free(last...)
}

// ContiguousScales splits the bytes in integer registers, which are free.
func (q4_K) ContiguousScales(k *Kernel, _ int) (numbers [2]Vec) {
	k.Op("MOVL", At(SI).Plus(4), AX)
	k.Op("MOVL", At(SI).Plus(8), BX)
	k.Op("MOVL", At(SI).Plus(12), R10)
	k.Op("MOVL", R10, R14)
	k.Op("SHRL", 4, R10)
	for i, of := range []struct{ first, lower Reg }{{AX, R14}, {BX, R10}} {
		k.Op("ANDL", eachByte(0x0f), of.lower) // the last four, to the upper half
		k.Op("MOVL", of.first, R8)
		k.Op("SHRL", 2, R8)
		k.Op("ANDL", eachByte(0x30), R8)
		k.Op("ORL", of.lower, R8)
		k.Op("SHLQ", 32, R8)
		k.Op("ANDL", eachByte(0x3f), of.first)
		k.Op("ORQ", R8, of.first)
		numbers[i] = k.Vec()
		k.Op("VMOVQ", of.first, numbers[i].X())
		k.Op("VPMOVZXBD", numbers[i].X(), numbers[i])
		k.multiplyByHalf(numbers[i], At(SI).Plus(2*i))
	}
	return numbers
}

func (f q4_K) UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) (q Quarters) {
	k.Phase(func() { q.Scales = f.quarterScales(k, rows, half, kept) })
	for row := range 4 {
		q.Columns[row] = k.nibbleQuarters(rows.At(row, 16+64*half), 0xa0, 0xf5, 0, 4, 0, 4)
	}
	return q
}

// quarterScales is StoreScales with a quarter for each row, which is then transposed to a quarter for each block.
func (f q4_K) quarterScales(k *Kernel, rows Rows, half int, kept Mem) [2]Vec {
	if half == 1 {
		return k.loadKeptScales(kept)
	}
	head := k.loadQuarters(rows, 0)
	d, dmin := f.quarterHalves(k, head)
	first, last, upper := k.Vec(), k.Vec(), k.Vec()
	k.Op("VPAND", k.InMemory(0x3f), head, first)
	k.Op("VPSRLW", 2, head, upper)
	k.Op("VPSHUFD", 0xff, head, last)
	k.Op("VPSRLVD", k.Lookup("lastShifts", 4, repeatValues(4, 0, 0, 4, 0)), last, last)
	k.Op("VPAND", k.Bytes(0x0f), last, last)
	k.Op("VPTERNLOGD", 0xf8, k.InMemory(0x30), upper, last) // last |= upper & 0x30
	k.Free(upper, head)
	var numbers [4]Vec
	for i, from := range []Vec{first, first, last, last} {
		lane := 1 + i%2
		numbers[i] = k.Vec()
		k.Op("VPSHUFB", k.Lookup("bytes"+digitString(4*lane), 1, spreadBytes(4*lane, 1)), from, numbers[i])
	}
	k.Free(first, last)
	k.transposeScales(numbers, [2]Vec{d, dmin}, kept)
	k.Free(d, dmin)
	return [2]Vec(numbers[:2])
}

// quarterHalves is d and dmin of four rows, in each quarter.
func (q4_K) quarterHalves(k *Kernel, head Vec) (d, dmin Vec) {
	first := k.Lookup("firstWords", 2, append(repeatValues(4, 0, 8, 16, 24), make([]int, 16)...))
	d, dmin = k.Vec(), k.Vec()
	k.Op("VPERMW", head, first, d)
	k.Op("VPSRLD", 16, head, dmin)
	k.Op("VPERMW", dmin, first, dmin)
	k.Op("VCVTPH2PS", d.Y(), d)
	k.Op("VCVTPH2PS", dmin.Y(), dmin)
	return d, dmin
}

// ArmConstants sets, beside the nibbles' mask, those of scales.
func (q4_K) ArmConstants(l *layout) {
	l.Constant(31, 0x0f)
	if l.panel {
		l.Constant(28, 0x3f)
		l.Constant(27, 0x30)
	}
}

func (q4_K) ArmUnpack(l *layout) {
	for pair := range 4 {
		low, high := l.splitNibbles(l.loadBytes(16 + 32*pair))
		l.visit(2*pair, l.half, low)
		l.visit(2*pair+1, l.half, high)
	}
}

// ArmScales splits the bytes in integer registers, as ContiguousScales does.
func (q4_K) ArmScales(a *arm) {
	a.Op("MOVWU", At(R2).Plus(4), R11)
	a.Op("MOVWU", At(R2).Plus(8), R12)
	a.Op("MOVWU", At(R2).Plus(12), R13)
	for i, first := range []Reg{R11, R12} {
		a.Op("LSR", 2, first, R14)
		a.Op("AND", eachByte(0x30), R14)
		if i == 1 {
			a.Op("LSR", 4, R13)
		}
		a.Op("AND", eachByte(0x0f), R13, R15) // the last four, to the upper half
		a.Op("ORR", R15, R14)
		a.Op("AND", eachByte(0x3f), first)
		a.Op("ORR", R14+"<<32", first)
		a.Op("FMOVD", first, V(8+i))
	}
	for i := range V(2) {
		a.Op("VUXTL", (8 + i).In("B8"), (8 + i).In("H8"))
		a.Op("VUXTL", (8 + i).In("H4"), (24 + 2*i).In("S4"))
		a.Op("VUXTL2", (8 + i).In("H8"), (25 + 2*i).In("S4"))
	}
	a.Each("SCVTF", 4, 24)
	a.Op("FMOVS", At(R2), V(10))
	a.Word("FCVTL", 10, 10)
	for i := range V(4) {
		a.Word([]string{"FMULE", "FMULE1"}[i/2], 10, 24+i, 24+i)
	}
}

func (q4_K) ArmPanelScales(a *arm) {
	a.loadFourRows(0)
	a.transposeRegisters(registerRange(4, 4))
	a.Lanes("H8", "VUZP1", 4, 4, 20)
	a.Lanes("H8", "VUZP2", 4, 4, 21)
	a.Each("FCVTL", 2, 20)
	a.Lanes("B16", "VAND", 31, 7, 8)
	a.Shift("B16", "VUSHR", 4, 7, 9)
	for i := range V(2) { // scales, minima: the first four to V22, V23, the last four to V5, V6
		a.Lanes("B16", "VAND", 28, 5+i, 22+i)
		a.Shift("B16", "VUSHR", 2, 5+i, 5+i)
		a.Lanes("B16", "VAND", 27, 5+i, 5+i)
		a.Lanes("B16", "VORR", 8+i, 5+i, 5+i)
	}
	a.storeBytes(22, 20, false, At(R9), 128)
	a.storeBytes(5, 20, false, At(R9).Plus(512), 128)
	a.storeBytes(23, 21, false, At(R10), 64)
	a.storeBytes(6, 21, false, At(R10).Plus(256), 64)
}
