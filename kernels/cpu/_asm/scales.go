package main

// FourScales is the half-precision numbers of four blocks at SI, size bytes apart, in float32. They are collected in
// integer registers, which have nothing else to do.
func (k *Kernel) FourScales(size int) Vec {
	k.Op("MOVWQZX", At(SI), AX)
	for block := 1; block < 4; block++ {
		k.Op("MOVWQZX", At(SI).Plus(block*size), BX)
		k.Op("SHLQ", 16*block, BX)
		k.Op("ORQ", BX, AX)
	}
	v := k.Vec()
	k.Op("VMOVQ", AX, v.X())
	k.Op("VCVTPH2PS", v.X(), v.X())
	return v
}

// ScalesK is the eight scales and the eight minima of the Q4_K or Q5_K block at SI, of which q4_K has the picture.
func (k *Kernel) ScalesK() (scale, minimum Vec) {
	k.Op("MOVL", At(SI).Plus(4), AX)
	k.Op("MOVL", At(SI).Plus(8), BX)
	k.Op("MOVL", At(SI).Plus(12), R10)
	k.Op("MOVL", R10, R15)
	k.Op("SHRL", 4, R10)
	numbers := [2]Vec{}
	for i, of := range []struct{ first, lower Reg }{{AX, R15}, {BX, R10}} {
		k.Op("ANDL", eachByte(0x0f), of.lower) // the last four, to the upper half
		k.Op("MOVL", of.first, R8)
		k.Op("SHRL", 2, R8)
		k.Op("ANDL", eachByte(0x30), R8)
		k.Op("ORL", of.lower, R8)
		k.Op("SHLQ", 32, R8)
		k.Op("ANDL", eachByte(0x3f), of.first)
		k.Op("ORQ", R8, of.first)
		numbers[i] = k.Vec()
		d := k.Vec()
		k.Op("VMOVQ", of.first, numbers[i].X())
		k.Op("VPMOVZXBD", numbers[i].X(), numbers[i])
		k.Op("VCVTDQ2PS", numbers[i], numbers[i])
		k.Op("VPBROADCASTW", At(SI).Plus(2*i), d.X())
		k.Op("VCVTPH2PS", d.X(), d)
		k.Op("VMULPS", d, numbers[i], numbers[i])
		k.Free(d)
	}
	return numbers[0], numbers[1]
}
