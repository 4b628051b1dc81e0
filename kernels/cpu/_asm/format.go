package main

// Scheme describes the integers that are multiplied, and the value of their products.
type Scheme struct {
	Bits   int  // an integer w is 0 ≤ w < 2^Bits, or has a sign if it has 8 bits and no Offset
	Offset int  // the weight is d·(w - Offset)
	Minima bool // the weight is d·w - m
	Halves bool // columns 0 to 15 and 16 to 31 of a block have scales of their own
}

// Signed reports whether integers have a sign.
func (s Scheme) Signed() bool { return s.Bits == 8 && s.Offset == 0 }

// Scales returns the number of scales of a block of 32 columns.
func (s Scheme) Scales() int {
	if s.Halves {
		return 2
	}
	return 1
}

// Sums returns the argument field with the sums of activations that the scheme needs.
func (s Scheme) Sums() string {
	if s.Minima {
		return "s"
	}
	return "h"
}

// Block describes a format apart from how it is unpacked.
type Block struct {
	Name           string
	Columns, Bytes int // of a block as it is stored
	Scheme
}

// Accumulators returns the number of accumulators of an output: block b of 32 columns goes to accumulator b mod
// Accumulators, in ascending order, and they are added at the end. All instruction sets use this order, and so return
// the same bits.
func (b Block) Accumulators() int { return min(8, 4*b.Columns/32) }

// Format is a format of blocks in a file, and how they are unpacked for each way to lay them out in registers:
// interleaved (eight or sixteen rows, four columns of a row to a lane), contiguous (32 columns of a row to a register
// of 32 bytes) or by quarters (sixteen columns of each of four blocks of a row to a register of 64 bytes).
type Format interface {
	Block() Block

	// Unpack calls visit with each part of each block of 32 columns, in a register that visit is to free.
	Unpack(k *Kernel, from Source, visit func(block, part int, w Vec))
	// StoreScales stores the scales of each block of 32 columns, and the minima if there are any, one to a row.
	StoreScales(k *Kernel, rows Rows, to ScalePlaces)

	// ContiguousScales returns the scales of the blocks of 32 columns at SI, one, four, or the eight of a block of 256,
	// and their minima if any. For half blocks the second register has the scales of the second halves.
	ContiguousScales(k *Kernel, blocks int) [2]Vec

	// UnpackQuarters unpacks four blocks of 32, or half of a block of 256, of four rows. The call for the first half
	// may store data for the second in kept, 128 bytes.
	UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) Quarters
}

// Source is the place of a block to unpack: many rows, interleaved (Rows), or one (Row). 32 columns are parts 0 to 7,
// of four columns each, or part 0 alone.
type Source interface {
	// Halves returns the number of calls of Load for 32 bytes of a row: a call returns 4 parts, or one.
	Halves() int
	Load(k *Kernel, offset, half int) []Vec
	// Nibbles calls visit with 32 columns: the low nibbles of 16 bytes, then the high ones.
	Nibbles(k *Kernel, offset int, visit func(part int, w Vec))
	// FifthBits adds 16 to the parts where the 32 bits at offset, one for each column, have a one.
	FifthBits(k *Kernel, offset int, w [8]Vec)
}

// ScalePlaces is the place of scales and minima: those of the next block of 32 columns are Step bytes and a register
// further on. The scale of a second half block directly follows that of the first.
type ScalePlaces struct {
	Scales, Minima Mem
	Step           int
}

// StoreBytes stores the bytes 0 to 3 of each lane of v, with a sign or without, times scale, step bytes apart.
func (k *Kernel) StoreBytes(v, scale Vec, signed bool, to Mem, step int) {
	for i := range 4 {
		t := k.Vec()
		if signed {
			k.Op("VPSLLD", 24-8*i, v, t)
			k.Op("VPSRAD", 24, t, t)
		} else {
			order := repeatValues(k.Set.Width()/16, spreadBytes(i, 4)...)
			k.Op("VPSHUFB", k.Table("byte"+digitString(i), 1, order), v, t)
		}
		k.Op("VCVTDQ2PS", t, t)
		k.Op("VMULPS", scale, t, t)
		k.Op("VMOVUPS", t, to.Plus(i*step))
		k.Free(t)
	}
}

// digitString is n < 10 in the name of a table.
func digitString(n int) string { return string(rune('0' + n)) }

// splitNibbles returns the high nibbles in the place of the bytes.
func splitNibbles(k *Kernel, v Vec) (low, high Vec) {
	low = k.Vec()
	k.Op("VPAND", k.Bytes(0x0f), v, low)
	k.Op("VPSRLW", 4, v, v)
	k.Op("VPAND", k.Bytes(0x0f), v, v)
	return low, v
}

// splitWeightNibbles is splitNibbles, but the high ones are not shifted if the microkernel requires that.
func splitWeightNibbles(k *Kernel, v Vec) (low, high Vec) {
	if !k.highAsTheyLie {
		return splitNibbles(k, v)
	}
	low = k.Vec()
	k.Op("VPAND", k.Bytes(0x0f), v, low)
	k.Op("VPANDN", v, k.Bytes(0x0f), v)
	return low, v
}

// signWeight subtracts the offset from a weight if the microkernel needs signed weights.
func (k *Kernel) signWeight(w Vec) Vec {
	if k.withSign {
		k.Op("VPSUBB", k.Bytes(k.Scheme.Offset), w, w)
	}
	return w
}

// addBits adds the bits of mask, in bits moved to the left by some, or to the right if that is negative, to w.
func addBits(k *Kernel, mask int, bits Vec, left int, w Vec) {
	t := k.Vec()
	switch {
	case left > 0:
		k.Op("VPSLLW", left, bits, t)
		bits = t
	case left < 0:
		k.Op("VPSRLW", -left, bits, t)
		bits = t
	}
	k.Op("VPAND", k.Bytes(mask), bits, t)
	k.Op("VPOR", t, w, w)
	k.Free(t)
}

// oneScale is shared by the formats with blocks of 32 columns that begin with a scale in half precision.
type oneScale struct{}

func (oneScale) StoreScales(k *Kernel, rows Rows, to ScalePlaces) {
	v := k.Scales(rows, 0)
	k.Op("VMOVUPS", v, to.Scales)
	k.Free(v)
}

// ContiguousScales collects scales in integer registers, which are free.
func (oneScale) ContiguousScales(k *Kernel, blocks int) (scales [2]Vec) {
	k.Op("MOVWQZX", At(SI), AX)
	for block := 1; block < blocks; block++ {
		k.Op("MOVWQZX", At(SI).Plus(block*k.Format.Block().Bytes), BX)
		k.Op("SHLQ", 16*block, BX)
		k.Op("ORQ", BX, AX)
	}
	v := k.Vec()
	k.Op("VMOVQ", AX, v.X())
	k.Op("VCVTPH2PS", v.X(), v.X())
	scales[0] = v
	return scales
}

// UnsignWeights adds an offset of 128 to signed weights if the instruction set has no product of signed bytes.
func (k *Kernel) UnsignWeights() {
	if _, takes := k.Set.(avx2); k.Scheme.Signed() && !takes {
		k.Scheme.Offset = 0x80
	}
}
