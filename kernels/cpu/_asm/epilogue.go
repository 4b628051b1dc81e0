package main

// writeEpilogue computes results from a tile's accumulators and clears these.
//
// AX whether results are added to what is there, R8 the number of accumulators; the others as in sumTokens.
func writeEpilogue(k *Kernel) {
	k.ToArgs(AX)
	k.Load(AX, "dst", BX, "stride", DX, "acc", R12, "accumulators", R8, "tokens", R11)
	k.Op("MOVBLZX", k.Field(AX, "add"), AX)
	zero := k.Vec()
	k.Op("VXORPS", zero.X(), zero.X(), zero.X())
	clear := func(first Reg) {
		for i := range 4 {
			k.Op("VMOVUPS", zero, accumulatorAddress(first, i))
		}
	}
	k.sumTokens(func(v []Vec) {
		four := k.Label("four")
		clear(R12)
		k.Op("CMPQ", R8, 4)
		k.Op("JEQ", four)
		k.addSecondFour(v)
		clear(R14)
		k.Place(four)
	}, func(sum Vec) {
		set := k.Label("set")
		k.Op("TESTL", AX, AX)
		k.Op("JZ", set)
		k.Op("VADDPS", At(BX), sum, sum)
		k.Place(set)
	})
	k.Return()
}

// sumTokens puts the sum of the accumulators of each of R11 tokens, which begin at R12, at BX, and the next token's DX
// numbers further on. more adds the fifth to the eighth of them to the first four, finish takes the sum before it is
// put. R14 is the fifth accumulator, R13 bytes of one, CX of three.
func (k *Kernel) sumTokens(more func(v []Vec), finish func(sum Vec)) {
	width := k.Set.Width()
	k.Op("SHLQ", 2, DX)
	k.Op("MOVQ", R11, R13)
	k.Op("SHLQ", log2(width), R13)
	k.Op("LEAQ", At(R13).Times(R13, 2), CX)
	k.Op("LEAQ", At(R12).Times(R13, 4), R14)
	token := k.Here("token")
	v := k.Vecs(4)
	for i := range v {
		k.Op("VMOVUPS", accumulatorAddress(R12, i), v[i])
	}
	more(v)
	k.addFour(v)
	finish(v[0])
	k.Op("VMOVUPS", v[0], At(BX))
	k.Free(v[0])
	k.Op("ADDQ", width, R12)
	k.Op("ADDQ", width, R14)
	k.Op("ADDQ", DX, BX)
	k.Op("DECQ", R11)
	k.Op("JNZ", token)
}

func (k *Kernel) addSecondFour(v []Vec) {
	for i := range v {
		k.Op("VADDPS", accumulatorAddress(R14, i), v[i], v[i])
	}
}

// addFour sets v[0] to (v[0]+v[2]) + (v[1]+v[3]) and frees the others.
func (k *Kernel) addFour(v []Vec) {
	k.Op("VADDPS", v[2], v[0], v[0])
	k.Op("VADDPS", v[3], v[1], v[1])
	k.Op("VADDPS", v[1], v[0], v[0])
	k.Free(v[1:]...)
}

func accumulatorAddress(first Reg, i int) Mem {
	return [4]Mem{At(first), At(first).Times(R13, 1), At(first).Times(R13, 2), At(first).Times(CX, 1)}[i]
}
