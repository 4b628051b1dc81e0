package main

// Shared code of the formats for unpacking quarters, for gemm4: AVX-512 only.

// Quarters are four blocks of 32 columns of four rows, a quarter of a register for each block.
type Quarters struct {
	Columns [4][2]Vec // 0 to 15 and 16 to 31 of each row's blocks
	Scales  [2]Vec    // lane r of a quarter is of row r. The second are minima, or those of second half blocks
}

func (q Quarters) freeRegisters(k *Kernel) {
	for _, row := range q.Columns {
		k.Free(row[:]...)
	}
	k.Free(q.Scales[0])
	if k.Scheme.Minima || k.Scheme.Halves {
		k.Free(q.Scales[1])
	}
}

// eightWords returns eight words from each place on, for VPERMW.
func eightWords(from ...int) (all []int) {
	for _, first := range from {
		for i := range 8 {
			all = append(all, first+i)
		}
	}
	return all
}

func eachFour(numbers ...int) (all []int) {
	for _, n := range numbers {
		all = append(all, repeatValues(4, n)...)
	}
	return all
}

// rowMask returns the mask of a word or lane of each quarter, except for row 0.
func (k *Kernel) rowMask(row int) Reg { return k.Mask(0x1111 << row) }

// permuteWords moves words of v to those of a row in to; row 0 sets all words.
func (k *Kernel) permuteWords(v, order Vec, row int, to Vec) {
	if row == 0 {
		k.Op("VPERMW", v, order, to)
		return
	}
	k.Op("VPERMW", v, order, k.rowMask(row), to)
}

// loadQuarters loads 16 bytes of four rows, one row to a quarter.
func (k *Kernel) loadQuarters(rows Rows, offset int) Vec {
	v := k.Vec()
	k.Op("VMOVDQU", rows.At(0, offset), v.X())
	k.Op("VINSERTI128", 1, rows.At(1, offset), v.Y(), v.Y())
	for row := 2; row < 4; row++ {
		k.Op("VINSERTI32X4", row, rows.At(row, offset), v, v)
	}
	k.Loaded(64)
	return v
}

// nibbleQuarters loads 64 bytes and returns the columns of each quarter's block. first and second choose, with two bits
// for each quarter, the 16 bytes with columns 0 to 15 and with columns 16 to 31. shifts says by how many bits the
// nibbles of each quarter are shifted up.
func (k *Kernel) nibbleQuarters(row Mem, first, second int, shifts ...int) (columns [2]Vec) {
	bytes := k.Vec()
	name := "shifts"
	for _, n := range shifts {
		name += digitString(n)
	}
	k.Op("VMOVDQU", row, bytes)
	k.Loaded(64)
	for i, quarters := range []int{first, second} {
		columns[i] = k.Vec()
		k.Op("VSHUFI32X4", quarters, bytes, bytes, columns[i])
	}
	for _, v := range columns {
		k.Op("VPSRLVD", k.Lookup(name, 4, eachFour(shifts...)), v, v)
	}
	for _, v := range columns {
		k.Op("VPAND", k.Bytes(0x0f), v, v)
	}
	k.Free(bytes)
	return columns
}

// addQuarterBits rotates the 32 bytes at row by left bits, a number for each block, and adds the bits of mask to
// columns.
func (k *Kernel) addQuarterBits(name string, left []int, mask int, row Mem, columns [2]Vec) {
	rotation := k.Lookup(name, 4, eachFour(left...))
	for i, v := range columns {
		bits := k.Vec()
		k.Op("VBROADCASTI32X4", row.Plus(16*i), bits)
		k.Op("VPROLVD", rotation, bits, bits)
		k.Op("VPTERNLOGD", 0xf8, k.Bytes(mask), bits, v) // v |= bits & mask
		k.Free(bits)
	}
}

// transposeScales converts integers, a quarter for each row and a lane for each block, to float32, transposes them to a
// quarter for each block, and multiplies them by d. The last two go to kept.
func (k *Kernel) transposeScales(numbers [4]Vec, d [2]Vec, kept Mem) {
	order := k.Lookup("transpose", 4, []int{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15})
	for i, v := range numbers {
		k.Op("VPERMD", v, order, v)
		k.Op("VCVTDQ2PS", v, v)
		k.Op("VMULPS", d[i%2], v, v)
		if i >= 2 {
			k.Op("VMOVUPS", v, kept.Plus(64*(i-2)))
			k.Free(v)
		}
	}
}

func (k *Kernel) loadKeptScales(kept Mem) (scales [2]Vec) {
	for i := range scales {
		scales[i] = k.Vec()
		k.Op("VMOVUPS", kept.Plus(64*i), scales[i])
	}
	return scales
}
