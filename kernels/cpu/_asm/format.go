package main

import "fmt"

// Block is what there is to know of a format beside how it is unpacked.
type Block struct {
	Name    string
	Columns int  // weights of a block
	Bytes   int  // that it takes in a file
	Bits    int  // of a weight as it is unpacked: 0 ≤ w < 2^Bits
	Offset  int  // d·(w - Offset) is the weight
	Minima  bool // d·w - m is the weight
}

// Lanes is how many sums an output has: block b of 32 columns goes to lane b mod Lanes, in ascending order, and the
// lanes are added at the end. All instruction sets keep this order, and so return the same bits.
func (b Block) Lanes() int { return min(8, 4*b.Columns/32) }

// Format is a format of blocks in a file, and how they are unpacked.
type Format interface {
	Block() Block
	// Constants takes registers for constants of unpacking.
	Constants(k *Kernel)

	// Unpack calls visit with registers of four columns of each row, which visit is to free: those of part 0 to 7 of a
	// block of 32 columns, as Interleave orders them.
	Unpack(k *Kernel, rows Rows, visit func(block, part int, w Vec))
	// UnpackBlocks calls multiply with the parts of each block of 32 columns.
	UnpackBlocks(k *Kernel, rows Rows, t BlockTemps, multiply func(w [8]Vec))
	// StoreScales puts the scales of each block of 32 columns, and their minima if there are any, one to a row; those
	// of the next block lie step bytes, or minimumStep bytes, further on.
	StoreScales(k *Kernel, rows Rows, scales Mem, step int, minima Mem, minimumStep int)
}

// BlockTemps is what UnpackBlocks has beside registers.
type BlockTemps struct {
	Kept  Mem // room for eight registers
	Bits  Mem // room for eight more
	Place Mem // of the scales of the block of 32 that is next multiplied, in bytes: multiply adds to it
}

// StoreBytes stores the bytes 0 to 3 of each dword of v, without sign, times scale, step bytes apart.
func (k *Kernel) StoreBytes(v, scale Vec, to Mem, step int) {
	for i := range 4 {
		t := k.Vec()
		k.Op("VPSHUFB", k.Table(fmt.Sprint("byte", i), 1, repeat(k.Set.Width()/16, spreadBytes(i, 4)...)), v, t)
		k.Op("VCVTDQ2PS", t, t)
		k.Op("VMULPS", scale, t, t)
		k.Op("VMOVUPS", t, to.Plus(i*step))
		k.Free(t)
	}
}

// spreadBytes is, for VPSHUFB, which bytes of 16 become dwords: from the first on, each step bytes after the other.
func spreadBytes(first, step int) (all []int) {
	for i := range 4 {
		all = append(all, first+i*step, 0x80, 0x80, 0x80)
	}
	return all
}

// repeat is the values, n times.
func repeat(n int, values ...int) (all []int) {
	for range n {
		all = append(all, values...)
	}
	return all
}

// nibbles splits bytes into their low and their high nibbles; the high ones take the place of the bytes.
func nibbles(k *Kernel, mask, v Vec) (low, high Vec) {
	low = k.Vec()
	k.Op("VPAND", mask, v, low)
	k.Op("VPSRLW", 4, v, v)
	k.Op("VPAND", mask, v, v)
	return low, v
}
