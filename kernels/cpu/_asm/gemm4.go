package main

// gemm4 multiplies four outputs with up to eight tokens, four blocks of 32 columns at a time. Each block has a quarter
// of a register: a register of weights is sixteen columns of each block of one row. Activations are interleaved in the
// same way beforehand ([Acts]). The number of loads limits the speed, and a load that crosses a line counts twice: so
// weights are loaded in whole registers and then moved to their places. For blocks of 256 columns the second half has
// its own sums, which are kept in memory. The bits are those of gemv.
//
// SI, BX, DI rows, R12 dst, R8 end of the weights, R15 what is prefetched; DX q, CX d, R13 h or s, R14 place in d, h
// and s in bytes, q is eight times as far. For a token R11 is R14 in that token, and AX leads q there; R10 and R9 lead
// to the next, and R9 is the end of R14. BP is the stack from where it is aligned.
type gemm4 struct {
	*Kernel
	sums  []Vec // of each token: lane r of quarter b is of row r and block b
	later []Mem // of second halves
}

// gemm4Tokens is the maximum number of tokens of gemm4.
const gemm4Tokens = 8

func writeGEMM4(k *Kernel) {
	k.UnsignWeights()
	b := k.Format.Block()
	columns := max(b.Columns, 128) // at a time
	g := &gemm4{Kernel: k}
	kept := k.Aligned(BP, 128)
	if columns > 128 {
		for range gemm4Tokens {
			g.later = append(g.later, k.Aligned(BP, 64))
		}
	}
	g.sums = g.Vecs(gemm4Tokens)
	g.loadArguments()

	outputs := k.Here("outputs")
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.Op("XORL", R14, R14)
	g.clearSums()
	blocks := k.Here("blocks")
	for half := range columns / 128 {
		q := k.Format.UnpackQuarters(k, panelRows, half, kept)
		g.multiplyEachToken(q, half)
		k.Op("ADDQ", 16, R14)
		q.freeRegisters(k)
	}
	k.EndPrefetch()
	k.Op("ADDQ", b.Bytes*columns/b.Columns, SI)
	k.Op("ADDQ", b.Bytes*columns/b.Columns, BX)
	k.Op("CMPQ", R14, R9)
	k.Op("JLT", blocks)
	g.storeSums()
	k.Op("LEAQ", At(BX).Times(DI, 2), SI)
	k.Op("CMPQ", SI, R8)
	k.Op("JLT", outputs)
	k.Return()
}

func (g *gemm4) loadArguments() {
	g.ToArgs(R14)
	g.AlignStack(BP)
	g.Load(R14, "dst", R12, "w", SI, "wBytes", R8, "q", DX, "d", CX, "n", R10, "tokens", R11, g.Scheme.Sums(), R13)
	g.Op("MOVQ", R11, g.Slot("tokens"))
	g.Op("ADDQ", SI, R8)
	g.RowBytes(R10, DI)
	pages := 8192
	if g.later != nil || g.Scheme.Bits == 8 {
		pages = 4096
	}
	g.Op("LEAQ", At(SI).Plus(pages).Times(DI, 4), R15)
	g.Op("MOVQ", R10, R9)
	g.Op("SHRQ", 3, R9)
	g.prefetching = &prefetcher{at: R15}
}

func (g *gemm4) clearSums() {
	for i, sum := range g.sums {
		g.Op("VPXOR", sum, sum, sum)
		if g.later != nil {
			g.Op("VMOVUPS", sum, g.later[i])
		}
	}
}

func (g *gemm4) multiplyEachToken(q Quarters, half int) {
	done := g.Label("done")
	g.Op("MOVQ", R14, R11)
	g.Op("MOVQ", DX, AX)
	for t, sum := range g.sums {
		if t > 0 {
			g.Op("CMPQ", g.Slot("tokens"), t)
			g.Op("JEQ", done)
			g.Op("ADDQ", R10, AX)
			g.Op("ADDQ", R9, R11)
		}
		if half == 0 {
			g.multiplyToken(q, sum)
			continue
		}
		late := g.Vec()
		g.Op("VMOVUPS", g.later[t], late)
		g.multiplyToken(q, late)
		g.Op("VMOVUPS", late, g.later[t])
		g.Free(late)
	}
	g.Place(done)
}

func (g *gemm4) multiplyToken(q Quarters, sum Vec) {
	if g.Scheme.Halves {
		g.multiplyColumns(q, 0, 1, sum)
		g.multiplyColumns(q, 1, 2, sum)
		return
	}
	g.multiplyColumns(q, 0, 2, sum)
	if g.Scheme.Minima {
		s := g.spreadToQuarters(R13)
		g.Op("VFNMADD231PS", s, q.Scales[1], sum)
		g.Free(s)
	}
}

