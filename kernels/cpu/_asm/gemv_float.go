package main

// gemvFloat multiplies rows of weights with one token: elements 16i to 16i+7 are summed in one register, 16i+8 to
// 16i+15 in another; a last eight in the first; what is left is added to the horizontal sum.
//
// DI dst, R8 rows left, SI w, R9 from row to row, DX x, R10 columns; AX place in w, CX in x, R11 columns left.
type gemvFloat struct {
	*Kernel
	floatType
	sums, w []Vec
}

func (t floatType) writeGEMV(k *Kernel) {
	g := &gemvFloat{k, t, k.Vecs(2), k.Vecs(2)}
	k.ToArgs(AX)
	k.Load(AX, "dst", DI, "rows", R8, "w", SI, "rowBytes", R9, "x", DX, "n", R10)
	row := k.Here("row")
	k.Op("MOVQ", SI, AX)
	k.Op("MOVQ", DX, CX)
	k.Op("MOVQ", R10, R11)
	for _, sum := range g.sums {
		k.Op("VXORPS", sum, sum, sum)
	}
	g.addRegisters()
	k.Op("VADDPS", g.sums[1], g.sums[0], g.sums[0])
	total := k.HorizontalSums(g.sums[:1])
	g.addRemaining(total)
	k.Op("VMOVSS", total.X(), At(DI))
	k.Op("ADDQ", 4, DI)
	k.Op("ADDQ", R9, SI)
	k.Op("DECQ", R8)
	k.Op("JNZ", row)
	k.Return()
}

// addRegisters adds the products of 32 columns at a time, then of 16 and of 8, and leaves R11 eight too few.
func (g *gemvFloat) addRegisters() {
	next := g.Label("sixteen")
	g.Op("SUBQ", 32, R11)
	g.Op("JLT", next)
	wide := g.Here("wide")
	for line := 0; line < 32*g.bytes; line += 64 {
		g.PrefetchLine(At(AX).Plus(4096 + line))
	}
	g.addProducts(0, 2)
	g.addProducts(2, 2)
	g.advanceColumns(32)
	g.Op("SUBQ", 32, R11)
	g.Op("JGE", wide)

	for _, columns := range []int{16, 8} {
		g.Place(next)
		next = g.Label(map[int]string{16: "eight", 8: "sum"}[columns])
		g.Op("ADDQ", columns, R11)
		g.Op("JLT", next)
		g.addProducts(0, columns/8)
		g.advanceColumns(columns)
		g.Op("SUBQ", columns, R11)
	}
	g.Place(next)
}

func (g *gemvFloat) addRemaining(total Vec) {
	store := g.Label("store")
	g.Op("ADDQ", 8, R11)
	g.Op("JZ", store)
	one := g.Here("one")
	g.loadOneFloat(g.Kernel, At(AX), g.w[0].X())
	g.Op("VFMADD231SS", At(CX), g.w[0].X(), total.X())
	g.advanceColumns(1)
	g.Op("DECQ", R11)
	g.Op("JNZ", one)
	g.Place(store)
}

func (g *gemvFloat) addProducts(from, registers int) {
	for i := range registers {
		g.loadFloats(g.Kernel, At(AX).Plus((from+i)*8*g.bytes), g.w[i])
	}
	for i := range registers {
		g.Op("VFMADD231PS", At(CX).Plus((from+i)*32), g.w[i], g.sums[i])
	}
}

func (g *gemvFloat) advanceColumns(columns int) {
	g.Op("ADDQ", columns*g.bytes, AX)
	g.Op("ADDQ", columns*4, CX)
}
