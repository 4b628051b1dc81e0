package main

// writePack unpacks a panel of rows and stores it: weights in groups of four columns, scales and minima by blocks of 32
// columns. Weights of formats with an offset are stored as signed bytes, because a panel may be multiplied with another
// instruction set than it is packed with.
//
// SI, BX, DI, R8, R10, R11 rows; AX weights, DX scales, CX minima of the panel; R9 columns left; R12 what is
// prefetched, R14 its end; R13 for anything, and R11, or R15 in panels of 16 rows.
func writePack(k *Kernel) {
	b, width := k.Format.Block(), k.Set.Width()
	k.ToArgs(AX)
	k.Load(AX, "src", SI, "stride", DI, "ds", DX, "mins", CX, "columns", R9)
	k.Load(AX, "prefetch", R12, "prefetchBytes", R14, "w", AX)
	k.Op("ADDQ", R12, R14)
	k.RowPointers()
	k.withSign = true

	block := k.Here("block")
	k.Format.StoreScales(k, panelRows, ScalePlaces{At(DX), At(CX), 2 * width})
	k.Format.Unpack(k, panelRows, func(block, part int, w Vec) {
		k.Op("VMOVDQU", w, At(AX).Plus((8*block+part)*width))
		k.Free(w)
	})
	k.Op("ADDQ", b.Bytes, SI)
	k.Op("ADDQ", b.Bytes, BX)
	k.Op("ADDQ", b.Columns/4*width, AX)
	k.Op("ADDQ", b.Columns/16*width, DX)
	k.Op("ADDQ", b.Columns/32*width, CX)
	k.PrefetchNext(R12, R14, (b.Bytes*k.Set.Outputs()/2+prefetched-1)/prefetched)
	k.Op("SUBQ", b.Columns, R9)
	k.Op("JNZ", block)
	k.Return()
}
