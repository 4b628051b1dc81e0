package main

// gemv multiplies one output at a time with one token: for remaining outputs, and if there are few blocks. A register
// has 32 columns of a row in order, like a register of activations.
//
// DI dst, SI weights, DX q, CX d, R9 its end, R13 from d to s or h. In a row: R11 place in q, R12 in d. R15 the last
// place in d from which there are four blocks; AX, BX, R8, R10, R14 for anything.
type gemv struct {
	*Kernel
	set RowSet
	b   Block
	sum Vec // accumulators: four, or eight in formats with blocks of 256
}

func writeGEMV(k *Kernel) {
	k.UnsignWeights()
	g := &gemv{Kernel: k, set: k.Set.(RowSet), b: k.Format.Block(), sum: k.Vec()}
	g.ToArgs(AX)
	g.Load(AX, "dst", DI, "w", SI, "wBytes", R8, "q", DX, "d", CX, g.Scheme.Sums(), R13, "n", R9)
	g.Op("ADDQ", SI, R8)
	g.Op("MOVQ", R8, g.Slot("end"))
	g.Op("SHRQ", 3, R9)
	g.Op("ADDQ", CX, R9)
	g.Op("SUBQ", CX, R13)
	g.Op("LEAQ", At(R9).Plus(-16), R15)

	output := g.Here("output")
	g.Op("MOVQ", DX, R11)
	g.Op("MOVQ", CX, R12)
	g.Op("VXORPS", g.sum, g.sum, g.sum)
	if g.b.Columns == 32 {
		g.addRowByFours()
	} else {
		g.addRowByEights()
	}
	g.storeSum()
	g.Op("CMPQ", SI, g.Slot("end"))
	g.Op("JLT", output)
	g.Return()
}

// The d and the s or h of the next blocks.
var nextD, nextSums = At(R12), At(R12).Times(R13, 1)

// addRowByFours adds a row of blocks of 32 columns, first four at a time, then one at a time: before each single block
// the accumulators are rotated by one, which does not change their total.
func (g *gemv) addRowByFours() {
	last, done := g.Label("last"), g.Label("done")
	g.Op("CMPQ", R12, R15)
	g.Op("JG", last)
	four := g.Here("four")
	g.prefetchNext(2)
	g.addBlocks(4, nextD, nextSums)
	g.Op("CMPQ", R12, R15)
	g.Op("JLE", four)
	g.Place(last)
	g.Op("CMPQ", R12, R9)
	g.Op("JEQ", done)
	one, d, sums := g.Here("one"), g.Vec().X(), g.Vec().X()
	g.Op("VMOVSS", nextD, d)
	if g.Scheme.Offset != 0 {
		g.Op("VMOVD", nextSums, sums)
	}
	g.addBlocks(1, d, sums)
	g.Free(d, sums)
	g.Op("VPERMILPS", 0x39, g.sum.X(), g.sum.X())
	g.Op("CMPQ", R12, R9)
	g.Op("JLT", one)
	g.Place(done)
}

// addBlocks adds the products of the next four blocks of 32 columns to an accumulator each, or those of one to the
// first.
func (g *gemv) addBlocks(blocks int, d, sums any) {
	var p [4]Vec
	for block := range p {
		if block < blocks {
			p[block] = g.dotBlock(block*g.b.Bytes, 32*block)
			continue
		}
		p[block] = g.Vec()
		g.Op("VPXOR", p[block], p[block], p[block])
	}
	total, t := g.sumFourBlocks(p), g.Vec()
	g.Op("VEXTRACTI128", 1, total, t.X())
	g.Op("VPADDD", t.X(), total.X(), total.X())
	g.Free(t)
	g.addScaled(total.X(), g.Format.ContiguousScales(g.Kernel, blocks)[0], d, sums, false)
	g.advanceBlocks(blocks)
}

