package main

import "fmt"

// gemmFloat is a shape of microkernel: rows of float weights with tokens. There are not enough registers for all sums,
// so it takes several passes, each for a register tile: some rows and tokens, and as many of sixteen columns as a
// register has lanes. So that all passes read the columns from the first-level cache, it takes part bytes of each token
// at a time, or all that are left if these are at most whole; the sums are kept on the stack. An element is added to
// the same sum as in gemv, in the same order.
//
// Slots: left has bytes of a token from this part on, skipped bytes of a row in this part.
//
// SI w, R9 and R10 one and three rows of it in bytes; CX x, R12, R13 and R15 one, three and five tokens; DX sums; R8
// bytes of the part of a token; AX, BX places in w and x, R11 bytes left in the part; R14 and DI the row of w and the
// token that are prefetched.
type gemmFloat struct {
	rows, tokens         int
	tileRows, tileTokens int
	whole, part          int
	prefetchesTokens     bool // of the next part

	*Kernel
	weights floatType
	sums    Mem
}

// multiples are registers with one, three and five times some bytes.
type multiples [3]Reg

var (
	rowBytes   = multiples{R9, R10}
	tokenBytes = multiples{R12, R13, R15}
	dstBytes   = multiples{R11, BX}
)

func (b multiples) addressAfter(m Mem, n int) Mem {
	switch n {
	case 0:
		return m
	case 1, 2, 4:
		return m.Times(b[0], n)
	case 3, 6:
		return m.Times(b[1], n/3)
	case 5:
		return m.Times(b[2], 1)
	}
	panic(fmt.Sprint("no multiple of ", n))
}

func (g gemmFloat) writeKernel(t floatType, k *Kernel) {
	g.Kernel, g.weights = k, t
	g.sums = k.Aligned(DX, g.passCount()*g.tileRows*g.tileTokens*k.Set.Width())
	k.AlignStack(DX)
	k.ToArgs(AX)
	k.Load(AX, "w", SI, "rowBytes", R9, "x", CX, "n", R12)
	k.Op("SHLQ", 2, R12)
	k.Op("LEAQ", At(R9).Times(R9, 2), R10)
	k.Op("LEAQ", At(R12).Times(R12, 2), R13)
	k.Op("LEAQ", At(R12).Times(R12, 4), R15)
	k.Op("MOVQ", R12, g.Slot("left"))

	part := k.Here("part")
	k.Op("MOVQ", g.Slot("left"), R8)
	k.Op("MOVQ", g.part, R11)
	k.Op("CMPQ", R8, g.whole)
	k.Op("CMOVQGT", R11, R8)
	k.Op("MOVQ", R8, R11)
	k.Op("SHRQ", log2(4/g.weights.bytes), R11)
	k.Op("MOVQ", R11, g.Slot("skipped"))
	k.ToArgs(R14)
	k.Op("MOVQ", k.Field(R14, "prefetch"), R14)
	k.Op("ADDQ", SI, R14)
	k.Op("LEAQ", At(CX).Times(R8, 1), DI)
	for pass := range g.passCount() {
		g.writePass(pass)
	}
	k.Op("ADDQ", R8, CX)
	k.Op("ADDQ", g.Slot("skipped"), SI)
	k.Op("SUBQ", R8, g.Slot("left"))
	k.Op("JNZ", part)
	if g.halfCount() == 2 {
		g.storeHalves()
	}
	k.Return()
}

// halfCount returns the number of registers for sixteen columns.
func (g *gemmFloat) halfCount() int { return 64 / g.Set.Width() }

func (g *gemmFloat) passCount() int {
	return g.rows / g.tileRows * g.tokens / g.tileTokens * g.halfCount()
}

func (g *gemmFloat) sumAddress(row, token, half int) Mem {
	pass := (token/g.tileTokens*(g.rows/g.tileRows)+row/g.tileRows)*g.halfCount() + half
	at := row%g.tileRows*g.tileTokens + token%g.tileTokens
	return g.sums.Plus((pass*g.tileRows*g.tileTokens + at) * g.Set.Width())
}

