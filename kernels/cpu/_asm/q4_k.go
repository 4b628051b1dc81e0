package main

import "fmt"

// q4_K has 256 columns in 144 bytes, which are eight blocks of 32 columns, each with a scale and a minimum of six bits,
// d·scale·w - dmin·minimum:
//
//	0    d, in half precision
//	2    dmin
//	4    4 bytes: scales 0 to 3 in bits 0 to 5, upper bits of scales 4 to 7 in bits 6 and 7
//	8    4 bytes: the same of minima
//	12   4 bytes: lower bits of scales 4 to 7 in the low nibbles, of minima in the high ones
//	16   4 times 32 bytes: block 2j in the low nibbles, block 2j+1 in the high ones
type q4_K struct {
	lowNibbles Vec
	shifts     Vec // of the quarters: 0 and 4 bits alternately
}

func (*q4_K) Block() Block {
	return Block{Name: "Q4_K", Columns: 256, Bytes: 144, Bits: 4, Minima: true}
}

func (f *q4_K) Constants(k *Kernel) { f.lowNibbles = k.Set.Broadcast(k, eachByte(0x0f)) }

func (f *q4_K) Unpack(k *Kernel, rows Rows, visit func(block, part int, w Vec)) {
	for pair := range 4 {
		for half := range 2 {
			for i, v := range k.Set.Interleave(k, rows, 16+32*pair+16*half) {
				low, high := nibbles(k, f.lowNibbles, v)
				visit(2*pair, 4*half+i, low)
				visit(2*pair+1, 4*half+i, high)
			}
		}
	}
}

func (f *q4_K) UnpackBlocks(k *Kernel, rows Rows, t BlockTemps, multiply func(w [8]Vec)) {
	f.unpackPairs(k, rows, 16, t, func(_ int, w [8]Vec) { multiply(w) })
}

// unpackPairs calls visit for each block of 32 columns, the first and the second of each pair alternately, whose nibbles
// begin at from. While it visits the first it keeps the bytes for the second.
func (f *q4_K) unpackPairs(k *Kernel, rows Rows, from int, t BlockTemps, visit func(second int, w [8]Vec)) {
	k.EndPrefetch()
	k.Op("ADDQ", from, SI)
	k.Op("ADDQ", from, BX)
	pair := k.Here("blocks")
	w := k.Interleave32(rows, 0)
	for i, v := range w {
		k.Op("VMOVDQU", v, t.Kept.Plus(k.Set.Width()*i))
		k.Op("VPAND", f.lowNibbles, v, v)
	}
	visit(0, w)
	for i, v := range w {
		k.Op("VMOVDQU", t.Kept.Plus(k.Set.Width()*i), v)
		k.Op("VPSRLW", 4, v, v)
		k.Op("VPAND", f.lowNibbles, v, v)
	}
	visit(1, w)
	k.Free(w[:]...)
	k.Op("ADDQ", 32, SI)
	k.Op("ADDQ", 32, BX)
	k.Op("CMPQ", t.Place, 8*k.Set.Width())
	k.Op("JNE", pair)
	k.Op("SUBQ", from+128, SI)
}

func (f *q4_K) StoreScales(k *Kernel, rows Rows, scales Mem, step int, minima Mem, minimumStep int) {
	v := k.Set.Interleave(k, rows, 0)
	d, dmin := k.Set.SplitHalves(k, v[0])
	upper := k.Constant(eachByte(0x30))
	lastScales, lastMinima := k.Vec(), k.Vec()
	k.Op("VPSRLW", 2, v[1], lastScales)
	k.Op("VPSRLW", 2, v[2], lastMinima)
	k.Op("VPAND", upper, lastScales, lastScales)
	k.Op("VPAND", upper, lastMinima, lastMinima)
	low, high := nibbles(k, f.lowNibbles, v[3])
	k.Op("VPOR", low, lastScales, lastScales)
	k.Op("VPOR", high, lastMinima, lastMinima)
	k.Free(low, high)
	k.Op("VPOR", f.lowNibbles, upper, upper)
	k.Op("VPAND", upper, v[1], v[1])
	k.Op("VPAND", upper, v[2], v[2])
	k.Free(upper)
	k.StoreBytes(v[1], d, scales, step)
	k.StoreBytes(lastScales, d, scales.Plus(4*step), step)
	k.StoreBytes(v[2], dmin, minima, minimumStep)
	k.StoreBytes(lastMinima, dmin, minima.Plus(4*minimumStep), minimumStep)
	k.Free(v[1], v[2], lastScales, lastMinima, d, dmin)
}

func (f *q4_K) QuarterConstants(k *Kernel) {
	f.Constants(k)
	f.shifts = k.Vec()
	k.Op("VMOVDQU", k.Table("nibbleShifts", 4, repeat(2, 0, 0, 0, 0, 4, 4, 4, 4)), f.shifts)
}

