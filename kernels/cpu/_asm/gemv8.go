package main

// gemv8 multiplies weights, as they are stored, with one token, a panel of outputs at a time: weights are multiplied as
// soon as they are unpacked. It is for formats with blocks of 32 columns and takes four of these at a time, one to a
// lane.
//
// SI, BX, DI, R8 rows; R12 dst, R10 end of the weights, R14 what is prefetched; DX q, CX d, AX h; R15 place in d and
// h in bytes, q is eight times as far; R9 its end.
func gemv8(k *Kernel) {
	const lanes = 4
	b := k.Format.Block()
	offsets := k.Local(4 * lanes)
	k.ToArgs(AX)
	k.Load(AX, "dst", R12, "w", SI, "wBytes", R10, "n", R9, "q", DX, "d", CX, "h", AX)
	k.Op("ADDQ", SI, R10)
	k.RowBytes(R9, DI)
	k.RowPointers()
	k.Op("LEAQ", At(SI).Plus(8192).Times(DI, 8), R14)
	k.Op("SHRQ", 3, R9)
	k.Set.Constants(k)
	k.Format.Constants(k)
	k.prefetching = &prefetcher{at: R14}
	sums := k.Vecs(lanes)

	outputs := k.Here("outputs")
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	for _, sum := range sums {
		k.Op("VXORPS", sum, sum, sum)
	}
	k.Op("XORL", R15, R15)
	blocks := k.Here("blocks")
	k.Set.Offsets(k, At(AX).Times(R15, 1), offsets)
	for lane, acc := range sums {
		rows := panelRows.Plus(lane * b.Bytes)
		scale := k.Set.Scales(k, rows, 0)
		halves := append(k.Set.Start(k, Mem{}, 1), k.Set.Start(k, Mem{}, 1)...)
		k.Format.Unpack(k, rows, func(_, part int, w Vec) {
			q := At(DX).Times(R15, 8).Plus(32*lane + 4*part)
			k.Set.MultiplyAdd(k, halves[part/4:part/4+1], []Vec{w}, q)
			k.Free(w)
		})
		k.Loaded(0)
		total := k.Set.Finish(k, Mem{}, halves...)
		k.Set.AddOffset(k, offsets.Plus(4*lane), total)
		k.Set.ScaleAdd(k, total, scale, At(CX).Times(R15, 1).Plus(4*lane), acc)
		k.Free(total, scale)
	}
	k.EndPrefetch()
	k.Op("ADDQ", lanes*b.Bytes, SI)
	k.Op("ADDQ", lanes*b.Bytes, BX)
	k.Op("ADDQ", 4*lanes, R15)
	k.Op("CMPQ", R15, R9)
	k.Op("JLT", blocks)

	k.Op("VADDPS", sums[2], sums[0], sums[0])
	k.Op("VADDPS", sums[3], sums[1], sums[1])
	k.Op("VADDPS", sums[1], sums[0], sums[0])
	k.Op("VMOVUPS", sums[0], At(R12))
	k.Op("ADDQ", k.Set.Width(), R12)
	k.Op("LEAQ", At(BX).Times(R8, 2), SI)
	k.Op("CMPQ", SI, R10)
	k.Op("JLT", outputs)
	k.Return()
}