// writePass adds the products of a part of the columns to the sums of a register tile. After the last part of whole
// registers it computes the results.
func (g *gemmFloat) writePass(pass int) {
	half, tile := pass%g.halfCount(), pass/g.halfCount()
	row := tile % (g.rows / g.tileRows) * g.tileRows
	token := tile / (g.rows / g.tileRows) * g.tileTokens
	g.Comment("rows %d to %d, tokens %d to %d", row, row+g.tileRows-1, token, token+g.tileTokens-1)
	g.Op("LEAQ", rowBytes.addressAfter(At(SI), row).Plus(half*8*g.weights.bytes), AX)
	g.Op("LEAQ", tokenBytes.addressAfter(At(CX), token).Plus(half*32), BX)
	g.Op("MOVQ", R8, R11)
	sums := g.Vecs(g.tileRows * g.tileTokens) // [tileRows, tileTokens]
	place := g.sumAddress(row, token, half)
	g.startSums(sums, place)
	loop := g.Here("sixteen")
	g.multiplyAdd(sums)
	g.Op("JNZ", loop)
	last, ended := g.Label("last"), g.Label("ended")
	if g.halfCount() == 1 {
		g.Op("CMPQ", R8, g.Slot("left"))
		g.Op("JEQ", last)
	}
	for i, sum := range sums {
		g.Op("VMOVUPS", sum, place.Plus(i*g.Set.Width()))
	}
	if g.halfCount() == 1 {
		g.Op("JMP", ended)
		g.Place(last)
		g.loadDstPointers(token)
		g.storeFour(row, sums)
		g.Place(ended)
	}
	g.Free(sums...)
	g.Op("SUBQ", g.Slot("skipped"), R14)
	g.Op("LEAQ", rowBytes.addressAfter(At(R14), g.rows/g.passCount()), R14)
	if g.prefetchesTokens {
		g.Op("SUBQ", R8, DI)
		g.Op("ADDQ", R12, DI)
	}
}

// startSums sets the sums of a pass to zero, or to their values after the last part.
func (g *gemmFloat) startSums(sums []Vec, place Mem) {
	first, started := g.Label("first"), g.Label("started")
	g.Op("CMPQ", R12, g.Slot("left"))
	g.Op("JEQ", first)
	for i, sum := range sums {
		g.Op("VMOVUPS", place.Plus(i*g.Set.Width()), sum)
	}
	g.Op("JMP", started)
	g.Place(first)
	for _, sum := range sums {
		g.Op("VXORPS", sum.X(), sum.X(), sum.X())
	}
	g.Place(started)
}

// multiplyAdd multiplies sixteen columns, and prefetches the same amount of its share of the rows.
func (g *gemmFloat) multiplyAdd(sums []Vec) {
	for row := range g.rows / g.passCount() {
		next := rowBytes.addressAfter(At(R14), row)
		g.Op("PREFETCHT1", next.Plus(1024))
		g.Op("PREFETCHT0", next)
	}
	if g.prefetchesTokens {
		g.Op("PREFETCHT0", At(DI))
		g.Op("ADDQ", 64, DI)
	}
	w, x := g.Vecs(g.tileRows), g.Vec()
	for row, v := range w {
		g.weights.loadFloats(g.Kernel, rowBytes.addressAfter(At(AX), row), v)
	}
	for token := range g.tileTokens {
		g.Op("VMOVUPS", tokenBytes.addressAfter(At(BX), token), x)
		for row, v := range w {
			g.Op("VFMADD231PS", v, x, sums[row*g.tileTokens+token])
		}
	}
	g.Free(append(w, x)...)
	g.Op("ADDQ", 16*g.weights.bytes, AX)
	g.Op("ADDQ", 16*g.weights.bytes, R14)
	g.Op("ADDQ", 64, BX)
	g.Op("SUBQ", 64, R11)
}

// storeHalves computes results from all sums, two halves each, for four rows and two tokens at a time.
func (g *gemmFloat) storeHalves() {
	g.loadDstPointers(0)
	for token := 0; token < g.tokens; token += 2 {
		for row := 0; row < g.rows; row += 4 {
			sums := g.Vecs(8)
			for i, sum := range sums {
				g.Op("VMOVUPS", g.sumAddress(row+i/2, token+i%2, 0), sum)
				g.Op("VADDPS", g.sumAddress(row+i/2, token+i%2, 1), sum, sum)
			}
			g.storeFour(row, sums)
			g.Free(sums...)
		}
		g.Op("LEAQ", dstBytes.addressAfter(At(DI), 2), DI)
	}
}

// loadDstPointers sets DI to the place of a token's results, R11 and BX to one and three tokens of results in bytes, AX
// to the arguments.
func (g *gemmFloat) loadDstPointers(token int) {
	g.ToArgs(AX)
	g.Load(AX, "dst", DI, "stride", R11)
	g.Op("SHLQ", 2, R11)
	g.Op("LEAQ", At(R11).Times(R11, 2), BX)
	if token > 0 {
		g.Op("LEAQ", dstBytes.addressAfter(At(DI), token), DI)
	}
}

// storeFour puts the results of four rows at DI, or adds them: sums is [4 rows, tokens].
func (g *gemmFloat) storeFour(row int, sums []Vec) {
	g.HorizontalSums(sums)
	tokens := sums[:len(sums)/4]
	for t := 1; t < len(tokens); t++ {
		g.Op("VEXTRACTF128", t, tokens[0], tokens[t].X())
	}
	dst, set := At(DI).Plus(4*row), g.Label("set")
	g.Op("CMPB", g.Field(AX, "add"), 0)
	g.Op("JEQ", set)
	for t, v := range tokens {
		g.Op("VADDPS", dstBytes.addressAfter(dst, t), v.X(), v.X())
	}
	g.Place(set)
	for t, v := range tokens {
		g.Op("VMOVUPS", v.X(), dstBytes.addressAfter(dst, t))
	}
}