func (f *q4_K) UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) (q Quarters) {
	q.Scale, q.Minimum = f.quarterScales(k, rows, half, kept)
	for row := range 4 {
		q.Columns[row] = f.unpackQuarters(k, rows.At(row, 16+64*half))
	}
	return q
}

// unpackQuarters takes 64 bytes, sixteen to a quarter: the first and the third sixteen have columns 0 to 15 of two
// blocks each, the others columns 16 to 31.
func (f *q4_K) unpackQuarters(k *Kernel, row Mem) (columns [2]Vec) {
	bytes := k.Vec()
	k.Op("VMOVDQU", row, bytes)
	for i, quarters := range []int{0xa0, 0xf5} {
		v := k.Vec()
		k.Op("VSHUFI32X4", quarters, bytes, bytes, v)
		k.Op("VPSRLVD", f.shifts, v, v)
		k.Op("VPAND", f.lowNibbles, v, v)
		columns[i] = v
	}
	k.Free(bytes)
	k.Loaded(64)
	return columns
}

// quarterScales is StoreScales with a quarter for each row, which is then turned to a quarter for each block: those of
// the first four blocks, and the last four by way of kept.
func (f *q4_K) quarterScales(k *Kernel, rows Rows, half int, kept Mem) (scale, minimum Vec) {
	if half == 1 {
		scale, minimum = k.Vec(), k.Vec()
		k.Op("VMOVUPS", kept, scale)
		k.Op("VMOVUPS", kept.Plus(64), minimum)
		return scale, minimum
	}
	head := k.Vec()
	k.Op("VMOVDQU", rows.At(0, 0), head.X())
	k.Op("VINSERTI128", 1, rows.At(1, 0), head.Y(), head.Y())
	k.Op("VINSERTI32X4", 2, rows.At(2, 0), head, head)
	k.Op("VINSERTI32X4", 3, rows.At(3, 0), head, head)
	k.Loaded(64)
	d, dmin := f.quarterHalves(k, head)
	first, last, upper := k.Vec(), k.Vec(), k.Vec()
	k.Op("VPANDD.BCST", k.Table("sixBits", 4, repeat(2, eachByte(0x3f))), head, first)
	k.Op("VPSRLW", 2, head, upper)
	k.Op("VPSHUFD", 0xff, head, last)
	k.Op("VPSRLVD", k.Table("lastShifts", 4, repeat(4, 0, 0, 4, 0)), last, last)
	k.Op("VPAND", f.lowNibbles, last, last)
	k.Op("VPTERNLOGD.BCST", 0xf8, k.Table("upperBits", 4, repeat(2, eachByte(0x30))), upper, last)
	k.Free(upper, head)

	order := k.Vec()
	k.Op("VMOVDQU", k.Table("transpose4", 4, []int{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}), order)
	number := func(from Vec, dword int, scale Vec) Vec {
		v := k.Vec()
		k.Op("VPSHUFB", k.Table(fmt.Sprint("bytes", 4*dword), 1, repeat(4, spreadBytes(4*dword, 1)...)), from, v)
		k.Op("VPERMD", v, order, v)
		k.Op("VCVTDQ2PS", v, v)
		k.Op("VMULPS", scale, v, v)
		return v
	}
	scale, minimum = number(first, 1, d), number(first, 2, dmin)
	for i, v := range []Vec{number(last, 1, d), number(last, 2, dmin)} {
		k.Op("VMOVUPS", v, kept.Plus(64*i))
		k.Free(v)
	}
	k.Free(first, last, order, d, dmin)
	return scale, minimum
}

// quarterHalves is d and dmin of four rows, in each quarter.
func (*q4_K) quarterHalves(k *Kernel, head Vec) (d, dmin Vec) {
	order := k.Vec()
	d, dmin = k.Vec(), k.Vec()
	k.Op("VMOVDQU", k.Table("firstWords", 2, repeat(4, 0, 8, 16, 24)), order.Y())
	k.Op("VPERMW", head, order, d)
	k.Op("VPSRLD", 16, head, dmin)
	k.Op("VPERMW", dmin, order, dmin)
	k.Op("VCVTPH2PS", d.Y(), d)
	k.Op("VCVTPH2PS", dmin.Y(), dmin)
	k.Free(order)
	return d, dmin
}

func (f *q4_K) ContiguousConstants(k *Kernel) { f.Constants(k) }

func (f *q4_K) UnpackContiguous(k *Kernel, bytes int, visit func(block int, w Vec)) {
	for pair := range 4 {
		v := k.Vec()
		k.Op("VMOVDQU", At(SI).Plus(bytes+16+32*pair), v)
		low, high := nibbles(k, f.lowNibbles, v)
		visit(2*pair, low)
		visit(2*pair+1, high)
	}
}

func (f *q4_K) ContiguousScales(k *Kernel) (scale, minimum Vec) { return k.ScalesK() }
