package main

// multiplySignedHalves multiplies a block of 32 columns of signed weights with all tokens, for AVX2, half by half: so
// there are registers for both the weights and their magnitudes. The products of the first half are kept in memory for
// those of the second, from waiting on, which is at a multiple of 32; saved has room for a pointer, and BX is free at
// the end.
func (k *Kernel) multiplySignedHalves(waiting, scale Mem, half func(i int) []Vec) {
	var w Weights
	k.Op("MOVQ", R12, k.Slot("sums"))
	k.setSignedHalf(&w, half(0))
	k.Op("LEAQ", waiting, R12)
	k.EachToken(2, 1, func(tokens []Token) {
		for t, sums := range k.multiplyInOrder(tokens, []Weights{w}, [][]int{{0}, {1}, {2}, {3}}) {
			k.Op("VMOVDQU", sums[0][0].total, tokens[t].Sums[0])
			k.Free(sums[0][0].total)
		}
	})
	k.freeSigned(w)
	k.setSignedHalf(&w, half(1))
	w.Scales[0] = scale
	k.Op("MOVQ", k.Slot("sums"), R12)
	k.Op("LEAQ", waiting, BX)
	k.EachToken(2, 1, func(tokens []Token) {
		all := k.multiplyInOrder(tokens, []Weights{w}, [][]int{{4}, {5}, {6}, {7}})
		for t, sums := range all {
			k.Op("VPADDD", At(BX).Plus(32*t), sums[0][0].total, sums[0][0].total)
		}
		if len(tokens) == 2 {
			k.Op("ADDQ", 64, BX)
		}
		for t, sums := range all {
			k.addTokenProducts(tokens[t], []Weights{w}, sums)
		}
	})
	k.freeSigned(w)
}

// setSignedHalf sets v to the parts of half a block, with their magnitudes.
func (k *Kernel) setSignedHalf(w *Weights, v []Vec) {
	k.magnitudes = map[Vec]Vec{}
	for i, part := range v {
		w.Parts[i], w.Parts[4+i] = part, part
		k.magnitudes[part] = k.Vec()
		k.Op("VPABSB", part, k.magnitudes[part])
	}
}

func (k *Kernel) freeSigned(w Weights) {
	for _, part := range w.Parts[:4] {
		k.Free(part, k.magnitudes[part])
	}
	k.magnitudes = nil
}
