package main

// gemv multiplies rows of weights with one token: elements 16i to 16i+7 are summed in one register, 16i+8 to 16i+15 in
// another; a last eight in the first; what is left is added to the horizontal sum.
//
// DI dst, R8 rows left, SI w, R9 from row to row, DX x, R10 columns; AX place in w, CX in x, R11 columns left.
func (t floatType) gemv(k *Kernel) {
	k.ToArgs(AX)
	k.Load(AX, "dst", DI, "rows", R8, "w", SI, "rowBytes", R9, "x", DX, "n", R10)
	sums, w := k.Vecs(2), k.Vecs(2)
	// multiplyAdd goes on by up to two registers of columns.
	multiplyAdd := func(from, registers int) {
		for i := range registers {
			t.load(k, At(AX).Plus((from+i)*8*t.bytes), w[i])
		}
		for i := range registers {
			k.Op("VFMADD231PS", At(CX).Plus((from+i)*32), w[i], sums[i])
		}
	}
	advance := func(columns int) {
		k.Op("ADDQ", columns*t.bytes, AX)
		k.Op("ADDQ", columns*4, CX)
	}

	row := k.Here("row")
	k.Op("MOVQ", SI, AX)
	k.Op("MOVQ", DX, CX)
	k.Op("MOVQ", R10, R11)
	for _, sum := range sums {
		k.Op("VXORPS", sum, sum, sum)
	}
	sixteen, eight, sum, store := k.Label("sixteen"), k.Label("eight"), k.Label("sum"), k.Label("store")
	k.Op("SUBQ", 32, R11)
	k.Op("JLT", sixteen)
	wide := k.Here("wide")
	for line := 0; line < 32*t.bytes; line += 64 {
		k.PrefetchLine(At(AX).Plus(4096 + line))
	}
	multiplyAdd(0, 2)
	multiplyAdd(2, 2)
	advance(32)
	k.Op("SUBQ", 32, R11)
	k.Op("JGE", wide)

	k.Place(sixteen)
	k.Op("ADDQ", 16, R11)
	k.Op("JLT", eight)
	multiplyAdd(0, 2)
	advance(16)
	k.Op("SUBQ", 16, R11)
	k.Place(eight)
	k.Op("ADDQ", 8, R11)
	k.Op("JLT", sum)
	multiplyAdd(0, 1)
	advance(8)
	k.Op("SUBQ", 8, R11)

	k.Place(sum)
	k.Op("VADDPS", sums[1], sums[0], sums[0])
	total := k.HorizontalSums(sums[:1])
	k.Op("ADDQ", 8, R11)
	k.Op("JZ", store)
	one := k.Here("one")
	t.loadOne(k, At(AX), w[0].X())
	k.Op("VFMADD231SS", At(CX), w[0].X(), total.X())
	advance(1)
	k.Op("DECQ", R11)
	k.Op("JNZ", one)
	k.Place(store)
	k.Op("VMOVSS", total.X(), At(DI))
	k.Op("ADDQ", 4, DI)
	k.Op("ADDQ", R9, SI)
	k.Op("DECQ", R8)
	k.Op("JNZ", row)
	k.Return()
}
