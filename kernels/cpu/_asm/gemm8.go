package main

// maxTokens is the maximum number of tokens of gemm8 and a tile.
const maxTokens = 16

// gemm8 multiplies eight rows of weights at a time, as they are stored, with some tokens: each block is unpacked once
// and multiplied with every token; sums are kept on the stack. A block of 32 columns stays in registers; one of 256 is
// unpacked to the stack and multiplied in blocks of 32 like a packed panel.
//
// SI, BX, DI, R8 rows; AX the stack from where it is aligned; the others as in EachToken. While blocks of 256 are
// multiplied, BX and R8 are places in the unpacked weights and their scales.
type gemm8 struct {
	*Kernel
	b                       Block
	unpacked, waiting, sums Mem // at multiples of a register's width
	scales                  ScalePlaces
}

func writeGEMM8(k *Kernel) {
	k.UnsignWeights()
	g := &gemm8{Kernel: k, b: k.Format.Block()}
	g.layOutStack()
	g.loadArguments()
	outputs := k.Here("outputs")
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	g.clearSums()
	k.ToArgs(R14)
	k.Load(R14, "q", DX, "d", CX)
	k.Op("MOVQ", R9, R13)
	k.Op("SHRQ", log2(g.b.Columns), R13)
	k.Op("MOVQ", R13, g.Slot("left"))

	block := k.Here("block")
	switch {
	case g.b.Columns == 256:
		g.multiplyBlock256()
	case k.Scheme.Signed():
		g.multiplySignedBlock()
	default:
		g.multiplyBlock32()
	}
	k.Op("ADDQ", g.b.Bytes, SI)
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.Op("DECQ", g.Slot("left"))
	k.Op("JNZ", block)

	k.Op("LEAQ", At(BX).Times(R8, 2), SI)
	g.storeSums()
	k.Op("CMPQ", SI, g.Slot("end"))
	k.Op("JLT", outputs)
	k.Return()
}

func (g *gemm8) layOutStack() {
	width, blocks := g.Set.Width(), g.b.Columns/32
	g.scales.Step = g.Scheme.Scales() * width
	g.scales.Scales = g.Aligned(AX, blocks*g.scales.Step)
	if g.Scheme.Minima {
		g.scales.Minima = g.Aligned(AX, blocks*width)
	}
	switch {
	case blocks > 1:
		g.unpacked = g.Aligned(AX, 8*blocks*width)
	case g.Scheme.Signed():
		g.waiting = g.Aligned(AX, maxTokens*width)
	}
	g.sums = g.Aligned(AX, width*g.b.Accumulators()*maxTokens)
}

func (g *gemm8) loadArguments() {
	g.ToArgs(R14)
	g.AlignStack(AX)
	g.Load(R14, "dst", R11, "tokens", R12, "w", SI, "wBytes", R13, "n", R9, g.Scheme.Sums(), R15)
	g.Op("MOVQ", R11, g.Slot("dst"))
	g.Op("MOVQ", R12, g.Slot("tokens"))
	g.Op("ADDQ", SI, R13)
	g.Op("MOVQ", R13, g.Slot("end"))
	g.Op("IMUL3Q", g.Set.Width()*g.b.Accumulators(), R12, R12)
	g.Op("LEAQ", g.sums.Times(R12, 1), R12)
	g.Op("MOVQ", R12, g.Slot("sumsEnd"))
	g.Op("LEAQ", g.scales.Scales.Plus(g.b.Columns/32*g.scales.Step), R12)
	g.Op("MOVQ", R12, g.Slot("panelEnd"))
	g.RowBytes(R9, DI)
	g.RowPointers()
	g.Op("LEAQ", At(SI).Plus(8192).Times(DI, 8), R11)
	g.Op("MOVQ", R11, g.Slot("prefetch"))
	g.prefetching = &prefetcher{at: R14, kept: g.Slot("prefetch").String()}
	g.Op("MOVQ", R9, R10)
	g.Op("SHRQ", 3, R10)
	g.Op("SUBQ", g.Field(R14, "d"), R15)
	g.Op("LEAQ", At(R15).Times(R10, 1), BP)
}

