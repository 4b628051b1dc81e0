package main

import "fmt"

// gemmFloat is a shape of microkernel: rows of float weights with tokens. There are not registers for all sums, so that
// it takes several passes, each of them for a register tile: some rows and tokens, and as many columns of each sixteen
// as a register has lanes. The columns of all passes stay in the first-level cache: part bytes of each token at a time,
// or all that are left if these are at most whole bytes. Meanwhile the sums wait on the stack. An element is added to
// the same sum as in gemv, in the same order.
//
// SI w, R9 and R10 one and three rows of it in bytes; CX x, R12, R13 and R15 one, three and five tokens; DX sums; R8
// bytes of the part of a token; AX, BX places in w and x, R11 bytes left in the part; R14 and DI the row of w and the
// token that are prefetched.
type gemmFloat struct {
	weights          floatType
	rows, tokens     int
	tileRows         int
	tileTokens       int
	whole, part      int
	prefetchesTokens bool // of the next part

	k             *Kernel
	left, skipped Mem // bytes of a token to come, of a row in this part
	sums          Mem
}

// multiples are one, three and five times some bytes.
type multiples [3]Reg

var (
	rowBytes   = multiples{R9, R10}
	tokenBytes = multiples{R12, R13, R15}
)

// after is n of them after m.
func (b multiples) after(m Mem, n int) Mem {
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

// write writes the microkernel.
func (g gemmFloat) write(k *Kernel) {
	g.k, g.left, g.skipped = k, k.Local(8), k.Local(8)
	g.sums = k.Aligned(DX, g.passes()*g.tileRows*g.tileTokens*k.Set.Width())
	k.AlignStack(DX)
	k.ToArgs(AX)
	k.Load(AX, "w", SI, "rowBytes", R9, "x", CX, "n", R12)
	k.Op("SHLQ", 2, R12)
	k.Op("LEAQ", At(R9).Times(R9, 2), R10)
	k.Op("LEAQ", At(R12).Times(R12, 2), R13)
	k.Op("LEAQ", At(R12).Times(R12, 4), R15)
	k.Op("MOVQ", R12, g.left)

	part := k.Here("part")
	k.Op("MOVQ", R12, R8)
	if g.part > 0 {
		k.Op("MOVQ", g.left, R8)
		k.Op("MOVQ", g.part, R11)
		k.Op("CMPQ", R8, g.whole)
		k.Op("CMOVQGT", R11, R8)
	}
	k.Op("MOVQ", R8, R11)
	k.Op("SHRQ", log2(4/g.weights.bytes), R11)
	k.Op("MOVQ", R11, g.skipped)
	k.ToArgs(R14)
	k.Op("MOVQ", k.Field(R14, "prefetch"), R14)
	k.Op("ADDQ", SI, R14)
	if g.prefetchesTokens {
		k.Op("LEAQ", At(CX).Times(R8, 1), DI)
	}
	for pass := range g.passes() {
		g.pass(pass)
	}
	if g.part > 0 {
		k.Op("ADDQ", R8, CX)
		k.Op("ADDQ", g.skipped, SI)
		k.Op("SUBQ", R8, g.left)
		k.Op("JNZ", part)
	}
	if g.halves() == 2 {
		g.put()
	}
	k.Return()
}

func (g *gemmFloat) halves() int { return 64 / g.k.Set.Width() }

func (g *gemmFloat) passes() int { return g.rows / g.tileRows * g.tokens / g.tileTokens * g.halves() }

// sum is where the sum of a row, a token and a half waits.
func (g *gemmFloat) sum(row, token, half int) Mem {
	at := row%g.tileRows + g.tileRows*(token%g.tileTokens)
	pass := (row/g.tileRows+token/g.tileTokens*(g.rows/g.tileRows))*g.halves() + half
	return g.sums.Plus((pass*g.tileRows*g.tileTokens + at) * g.k.Set.Width())
}

// pass adds the products of a part of the columns to the sums of one register tile.
func (g *gemmFloat) pass(pass int) {
	k := g.k
	half, tile := pass%g.halves(), pass/g.halves()
	row := tile % (g.rows / g.tileRows) * g.tileRows
	token := tile / (g.rows / g.tileRows) * g.tileTokens
	k.Comment("rows %d to %d, tokens %d to %d", row, row+g.tileRows-1, token, token+g.tileTokens-1)
	k.Op("LEAQ", rowBytes.after(At(SI), row).Plus(half*8*g.weights.bytes), AX)
	k.Op("LEAQ", tokenBytes.after(At(CX), token).Plus(half*32), BX)
	k.Op("MOVQ", R8, R11)

	sums := k.Vecs(g.tileRows * g.tileTokens)
	place := func(i int) Mem { return g.sum(row+i%g.tileRows, token+i/g.tileRows, half) }
	g.startSums(sums, place)
	loop := k.Here("sixteen")
	g.multiplyAdd(sums, g.rows/g.passes())
	k.Op("JNZ", loop)
	g.endSums(sums, place, row, token)
	k.Free(sums...)
	k.Op("SUBQ", g.skipped, R14)
	k.Op("LEAQ", rowBytes.after(At(R14), g.rows/g.passes()), R14)
	if g.prefetchesTokens {
		k.Op("SUBQ", R8, DI)
		k.Op("ADDQ", R12, DI)
	}
}

// startSums makes the sums of a pass zero, or what they were after the last part.
func (g *gemmFloat) startSums(sums []Vec, place func(int) Mem) {
	k := g.k
	first, started := k.Label("first"), k.Label("started")
	if g.part > 0 {
		k.Op("CMPQ", R12, g.left)
		k.Op("JEQ", first)
		for i, sum := range sums {
			k.Op("VMOVUPS", place(i), sum)
		}
		k.Op("JMP", started)
		k.Place(first)
	}
	for _, sum := range sums {
		k.Op("VXORPS", sum.X(), sum.X(), sum.X())
	}
	k.Place(started)
}

// endSums stores the sums of a pass, or puts them at dst if they are complete.
func (g *gemmFloat) endSums(sums []Vec, place func(int) Mem, row, token int) {
	k := g.k
	last, ended := k.Label("last"), k.Label("ended")
	if g.part > 0 {
		if g.halves() == 1 {
			k.Op("CMPQ", R8, g.left)
			k.Op("JEQ", last)
		}
		for i, sum := range sums {
			k.Op("VMOVUPS", sum, place(i))
		}
	}
	if g.halves() == 1 {
		if g.part > 0 {
			k.Op("JMP", ended)
			k.Place(last)
		}
		var byRows []Vec
		for i := range sums {
			byRows = append(byRows, sums[i%4*4+i/4])
		}
		g.toDst(token)
		g.putFour(row, byRows)
		k.Place(ended)
	}
}

// multiplyAdd goes on by sixteen columns and prefetches as many of some rows.
func (g *gemmFloat) multiplyAdd(sums []Vec, prefetched int) {
	k := g.k
	for row := range prefetched {
		m := rowBytes.after(At(R14), row)
		k.Op("PREFETCHT1", m.Plus(1024))
		k.Op("PREFETCHT0", m)
	}
	if g.prefetchesTokens {
		k.Op("PREFETCHT0", At(DI))
		k.Op("ADDQ", 64, DI)
	}
	w, x := k.Vecs(g.tileRows), k.Vec()
	for row, v := range w {
		g.weights.load(k, rowBytes.after(At(AX), row), v)
	}
	for i, sum := range sums {
		if i%g.tileRows == 0 {
			k.Op("VMOVUPS", tokenBytes.after(At(BX), i/g.tileRows), x)
		}
		k.Op("VFMADD231PS", w[i%g.tileRows], x, sum)
	}
	k.Free(append(w, x)...)
	k.Op("ADDQ", 16*g.weights.bytes, AX)
	k.Op("ADDQ", 16*g.weights.bytes, R14)
	k.Op("ADDQ", 64, BX)
	k.Op("SUBQ", 64, R11)
}

// put puts all sums at dst, where two halves of each wait on the stack.
func (g *gemmFloat) put() {
	k := g.k
	g.toDst(0)
	for token := 0; token < g.tokens; token += 2 {
		for row := 0; row < g.rows; row += 4 {
			sums := k.Vecs(8)
			for i, sum := range sums {
				k.Op("VMOVUPS", g.sum(row+i/2, token+i%2, 0), sum)
				k.Op("VADDPS", g.sum(row+i/2, token+i%2, 1), sum, sum)
			}
			g.putFour(row, sums)
			k.Free(sums...)
		}
		k.Op("LEAQ", At(DI).Times(R11, 2), DI)
	}
}

// toDst makes DI the place of a token's results in dst, R11 and BX one and three tokens of them in bytes, AX the
// arguments.
func (g *gemmFloat) toDst(token int) {
	k := g.k
	k.ToArgs(AX)
	k.Load(AX, "dst", DI, "stride", R11)
	k.Op("SHLQ", 2, R11)
	k.Op("LEAQ", At(R11).Times(R11, 2), BX)
	if token > 0 {
		k.Op("LEAQ", multiples{R11, BX}.after(At(DI), token), DI)
	}
}

// putFour puts the sums of four rows at DI, or adds them: those of the first row with some tokens come first.
func (g *gemmFloat) putFour(row int, sums []Vec) {
	k := g.k
	dst := func(t int) Mem { return multiples{R11, BX}.after(At(DI), t).Plus(4 * row) }
	tokens := sums[:len(sums)/4]
	k.HorizontalSums(sums)
	for t := 1; t < len(tokens); t++ {
		k.Op(map[int]string{2: "VEXTRACTF128", 4: "VEXTRACTF32X4"}[len(tokens)], t, tokens[0], tokens[t].X())
	}
	set := k.Label("set")
	k.Op("CMPB", k.Field(AX, "add"), 0)
	k.Op("JEQ", set)
	for t, v := range tokens {
		k.Op("VADDPS", dst(t), v.X(), v.X())
	}
	k.Place(set)
	for t, v := range tokens {
		k.Op("VMOVUPS", v.X(), dst(t))
	}
}
