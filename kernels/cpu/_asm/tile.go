package main

// tile multiplies one or two packed panels with up to 16 tokens and adds the products to sums in memory, of which each
// lane, token and output has one.
//
// SI weights, AX scales, BX minima of the panel, DI sums; the others as in EachToken.
func tile(k *Kernel, panels, atATime int) {
	width := k.Set.Width()
	end, prefetch, prefetchEnd := k.Local(8), k.Local(8), k.Local(8)
	left, count := k.Local(8), k.Local(8)
	second := [3]Mem{k.Local(8), k.Local(8), k.Local(8)} // from a panel to the second, of weights, scales and minima

	k.ToArgs(AX)
	k.Load(AX, "acc", DI, "accBytes", R12, "w", SI, "q", DX, "d", CX, "n", R9, "tokens", R11)
	k.Op("MOVQ", R11, count)
	k.Op("MOVQ", R9, R10)
	k.Op("SHRQ", 3, R10)
	k.Load(AX, "prefetch", R13, "prefetchBytes", R14)
	k.Op("MOVQ", R13, prefetch)
	k.Op("ADDQ", R13, R14)
	k.Op("MOVQ", R14, prefetchEnd)
	k.Load(AX, "wBytes", R13)
	if panels == 2 {
		k.Op("SHRQ", 1, R13)
		k.Op("SHRQ", 1, R12)
		k.Op("MOVQ", R12, R8)
		k.Op("MOVQ", R13, second[0])
		k.Load(AX, "dsBytes", R14)
		k.Op("SHRQ", 1, R14)
		k.Op("MOVQ", R14, second[1])
		k.Load(AX, "minsBytes", R14)
		k.Op("SHRQ", 1, R14)
		k.Op("MOVQ", R14, second[2])
	}
	k.Op("MOVQ", R13, left)
	k.Op("ADDQ", DI, R12)
	k.Op("MOVQ", R12, end)
	k.Op("MOVQ", DI, R12)
	k.Load(AX, k.sumsField(), R15, "mins", BX, "ds", AX)
	k.Op("SUBQ", CX, R15)
	k.Op("LEAQ", At(R15).Times(R10, 1), BP)
	k.Set.Constants(k)
	var unsigned Vec
	if k.Offset != 0 {
		unsigned = k.Set.Broadcast(k, eachByte(k.Offset))
	}

	block := k.Here("block")
	var weights []Weights
	for p := range panels {
		weights = append(weights, k.loadPanel(p, second, unsigned))
	}
	if panels == 1 {
		k.Op("MOVQ", prefetch, R13)
		k.PrefetchNext(R13, prefetchEnd, 1)
		k.Op("MOVQ", R13, prefetch)
	}
	k.EachToken(count, atATime, panels, func(t []Token) { k.MultiplyTokens(t, weights) })
	k.NextLane("MOVQ", DI, end)
	k.Op("ADDQ", 8*width, SI)
	k.Op("ADDQ", 2*width, AX)
	k.Op("ADDQ", width, BX)
	k.Op("ADDQ", 32, DX)
	k.Op("ADDQ", 4, CX)
	k.Op("SUBQ", 8*width, left)
	k.Op("JNZ", block)
	k.Return()
}

// tileOf is tile as a shape.
func tileOf(panels, atATime int) func(k *Kernel) {
	return func(k *Kernel) { tile(k, panels, atATime) }
}

// loadPanel loads 32 columns of the first panel or the second, by the places of which R13 leads there.
func (k *Kernel) loadPanel(panel int, second [3]Mem, unsigned Vec) (w Weights) {
	at := func(base Reg, distance Mem) Mem {
		if panel == 0 {
			return At(base)
		}
		k.Op("MOVQ", distance, R13)
		return At(base).Times(R13, 1)
	}
	from := at(SI, second[0])
	for part := range w.Parts {
		w.Parts[part] = k.Vec()
		if m := from.Plus(k.Set.Width() * part); k.Offset != 0 {
			k.Op("VPADDB", m, unsigned, w.Parts[part])
		} else {
			k.Op("VMOVDQU", m, w.Parts[part])
		}
	}
	w.Scale = k.Set.Operand(k, at(AX, second[1]))
	if k.Format.Block().Minima {
		w.Minimum = k.Set.Operand(k, at(BX, second[2]))
	}
	return w
}

// NextLane leaves R12 where the sums of the next block are: those of the first lane, which op sets it to, after those
// of the last.
func (k *Kernel) NextLane(op string, first any, end Mem) {
	lane := k.Label("lane")
	k.Op("CMPQ", R12, end)
	k.Op("JNE", lane)
	k.Op(op, first, R12)
	k.Place(lane)
}

// sumsField is the field with sums of activations that the kernel needs.
func (k *Kernel) sumsField() string {
	if k.Format.Block().Minima {
		return "s"
	}
	return "h"
}
