package main

import "fmt"

// q5_K is q4_K with a fifth bit, in 176 bytes: between its scales and its nibbles, which begin at 48, it has
//
//	16   32 bytes: bit b of byte i is the fifth bit of column i of block b
type q5_K struct {
	q4_K
	fifth Vec // bit 4 of each byte
}

func (*q5_K) Block() Block {
	return Block{Name: "Q5_K", Columns: 256, Bytes: 176, Bits: 5, Minima: true}
}

func (f *q5_K) Constants(k *Kernel) {
	f.q4_K.Constants(k)
	f.fifth = k.Broadcast(eachByte(0x10))
}

// addFifth adds bit 4 of bits, moved to the left by some, or to the right if that is negative, to w.
func (f *q5_K) addFifth(k *Kernel, bits Vec, left int, w Vec) {
	t := k.Vec()
	if left >= 0 {
		k.Op("VPSLLW", left, bits, t)
	} else {
		k.Op("VPSRLW", -left, bits, t)
	}
	k.Op("VPAND", f.fifth, t, t)
	k.Op("VPOR", t, w, w)
	k.Free(t)
}

func (f *q5_K) Unpack(k *Kernel, rows Rows, visit func(block, part int, w Vec)) {
	for half := range 2 {
		bits := k.Set.Interleave(k, rows, 16+16*half)
		for pair := range 4 {
			for i, v := range k.Set.Interleave(k, rows, 48+32*pair+16*half) {
				low, high := nibbles(k, f.lowNibbles, v)
				f.addFifth(k, bits[i], 4-2*pair, low)
				visit(2*pair, 4*half+i, low)
				f.addFifth(k, bits[i], 3-2*pair, high)
				visit(2*pair+1, 4*half+i, high)
			}
		}
		k.Free(bits[:]...)
	}
}

// UnpackBlocks keeps the fifth bits too, which move on by two from pair to pair.
func (f *q5_K) UnpackBlocks(k *Kernel, rows Rows, t BlockTemps, multiply func(w [8]Vec)) {
	all := k.Interleave32(rows, 16)
	for i, bits := range all {
		k.Op("VMOVDQU", bits, t.Bits.Plus(k.Set.Width()*i))
	}
	k.Free(all[:]...)
	f.unpackPairs(k, rows, 48, t, func(second int, w [8]Vec) {
		bits := k.Vec()
		for i, v := range w {
			k.Op("VMOVDQU", t.Bits.Plus(k.Set.Width()*i), bits)
			f.addFifth(k, bits, 4-second, v)
			if second == 1 {
				k.Op("VPSRLW", 2, bits, bits)
				k.Op("VMOVDQU", bits, t.Bits.Plus(k.Set.Width()*i))
			}
		}
		k.Free(bits)
		multiply(w)
	})
}

func (f *q5_K) QuarterConstants(k *Kernel) {
	f.q4_K.QuarterConstants(k)
	f.fifth = k.Broadcast(eachByte(0x10))
}

// UnpackQuarters rotations the fifth bits of each block by as much as brings them to bit 4.
func (f *q5_K) UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) (q Quarters) {
	q.Scale, q.Minimum = f.quarterScales(k, rows, half, kept)
	var rotations []int
	for block := range 4 {
		rotations = append(rotations, repeat(4, (4-4*half-block)&31)...)
	}
	rotation := k.Vec()
	k.Op("VMOVDQU", k.Table(fmt.Sprint("fifthRotations", half), 4, rotations), rotation)
	for row := range 4 {
		q.Columns[row] = f.unpackQuarters(k, rows.At(row, 48+64*half))
		for i, v := range q.Columns[row] {
			bits := k.Vec()
			k.Op("VBROADCASTI32X4", rows.At(row, 16+16*i), bits)
			k.Op("VPROLVD", rotation, bits, bits)
			k.Op("VPTERNLOGD", 0xf8, f.fifth, bits, v) // v |= bits & fifth
			k.Free(bits)
		}
		k.Loaded(16)
	}
	k.Free(rotation)
	return q
}

func (f *q5_K) ContiguousConstants(k *Kernel) { f.Constants(k) }

func (f *q5_K) UnpackContiguous(k *Kernel, bytes int, visit func(block int, w Vec)) {
	for pair := range 4 {
		v, bits := k.Vec(), k.Vec()
		k.Op("VMOVDQU", At(SI).Plus(bytes+48+32*pair), v)
		k.Op("VMOVDQU", At(SI).Plus(bytes+16), bits)
		low, high := nibbles(k, f.lowNibbles, v)
		f.addFifth(k, bits, 4-2*pair, low)
		f.addFifth(k, bits, 3-2*pair, high)
		k.Free(bits)
		visit(2*pair, low)
		visit(2*pair+1, high)
	}
}
