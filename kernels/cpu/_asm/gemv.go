package main

// gemvShape multiplies one output at a time with one token: for outputs that are left over, and where blocks are few. A
// register has 32 columns of a row in their order, as a register of activations has.
//
// DI dst, SI weights, DX q, CX d, R13 s or h, R9 blocks of 32 in a row. In a row: R11 place in q, R12 in d,
// R14 in s or h. AX, BX, R8, R10, R15 for anything.
type gemvShape struct {
	*Kernel
	f            ContiguousFormat
	ones, offset Vec
	end, left    Mem // end of the weights, blocks of 32 left in a row
	sum          Vec // a lane to each dword: four, or eight in formats with blocks of 256
}

// ContiguousFormat is a format that gemvShape can read.
type ContiguousFormat interface {
	Format
	// ContiguousConstants takes registers for constants of the other two.
	ContiguousConstants(k *Kernel)
	// UnpackContiguous calls visit with each block of 32 columns of the block that is bytes after SI.
	UnpackContiguous(k *Kernel, bytes int, visit func(block int, w Vec))
	// ContiguousScales is the scales of the blocks at SI, four blocks of 32 or one of 256, and their minima if any.
	ContiguousScales(k *Kernel) (scale, minimum Vec)
}

func gemv(k *Kernel) {
	g := &gemvShape{Kernel: k, f: k.Format.(ContiguousFormat), end: k.Local(8), left: k.Local(8)}
	g.ones = g.Broadcast(eachWord(1))
	if g.Offset != 0 {
		g.offset = g.Broadcast(eachWord(-g.Offset))
	}
	g.f.ContiguousConstants(k)
	g.sum = g.Vec()
	g.ToArgs(AX)
	g.Load(AX, "dst", DI, "w", SI, "wBytes", R8, "q", DX, "d", CX, g.sumsField(), R13, "n", R9)
	g.Op("ADDQ", SI, R8)
	g.Op("MOVQ", R8, g.end)
	g.Op("SHRQ", 5, R9)

	output := g.Here("output")
	g.Op("MOVQ", DX, R11)
	g.Op("MOVQ", CX, R12)
	g.Op("MOVQ", R13, R14)
	g.Op("MOVQ", R9, g.left)
	g.Op("VXORPS", g.sum, g.sum, g.sum)
	if g.f.Block().Columns == 32 {
		g.byFours()
	} else {
		g.byEights()
	}
	g.put()
	g.Op("CMPQ", SI, g.end)
	g.Op("JLT", output)
	g.Return()
}

// byFours adds a row of blocks of 32 columns, four at a time, then one: before each single block the lanes are rotated
// by one, as their total is the same from any lane on.
func (g *gemvShape) byFours() {
	bytes := g.f.Block().Bytes
	last, done := g.Label("last"), g.Label("done")
	g.Op("SUBQ", 4, g.left)
	g.Op("JLT", last)
	four := g.Here("four")
	g.prefetch(4 * bytes)
	var p [4]Vec
	for block := range p {
		p[block] = g.products(block*bytes, 32*block)
	}
	total := g.widen(g.joinFour(p))
	t := g.Vec()
	g.Op("VEXTRACTI128", 1, total, t.X())
	g.Op("VPADDD", t.X(), total.X(), total.X())
	g.Op("VPMADDWD", At(R14), g.offset.X(), t.X())
	g.Op("VPADDD", t.X(), total.X(), total.X())
	g.Free(t)
	g.Op("VCVTDQ2PS", total.X(), total.X())
	scale, _ := g.f.ContiguousScales(g.Kernel)
	g.Op("VMULPS", At(R12), scale.X(), scale.X())
	g.Op("VFMADD231PS", total.X(), scale.X(), g.sum.X())
	g.Free(total, scale)
	g.next(4)
	g.Op("SUBQ", 4, g.left)
	g.Op("JGE", four)
	g.Place(last)
	g.Op("ADDQ", 4, g.left)
	g.Op("JZ", done)
	g.one()
	g.Place(done)
}