// multiplyColumns is multiplyToken for the first sixteen columns of blocks, the second, or both.
func (g *gemm4) multiplyColumns(q Quarters, from, to int, sum Vec) {
	var activations []Vec
	for i := from; i < to; i++ {
		v := g.Vec()
		g.Op("VMOVDQU", At(AX).Times(R14, 8).Plus(64*i), v)
		activations = append(activations, v)
	}
	var p [4]Vec
	for row := range p {
		p[row] = g.Vec()
		g.Op("VPXOR", p[row], p[row], p[row])
		for i, v := range activations {
			g.Op("VPDPBUSD", v, q.Columns[row][from+i], p[row])
		}
	}
	g.Free(activations...)
	total := g.startTotal(from == 1)
	g.horizontalSum(p, total)
	d := g.spreadToQuarters(CX)
	g.Op("VMULPS", d, q.Scales[from], d)
	g.Op("VCVTDQ2PS", total, total)
	g.Op("VFMADD231PS", total, d, sum)
	g.Free(d, total)
}

// startTotal begins a total with the correction for the offset of the weights.
func (g *gemm4) startTotal(second bool) Vec {
	total := g.Vec()
	if g.Scheme.Offset == 0 {
		g.Op("VPXOR", total, total, total)
		return total
	}
	g.Op("VPMADDWD", At(R13).Times(R11, 1), g.offsetWords(second).X(), total.X())
	g.Op("VPERMD", total, g.quarterIndexes(), total)
	return total
}

// quarterIndexes returns the number b in each lane of quarter b.
func (g *gemm4) quarterIndexes() Vec { return g.Lookup("quarters", 4, eachFour(0, 1, 2, 3)) }

// horizontalSum adds to total, for each row and quarter, its four lanes. If these fit in 16 bits, words are combined
// and added by a multiplication by 1: sums of eight products of 31 and 127 fit, sums of four of 63 and 127, as are
// those of half blocks, and of sixteen of 15 and 127.
func (g *gemm4) horizontalSum(p [4]Vec, total Vec) {
	if g.Scheme.Bits == 8 {
		g.sumLanes(p, total)
		return
	}
	g.Op("VPACKSSDW", p[1], p[0], p[1])
	g.Op("VPACKSSDW", p[3], p[2], p[3])
	g.Op("VSHUFPS", 0x88, p[3], p[1], p[0])
	g.Op("VSHUFPS", 0xdd, p[3], p[1], p[2])
	if g.Scheme.Bits == 4 {
		g.Op("VPADDW", p[2], p[0], p[0])
	} else {
		g.Op("VPDPWSSD", g.Words(1), p[2], total)
	}
	g.Op("VPDPWSSD", g.Words(1), p[0], total)
	g.Free(p[:]...)
}

// sumLanes is horizontalSum of numbers of any size.
func (g *gemm4) sumLanes(p [4]Vec, total Vec) {
	t := g.Vec()
	for i := 0; i < 4; i += 2 {
		g.Op("VPUNPCKLDQ", p[i+1], p[i], t)
		g.Op("VPUNPCKHDQ", p[i+1], p[i], p[i])
		g.Op("VPADDD", t, p[i], p[i])
	}
	g.Op("VPUNPCKLQDQ", p[2], p[0], t)
	g.Op("VPUNPCKHQDQ", p[2], p[0], p[0])
	g.Op("VPADDD", t, total, total)
	g.Op("VPADDD", p[0], total, total)
	g.Free(t)
	g.Free(p[:]...)
}

// spreadToQuarters returns the token's four numbers from base on, one in each quarter.
func (g *gemm4) spreadToQuarters(base Reg) Vec {
	v := g.Vec()
	g.Op("VMOVUPS", At(base).Times(R11, 1), v.X())
	g.Op("VPERMPS", v, g.quarterIndexes(), v)
	return v
}

// storeSums adds the quarters of each token's sums, (0+2)+(1+3), and stores them at dst, which advances to the next
// outputs.
func (g *gemm4) storeSums() {
	done := g.Label("put")
	g.ToArgs(R11)
	g.Load(R11, "stride", AX)
	g.Op("SHLQ", 2, AX)
	g.Op("MOVQ", R12, R11)
	v := g.Vec()
	for t, sum := range g.sums {
		if t > 0 {
			g.Op("CMPQ", g.Slot("tokens"), t)
			g.Op("JEQ", done)
			g.Op("ADDQ", AX, R11)
		}
		if g.later != nil {
			g.Op("VADDPS", g.later[t], sum, sum)
		}
		g.Op("VEXTRACTF64X4", 1, sum, v.Y())
		g.Op("VADDPS", sum, v, v)
		g.Op("VEXTRACTF128", 1, v.Y(), sum.X())
		g.Op("VADDPS", sum.X(), v.X(), v.X())
		g.Op("VMOVUPS", v.X(), At(R11))
	}
	g.Free(v)
	g.Place(done)
	g.Op("ADDQ", 16, R12)
}
