package main

// maxTokens is the most tokens that a small GEMM takes.
const maxTokens = 16

// gemm8 multiplies weights, as they are stored, with some tokens: each block is unpacked once, in registers, and
// multiplied with every token; sums wait on the stack.
//
// SI, BX, DI, R8 rows; AX the stack from where it is aligned; the others as in EachToken.
func gemm8(k *Kernel) {
	b, width := k.Format.Block(), k.Set.Width()
	args, dst, weightsEnd, sumsEnd := k.Local(8), k.Local(8), k.Local(8), k.Local(8)
	left, count, prefetch := k.Local(8), k.Local(8), k.Local(8)
	scales, minima := k.Aligned(AX, width*b.Columns/32), k.Aligned(AX, width*b.Columns/32)
	temps := BlockTemps{Kept: k.Aligned(AX, 8*width), Bits: k.Aligned(AX, 8*width), Place: k.Local(8)}
	weights := Weights{Scale: scales, Minimum: minima}
	if b.Columns > 32 {
		weights.Scale, weights.Minimum = k.Aligned(AX, width), k.Aligned(AX, width) // of one block
	}
	sums := k.Aligned(AX, width*b.Lanes()*maxTokens)

	k.ToArgs(R14)
	k.AlignStack(AX)
	k.Op("MOVQ", R14, args)
	k.Load(R14, "dst", R11, "tokens", R12, "w", SI, "wBytes", R13, "n", R9, k.sumsField(), R15)
	k.Op("MOVQ", R11, dst)
	k.Op("MOVQ", R12, count)
	k.Op("ADDQ", SI, R13)
	k.Op("MOVQ", R13, weightsEnd)
	k.Op("IMUL3Q", width*b.Lanes(), R12, R12)
	k.Op("LEAQ", sums.Times(R12, 1), R12)
	k.Op("MOVQ", R12, sumsEnd)
	k.RowBytes(R9, DI)
	k.RowPointers()
	k.Op("LEAQ", At(SI).Plus(8192).Times(DI, 8), R11)
	k.Op("MOVQ", R11, prefetch)
	k.Op("MOVQ", R9, R10)
	k.Op("SHRQ", 3, R10)
	k.Op("SUBQ", k.Field(R14, "d"), R15)
	k.Op("LEAQ", At(R15).Times(R10, 1), BP)
	k.Set.Constants(k)
	k.Format.Constants(k)
	k.prefetching = &prefetcher{at: R14, kept: prefetch.String()}

	outputs := k.Here("outputs")
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.clearSums(sums, sumsEnd)
	k.Op("MOVQ", args, R14)
	k.Load(R14, "q", DX, "d", CX)
	k.Op("MOVQ", R9, R13)
	k.Op("SHRQ", log2(b.Columns), R13)
	k.Op("MOVQ", R13, left)
	block := k.Here("block")
	k.Format.StoreScales(k, panelRows, scales, width, minima, width)
	k.Op("MOVQ", 0, temps.Place)
	k.Format.UnpackBlocks(k, panelRows, temps, func(w [8]Vec) {
		k.EndPrefetch()
		weights.Parts = w
		if b.Columns > 32 {
			k.takeScales(temps.Place, scales, weights.Scale.(Mem))
			k.takeScales(temps.Place, minima, weights.Minimum.(Mem))
			k.Op("ADDQ", width, temps.Place)
		}
		k.EachToken(count, 2, 1, func(t []Token) { k.MultiplyTokens(t, []Weights{weights}) })
		k.Op("ADDQ", 32, DX)
		k.Op("ADDQ", 4, CX)
		k.NextLane("LEAQ", sums, sumsEnd)
	})
	k.Op("ADDQ", b.Bytes, SI)
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.Op("DECQ", left)
	k.Op("JNZ", block)

	k.Op("LEAQ", At(BX).Times(R8, 2), SI)
	k.putSums(args, dst, count, sums)
	k.Op("CMPQ", SI, weightsEnd)
	k.Op("JLT", outputs)
	k.Return()
}

// takeScales copies a register's width, the scales of the block at place, to where its products take them from.
func (k *Kernel) takeScales(place, scales, to Mem) {
	t := k.Vec()
	k.Op("MOVQ", place, R13)
	k.Op("VMOVUPS", scales.Times(R13, 1), t)
	k.Op("VMOVUPS", t, to)
	k.Free(t)
}

// clearSums clears the sums up to end and leaves R12 at their beginning.
func (k *Kernel) clearSums(sums, end Mem) {
	zero := k.Vec()
	k.Op("VXORPS", zero, zero, zero)
	k.Op("LEAQ", sums, R12)
	clear := k.Here("clear")
	for i := range 4 {
		k.Op("VMOVUPS", zero, At(R12).Plus(k.Set.Width()*i))
	}
	k.Op("SUBQ", -16*k.Set.Outputs(), R12)
	k.Op("CMPQ", R12, end)
	k.Op("JLT", clear)
	k.Op("LEAQ", sums, R12)
	k.Free(zero)
}

// putSums adds the lanes of each token and puts them at dst, which moves on to the next outputs.
func (k *Kernel) putSums(args, dst, count, sums Mem) {
	width := k.Set.Width()
	k.Op("LEAQ", sums, R12)
	k.Op("MOVQ", args, R14)
	k.Load(R14, "stride", DX)
	k.Op("SHLQ", 2, DX)
	k.Op("MOVQ", dst, BX)
	k.Op("ADDQ", width, dst)
	k.Op("MOVQ", count, R11)
	k.Op("MOVQ", R11, R13)
	k.Op("SHLQ", log2(width), R13)           // bytes of a lane
	k.Op("LEAQ", At(R13).Times(R13, 2), CX)  // of three
	k.Op("LEAQ", At(R12).Times(R13, 4), R14) // the fifth
	put := k.Here("put")
	v := k.Vecs(4)
	for lane := range 4 {
		k.Op("VMOVUPS", laneAt(R12, lane), v[lane])
	}
	for lane := 4; lane < k.Format.Block().Lanes(); lane++ {
		k.Op("VADDPS", laneAt(R14, lane-4), v[lane-4], v[lane-4])
	}
	k.Op("VADDPS", v[2], v[0], v[0])
	k.Op("VADDPS", v[3], v[1], v[1])
	k.Op("VADDPS", v[1], v[0], v[0])
	k.Op("VMOVUPS", v[0], At(BX))
	k.Free(v...)
	k.Op("ADDQ", width, R12)
	k.Op("ADDQ", width, R14)
	k.Op("ADDQ", DX, BX)
	k.Op("DECQ", R11)
	k.Op("JNZ", put)
}

// laneAt is the sum of lane 0 to 3 from base on, where a lane takes R13 bytes and three take CX.
func laneAt(base Reg, lane int) Mem {
	return [4]Mem{At(base), At(base).Times(R13, 1), At(base).Times(R13, 2), At(base).Times(CX, 1)}[lane]
}