// one adds the blocks that are left, one at a time.
func (g *gemvShape) one() {
	one := g.Here("one")
	total := g.widen(g.products(0, 0))
	t := g.Vec()
	g.Op("VEXTRACTI128", 1, total, t.X())
	g.Op("VPADDD", t.X(), total.X(), total.X())
	g.Op("VPHADDD", total.X(), total.X(), total.X())
	g.Op("VPHADDD", total.X(), total.X(), total.X())
	g.Op("VMOVD", At(R14), t.X())
	g.Op("VPMADDWD", t.X(), g.offset.X(), t.X())
	g.Op("VPADDD", t.X(), total.X(), total.X())
	g.Op("VCVTDQ2PS", total.X(), total.X())
	g.Op("VPBROADCASTW", At(SI), t.X())
	g.Op("VCVTPH2PS", t.X(), t.X())
	g.Op("VMULSS", At(R12), t.X(), t.X())
	g.Op("VFMADD231SS", total.X(), t.X(), g.sum.X())
	g.Free(total, t)
	g.Op("VPERMILPS", 0x39, g.sum.X(), g.sum.X())
	g.next(1)
	g.Op("DECQ", g.left)
	g.Op("JNZ", one)
}

// byEights adds a row of blocks of 256 columns.
func (g *gemvShape) byEights() {
	block := g.Here("block")
	g.prefetch(g.f.Block().Bytes)
	scale, minimum := g.f.ContiguousScales(g.Kernel)
	g.Op("VMULPS", At(R12), scale, scale)
	var p, joined []Vec
	g.f.UnpackContiguous(g.Kernel, 0, func(block int, w Vec) {
		p = append(p, g.multiply(w, 32*block))
		g.Free(w)
		if len(p) == 4 {
			joined = append(joined, g.widen(g.joinFour([4]Vec(p))))
			p = nil
		}
	})
	total, upper := joined[0], g.Vec()
	g.Op("VPERM2I128", 0x31, joined[1], joined[0], upper)
	g.Op("VPERM2I128", 0x20, joined[1], joined[0], total)
	g.Op("VPADDD", upper, total, total)
	g.Op("VCVTDQ2PS", total, total)
	g.Op("VFMADD231PS", total, scale, g.sum)
	g.Op("VFNMADD231PS", At(R14), minimum, g.sum)
	g.Free(scale, minimum, upper)
	g.Free(joined...)
	g.next(8)
	g.Op("SUBQ", 8, g.left)
	g.Op("JG", block)
}

// next moves on by so many blocks of 32 columns.
func (g *gemvShape) next(blocks int) {
	b := g.f.Block()
	g.Op("ADDQ", b.Bytes*blocks*32/b.Columns, SI)
	g.Op("ADDQ", 32*blocks, R11)
	g.Op("ADDQ", 4*blocks, R12)
	g.Op("ADDQ", 4*blocks, R14)
}

// prefetch fetches as much as the next blocks have, a page ahead.
func (g *gemvShape) prefetch(bytes int) {
	for line := 0; line < bytes; line += 64 {
		g.PrefetchLine(At(SI).Plus(4096 + line))
	}
}

// multiply is the products of 32 columns with the activations at q, by twos in 16 bits.
func (g *gemvShape) multiply(w Vec, q int) Vec {
	p := g.Vec()
	g.Op("VPMADDUBSW", At(R11).Plus(q), w, p)
	return p
}

// products is multiply for the block of 32 columns that is some bytes after SI.
func (g *gemvShape) products(bytes, q int) (p Vec) {
	g.f.UnpackContiguous(g.Kernel, bytes, func(_ int, w Vec) {
		p = g.multiply(w, q)
		g.Free(w)
	})
	return p
}

// joinFour adds the products of four blocks until each half of the result has two numbers of each block. Four sums of
// two products of five bits fit in 16 bits. (VPHADDD is three operations and a slow one.)
func (g *gemvShape) joinFour(p [4]Vec) Vec {
	t := g.Vec()
	for i := 0; i < 4; i += 2 {
		g.Op("VPUNPCKLQDQ", p[i+1], p[i], t)
		g.Op("VPUNPCKHQDQ", p[i+1], p[i], p[i])
		g.Op("VPADDW", t, p[i], p[i])
	}
	g.Op("VSHUFPS", 0x88, p[2], p[0], t)
	g.Op("VSHUFPS", 0xdd, p[2], p[0], p[0])
	g.Op("VPADDW", t, p[0], p[0])
	g.Free(t, p[1], p[2], p[3])
	return p[0]
}

// widen adds twos of 16 bits in 32.
func (g *gemvShape) widen(p Vec) Vec {
	g.Op("VPMADDWD", g.ones, p, p)
	return p
}

// put adds the lanes, (0+4)+(2+6) + ((1+5)+(3+7)), puts them at dst and moves on.
func (g *gemvShape) put() {
	sum, t := g.sum.X(), g.Vec().X()
	if g.f.Block().Lanes() == 8 {
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
