package main

// What the formats share to unpack a row in its order, for gemv.

// fourScales is the half-precision numbers of four blocks at SI, size bytes apart, in float32. They are collected in
// integer registers, which have nothing else to do.
func (k *Kernel) fourScales(size int) (scales [2]Vec) {
	k.Op("MOVWQZX", At(SI), AX)
	for block := 1; block < 4; block++ {
		k.Op("MOVWQZX", At(SI).Plus(block*size), BX)
		k.Op("SHLQ", 16*block, BX)
		k.Op("ORQ", BX, AX)
	}
	v := k.Vec()
	k.Op("VMOVQ", AX, v.X())
	k.Op("VCVTPH2PS", v.X(), v.X())
	scales[0] = v
	return scales
}

// bothNibbles is the low nibbles of 16 bytes and, in the upper half of the register, their high ones.
func (k *Kernel) bothNibbles(bytes Mem) Vec {
	w := k.Vec()
	k.Op("VBROADCASTI128", bytes, w)
	k.Op("VPSRLVD", k.Lookup("nibbleShifts", 4, []int{0, 0, 0, 0, 4, 4, 4, 4}), w, w)
	k.Op("VPAND", k.Bytes(0x0f), w, w)
	return w
}

// timesHalf makes float32 of the integers in v, times a number in half precision.
func (k *Kernel) timesHalf(v Vec, number Mem) {
	d := k.Vec()
	k.Op("VCVTDQ2PS", v, v)
	k.Op("VPBROADCASTW", number, d.X())
	k.Op("VCVTPH2PS", d.X(), d)
	k.Op("VMULPS", d, v, v)
	k.Free(d)
}