// addRowByEights adds a row of blocks of 256 columns: an accumulator for each block of 32 in it.
func (g *gemv) addRowByEights() {
	block := g.Here("block")
	g.prefetchNext((g.b.Bytes + 63) / 64)
	var p [4]Vec
	var fours []Vec
	visited := 0
	g.Format.Unpack(g.Kernel, Row(0), func(block, _ int, w Vec) {
		p[block%4] = g.set.Dot(g.Kernel, w, At(R11).Plus(32*block))
		g.Free(w)
		if visited++; visited%4 == 0 {
			fours = append(fours, g.sumFourBlocks(p))
		}
	})
	first, second := g.Vec(), fours[0] // half blocks
	g.Op("VPERM2I128", 0x20, fours[1], fours[0], first)
	g.Op("VPERM2I128", 0x31, fours[1], fours[0], second)
	g.Free(fours[1])
	if !g.Scheme.Halves {
		g.Op("VPADDD", second, first, first)
		g.Free(second)
	}
	scales := g.Format.ContiguousScales(g.Kernel, 8)
	g.addScaled(first, scales[0], nextD, nextSums, false)
	if g.Scheme.Halves {
		g.addScaled(second, scales[1], nextD, nextSums, true)
	}
	if g.Scheme.Minima {
		g.Op("VFNMADD231PS", nextSums, scales[1], g.sum)
		g.Free(scales[1])
	}
	g.advanceBlocks(8)
	g.Op("CMPQ", R12, R9)
	g.Op("JLT", block)
}

// addScaled adds integers, less their offset, times scale and d, to the accumulators.
func (g *gemv) addScaled(total, scale Vec, d, sums any, second bool) {
	scale = scale.withWidthOf(total)
	if g.Scheme.Offset != 0 {
		t := g.Vec().withWidthOf(total)
		g.Op("VPMADDWD", sums, g.offsetWords(second).withWidthOf(total), t)
		g.Op("VPADDD", t, total, total)
		g.Free(t)
	}
	g.Op("VCVTDQ2PS", total, total)
	g.Op("VMULPS", d, scale, scale)
	g.Op("VFMADD231PS", total, scale, g.sum.withWidthOf(total))
	g.Free(total, scale)
}

// advanceBlocks advances by the given number of blocks of 32 columns.
func (g *gemv) advanceBlocks(blocks int) {
	g.Op("ADDQ", g.b.Bytes*blocks*32/g.b.Columns, SI)
	g.Op("ADDQ", 32*blocks, R11)
	g.Op("ADDQ", 4*blocks, R12)
}

// prefetchNext prefetches some lines, as many as the next blocks have, from a page further on.
func (g *gemv) prefetchNext(lines int) {
	for line := range lines {
		g.PrefetchLine(At(SI).Plus(4096 + 64*line))
	}
}

// dotBlock multiplies the block of 32 columns that is some bytes after SI with the activations q bytes after R11.
func (g *gemv) dotBlock(bytes, q int) (p Vec) {
	g.Format.Unpack(g.Kernel, Row(bytes), func(_, _ int, w Vec) {
		p = g.set.Dot(g.Kernel, w, At(R11).Plus(q))
		g.Free(w)
	})
	return p
}

// sumFourBlocks adds the products of four blocks so that each half of the result has a number of each block. (VPHADDD
// is three operations, one of them slow.)
func (g *gemv) sumFourBlocks(p [4]Vec) Vec {
	t, add, adds := g.Vec(), "VPADDD", g.set.DotAdds(g.Scheme)
	if adds > 0 {
		add = "VPADDW"
	}
	for i := 0; i < 4; i += 2 {
		g.Op("VPUNPCKLQDQ", p[i+1], p[i], t)
		g.Op("VPUNPCKHQDQ", p[i+1], p[i], p[i])
		g.Op(add, t, p[i], p[i])
	}
	if 0 < adds && adds < 4 {
		g.Op("VPMADDWD", g.Words(1), p[0], p[0])
		g.Op("VPMADDWD", g.Words(1), p[2], p[2])
		add = "VPADDD"
	}
	g.Op("VSHUFPS", 0x88, p[2], p[0], t)
	g.Op("VSHUFPS", 0xdd, p[2], p[0], p[0])
	g.Op(add, t, p[0], p[0])
	if adds >= 4 {
		g.Op("VPMADDWD", g.Words(1), p[0], p[0])
	}
	g.Free(t, p[1], p[2], p[3])
	return p[0]
}

// storeSum adds the accumulators, (0+4)+(2+6) + ((1+5)+(3+7)), stores them at dst and advances.
func (g *gemv) storeSum() {
	sum, t := g.sum.X(), g.Vec().X()
	if g.b.Accumulators() == 8 {
		g.Op("VEXTRACTF128", 1, g.sum, t)
		g.Op("VADDPS", t, sum, sum)
	}
	g.Op("VMOVHLPS", sum, sum, t)
	g.Op("VADDPS", t, sum, sum)
	g.Op("VMOVSHDUP", sum, t)
	g.Op("VADDSS", t, sum, sum)
	g.Op("VMOVSS", sum, At(DI))
	g.Op("ADDQ", 4, DI)
	g.Free(t)
}
