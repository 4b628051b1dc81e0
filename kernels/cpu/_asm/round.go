package main

// writeRound rounds activations to 8 bits in blocks of 32: Q, D, S and H of Acts, and P and tiled if they are set.
//
// SI x, R8 blocks of it left; DI q, DX d, CX s, BX h; R12 p, R9 the next four blocks in it, R10 place of the block
// there; R11 tiled.
func writeRound(k *Kernel) {
	k.ToArgs(AX)
	k.Load(AX, "q", DI, "d", DX, "n", R8, "s", CX, "h", BX, "x", SI, "tiled", R11)
	k.Op("SHRQ", 5, R8)
	k.startInterleaving(AX)
	block, zero, fill := k.Here("block"), k.Label("zero"), k.Label("fill")
	v := k.Vecs(4)
	for i := range v {
		k.Op("VMOVUPS", At(SI).Plus(32*i), v[i])
	}
	largest := k.largestMagnitude(v)
	k.Op("VMOVD", largest, AX)
	k.Op("CMPL", AX, 0x03aa2425) // 1e-36
	k.Op("JLT", zero)
	k.Op("CMPL", AX, 0x7f800000) // infinity or NaN
	k.Op("MOVL", 0x7fc00000, AX)
	k.Op("JGE", fill)
	k.roundBlock(v, largest)
	store := k.Here("store")
	k.Op("VMOVDQU", v[0], At(DI))
	k.storeInterleaved(v[0])
	k.storeTiled()
	k.Op("ADDQ", 128, SI)
	k.Op("ADDQ", 32, DI)
	for _, r := range []Reg{DX, CX, BX} {
		k.Op("ADDQ", 4, r)
	}
	k.Op("DECQ", R8)
	k.Op("JNZ", block)
	k.Return()

	k.Place(zero)
	k.Op("XORL", AX, AX)
	k.Place(fill)
	k.Op("MOVL", AX, At(DX))
	k.Op("MOVL", AX, At(CX))
	k.Op("MOVL", 0, At(BX))
	k.Op("VPXOR", v[0], v[0], v[0])
	k.Op("JMP", store)
}

// startInterleaving sets R9 and R10 to the place of the first block in P.
func (k *Kernel) startInterleaving(args Reg) {
	k.Load(args, "p", R12, "from", R10)
	k.Op("MOVQ", R10, R9)
	k.Op("SHRQ", 2, R9)
	k.Op("SHLQ", 7, R9)
	k.Op("ADDQ", R12, R9)
	k.Op("ANDQ", 3, R10)
	k.Op("SHLQ", 4, R10)
}

// storeInterleaved stores a block in P: the first sixteen of each of four blocks lie there, then the last sixteen of
// each.
func (k *Kernel) storeInterleaved(q Vec) {
	next := k.Label("next")
	k.Op("TESTQ", R12, R12)
	k.Op("JZ", next)
	k.Op("VMOVDQU", q.X(), At(R9).Times(R10, 1))
	k.Op("VEXTRACTI128", 1, q, At(R9).Plus(64).Times(R10, 1))
	k.Op("ADDQ", 16, R10)
	k.Op("TESTQ", 63, R10)
	k.Op("JNZ", next)
	k.Op("ADDQ", 128, R9)
	k.Op("XORL", R10, R10)
	k.Place(next)
}

// storeTiled also stores d and s in tiled: those of a tile's tokens, of the same block, lie there side by side.
func (k *Kernel) storeTiled() {
	next := k.Label("next")
	k.Op("TESTQ", R11, R11)
	k.Op("JZ", next)
	for i, from := range []Reg{DX, CX} {
		k.Op("MOVL", At(from), AX)
		k.Op("MOVL", AX, At(R11).Plus(4*maxTokens*i))
	}
	k.Op("ADDQ", 2*4*maxTokens, R11)
	k.Place(next)
}

// largestMagnitude returns the largest magnitude of 32 numbers: magnitudes are ordered like integers, with infinity and
// NaN above all.
func (k *Kernel) largestMagnitude(v []Vec) Vec {
	all := k.Vecs(4)
	for i, m := range all {
		k.Op("VPAND", k.Broadcast(0x7fffffff), v[i], m)
	}
	k.Op("VPMAXSD", all[1], all[0], all[0])
	k.Op("VPMAXSD", all[3], all[2], all[2])
	k.Op("VPMAXSD", all[2], all[0], all[0])
	m, t := all[0].X(), all[1].X()
	k.Op("VEXTRACTI128", 1, all[0], t)
	k.Op("VPMAXSD", t, m, m)
	for _, order := range []int{0x4e, 0xb1} {
		k.Op("VPSHUFD", order, m, t)
		k.Op("VPMAXSD", t, m, m)
	}
	k.Free(all[1:]...)
	return m
}

// roundBlock sets d to largest/127, v[0] to q, which is v/d, h to the sums of both halves of q, s to d times that of
// both.
func (k *Kernel) roundBlock(v []Vec, largest Vec) {
	d, inverse, most := k.Vec(), k.Vec(), k.Broadcast(0x42fe0000).X() // 127
	k.Op("VDIVSS", most, largest, d.X())
	k.Op("VMOVSS", d.X(), At(DX))
	k.Op("VDIVSS", largest, most, inverse.X())
	k.Op("VBROADCASTSS", inverse.X(), inverse)
	for _, v := range v {
		k.Op("VMULPS", inverse, v, v)
		k.Op("VCVTPS2DQ", v, v)
	}
	sum, t := largest.Y(), inverse
	k.Op("VPADDD", v[1], v[0], sum)
	k.Op("VPADDD", v[3], v[2], t)
	k.Op("VPHADDD", t, sum, sum)
	k.Op("VPHADDD", sum, sum, sum)
	k.Op("VEXTRACTI128", 1, sum, t.X())
	k.Op("VPADDD", t.X(), sum.X(), sum.X())
	k.Op("VPACKSSDW", sum.X(), sum.X(), t.X())
	k.Op("VMOVD", t.X(), At(BX))
	k.Op("VPHADDD", sum.X(), sum.X(), sum.X())
	k.Op("VCVTDQ2PS", sum.X(), sum.X())
	k.Op("VMULSS", d.X(), sum.X(), sum.X())
	k.Op("VMOVSS", sum.X(), At(CX))
	k.Op("VPACKSSDW", v[1], v[0], v[0])
	k.Op("VPACKSSDW", v[3], v[2], v[2])
	k.Op("VPACKSSWB", v[2], v[0], v[0])
	// VPACK works on halves of a register: this puts its groups of four bytes back into order.
	order := k.Lookup("packed", 4, []int{0, 4, 1, 5, 2, 6, 3, 7})
	k.Op("VPERMD", v[0], order, v[0])
	k.Free(append(v, sum, t, d)...)
}
