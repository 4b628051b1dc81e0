package main

// Row is a block of one row for gemv, at SI plus an offset in bytes. Each register of 32 bytes holds its 32 columns.
type Row int

func (r Row) addressAt(offset int) Mem { return At(SI).Plus(int(r) + offset) }

// Halves implements Source.
func (r Row) Halves() int { return 1 }

// Load implements Source.
func (r Row) Load(k *Kernel, offset, _ int) []Vec {
	v := k.Vec()
	k.Op("VMOVDQU", r.addressAt(offset), v)
	return []Vec{v}
}

// Nibbles implements Source: the high nibbles are the upper half of the register.
func (r Row) Nibbles(k *Kernel, offset int, visit func(part int, w Vec)) {
	w := k.Vec()
	k.Op("VBROADCASTI128", r.addressAt(offset), w)
	k.Op("VPSRLVD", k.Lookup("nibbleShifts", 4, []int{0, 0, 0, 0, 4, 4, 4, 4}), w, w)
	k.Op("VPAND", k.Bytes(0x0f), w, w)
	visit(0, w)
}

// FifthBits implements Source: a byte is tested for its bit by setting all its other bits and comparing it with all
// ones.
func (r Row) FifthBits(k *Kernel, offset int, w [8]Vec) {
	bits := k.Vec()
	var each []int
	for byte := range 4 {
		each = append(each, repeatValues(8, byte)...)
	}
	k.Op("VPBROADCASTD", r.addressAt(offset), bits)
	k.Op("VPSHUFB", k.Lookup("eachEightTimes", 1, each), bits, bits)
	others := repeatValues(4, 0xfe, 0xfd, 0xfb, 0xf7, 0xef, 0xdf, 0xbf, 0x7f)
	k.Op("VPOR", k.Lookup("allBitsButOne", 1, others), bits, bits)
	k.Op("VPCMPEQB", k.Bytes(0xff), bits, bits)
	k.Op("VPAND", k.Bytes(0x10), bits, bits)
	k.Op("VPOR", bits, w[0], w[0])
	k.Free(bits)
}

// multiplyByHalf converts the integers in v to float32 and multiplies them by a number in half precision.
func (k *Kernel) multiplyByHalf(v Vec, number Mem) {
	d := k.Vec()
	k.Op("VCVTDQ2PS", v, v)
	k.Op("VPBROADCASTW", number, d.X())
	k.Op("VCVTPH2PS", d.X(), d)
	k.Op("VMULPS", d, v, v)
	k.Free(d)
}