// multiplyBlock32 unpacks a block of 32 columns to registers.
func (g *gemm8) multiplyBlock32() {
	var w Weights
	g.Phase(func() {
		g.Format.Unpack(g.Kernel, panelRows, func(_, part int, v Vec) { w.Parts[part] = v })
		if g.Set.InRegisters() > 0 {
			w.Scales[0] = g.Scales(panelRows, 0)
		} else {
			g.Format.StoreScales(g.Kernel, panelRows, g.scales)
			w.Scales[0] = g.scales.Scales
		}
	})
	g.EndPrefetch()
	g.EachToken(2, 1, func(t []Token) { g.MultiplyTokens(t, []Weights{w}) })
	w.freeRegisters(g.Kernel)
	g.advanceBlock32()
	g.advanceAccumulator("LEAQ", g.sums, g.Slot("sumsEnd"))
}

func (g *gemm8) advanceBlock32() {
	g.Op("ADDQ", 32, DX)
	g.Op("ADDQ", 4, CX)
}

// multiplySignedBlock is multiplyBlock32 for signed weights, half by half.
func (g *gemm8) multiplySignedBlock() {
	g.multiplySignedHalves(g.waiting, g.scales.Scales, func(half int) []Vec {
		w := panelRows.Load(g.Kernel, 2, half)
		if half == 0 {
			g.Format.StoreScales(g.Kernel, panelRows, g.scales)
		}
		g.EndPrefetch()
		return w
	})
	g.advanceBlock32()
	g.advanceAccumulator("LEAQ", g.sums, g.Slot("sumsEnd"))
}

// multiplyBlock256 unpacks a block of 256 columns to the stack. Each of its blocks of 32 columns has its own
// accumulator.
func (g *gemm8) multiplyBlock256() {
	width := g.Set.Width()
	g.Phase(func() {
		g.Format.StoreScales(g.Kernel, panelRows, g.scales)
		g.Format.Unpack(g.Kernel, panelRows, func(block, part int, w Vec) {
			g.Op("VMOVDQU", w, g.unpacked.Plus((8*block+part)*width))
			g.Free(w)
		})
	})
	g.EndPrefetch()
	g.Op("LEAQ", g.unpacked, BX)
	g.Op("LEAQ", g.scales.Scales, R8)
	block := g.Here("block32")
	w := Weights{Parts: g.loadParts(At(BX), 0)}
	w.loadScales(g.Kernel, At(R8), func() Mem { return At(R8).Plus(g.scales.Minima.Offset - g.scales.Scales.Offset) })
	g.EachToken(2, 1, func(t []Token) { g.MultiplyTokens(t, []Weights{w}) })
	w.freeRegisters(g.Kernel)
	g.advanceBlock32()
	g.Op("ADDQ", 8*width, BX)
	g.Op("ADDQ", g.scales.Step, R8)
	g.Op("CMPQ", R8, g.Slot("panelEnd"))
	g.Op("JNE", block)
	g.Op("LEAQ", At(DI).Times(DI, 2), R8)
	g.Op("LEAQ", g.sums, R12)
}

// clearSums clears the sums and sets R12 to their beginning.
func (g *gemm8) clearSums() {
	zero := g.Vec()
	g.Op("VXORPS", zero, zero, zero)
	g.Op("LEAQ", g.sums, R12)
	clear := g.Here("clear")
	for i := range 4 {
		g.Op("VMOVUPS", zero, At(R12).Plus(g.Set.Width()*i))
	}
	g.Op("SUBQ", -4*g.Set.Width(), R12)
	g.Op("CMPQ", R12, g.Slot("sumsEnd"))
	g.Op("JLT", clear)
	g.Op("LEAQ", g.sums, R12)
	g.Free(zero)
}

// storeSums adds the accumulators of each token and stores them at dst, which advances to the next outputs.
func (g *gemm8) storeSums() {
	g.Op("LEAQ", g.sums, R12)
	g.ToArgs(R14)
	g.Load(R14, "stride", DX)
	g.Op("MOVQ", g.Slot("dst"), BX)
	g.Op("ADDQ", g.Set.Width(), g.Slot("dst"))
	g.Op("MOVQ", g.Slot("tokens"), R11)
	g.sumTokens(func(v []Vec) {
		if g.b.Accumulators() == 8 {
			g.addSecondFour(v)
		}
	}, func(Vec) {})
}
