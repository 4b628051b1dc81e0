package main

// gemv8 multiplies eight rows of weights at a time, as they are stored, with one token: weights are multiplied directly
// after they are unpacked. An iteration takes four blocks of 32 columns or one of 256.
//
// SI, BX, DI, R8 rows; R12 dst, R10 end of the weights, R14 what is prefetched; DX q, CX d, AX h or s; R15 place in d,
// h and s in bytes, q is eight times as far; R9 its end.
type gemv8 struct {
	*Kernel
	b            Block
	accumulators []any       // four in registers, the others on the stack
	scales       ScalePlaces // of blocks of 256
	sums         [8][]*Sum   // of each block of the iteration: two, of low and of high nibbles, or one
	parts        [8]int      // multiplied so far
}

func writeGEMV8(k *Kernel) {
	g := &gemv8{Kernel: k, b: k.Format.Block()}
	_, k.highAsTheyLie = k.Set.(avxvnni)
	g.assignStorage()
	g.loadArguments()
	outputs := k.Here("outputs")
	g.clearSums()
	blocks := k.Here("blocks")
	stored := max(1, 128/g.b.Columns)
	for i := range stored {
		g.multiplyStoredBlock(i)
	}
	k.EndPrefetch()
	k.Op("ADDQ", stored*g.b.Bytes, SI)
	k.Op("ADDQ", stored*g.b.Bytes, BX)
	k.Op("ADDQ", 4*stored*g.b.Columns/32, R15)
	k.Op("CMPQ", R15, R9)
	k.Op("JLT", blocks)
	g.storeSums()
	k.Op("LEAQ", At(BX).Times(R8, 2), SI)
	k.Op("CMPQ", SI, R10)
	k.Op("JLT", outputs)
	k.Return()
}

func (g *gemv8) assignStorage() {
	for i := range g.b.Accumulators() {
		if i < 4 {
			g.accumulators = append(g.accumulators, g.Vec())
		} else {
			g.accumulators = append(g.accumulators, g.Local(g.Set.Width()))
		}
	}
	if g.b.Columns > 32 {
		step := g.Set.Width()
		g.scales = ScalePlaces{g.Local(8 * step), g.Local(8 * step), step}
	}
}

func (g *gemv8) loadArguments() {
	g.ToArgs(AX)
	g.Load(AX, "dst", R12, "w", SI, "wBytes", R10, "n", R9, "q", DX, "d", CX, g.Scheme.Sums(), AX)
	g.Op("ADDQ", SI, R10)
	g.RowBytes(R9, DI)
	g.RowPointers()
	g.Op("LEAQ", At(SI).Plus(8192).Times(DI, 8), R14)
	g.Op("SHRQ", 3, R9)
	g.prefetching = &prefetcher{at: R14}
}

func (g *gemv8) clearSums() {
	g.Op("LEAQ", At(SI).Times(DI, 1), BX)
	g.Op("XORL", R15, R15)
	for i, acc := range g.accumulators {
		if i < 4 {
			g.Op("VXORPS", acc, acc, acc)
		} else {
			g.Op("VMOVUPS", g.accumulators[0], acc)
		}
	}
}

func (g *gemv8) multiplyStoredBlock(i int) {
	rows := panelRows.Plus(i * g.b.Bytes)
	var scale Vec
	if g.b.Columns == 32 {
		scale = g.Scales(rows, 0)
	} else {
		g.Format.StoreScales(g.Kernel, rows, g.scales)
	}
	g.Format.Unpack(g.Kernel, rows, func(block, part int, w Vec) {
		block += i
		g.multiplyColumns(block, part, w)
		if g.parts[block]++; g.parts[block]%8 != 0 {
			return
		}
		if g.b.Columns == 32 {
			g.addBlock(block, scale)
			g.Free(scale)
		} else {
			g.addBlock(block, g.scales.Scales.Plus(block*g.scales.Step))
		}
	})
	g.Loaded(0)
}

// multiplyColumns adds the products of four columns to the sum of the low or of the high nibbles. The first sum of a
// block begins with the correction.
func (g *gemv8) multiplyColumns(block, part int, w Vec) {
	sum, high, t := 0, block%2 == 1, g.tokenAddress(block)
	if g.b.Columns == 32 {
		sum, high = part/4, part >= 4
	}
	if g.parts[block]%8 == 0 {
		g.sums[block] = make([]*Sum, max(1, 64/g.b.Columns))
	}
	sums := g.sums[block][sum : sum+1]
	if sums[0] == nil {
		var c Correction
		if sum == 0 {
			c = g.correctionFor(t, 0)
		}
		sums[0] = g.Set.Start(g.Kernel, c, 1, 1)[0][0]
		sums[0].times16 = high && g.highAsTheyLie
	}
	g.Set.MultiplyAdd(g.Kernel, sums, []Vec{w}, t.Q.Plus(4*part))
	g.Free(w)
}

func (g *gemv8) tokenAddress(block int) Token {
	at := func(base Reg, bytes int) Mem { return At(base).Times(R15, bytes/4).Plus(bytes * block) }
	return Token{Q: at(DX, 32), D: at(CX, 4), S: at(AX, 4)}
}

// addBlock adds the products of a block of 32 columns, times scale and d, less minimum·s, to its accumulator.
func (g *gemv8) addBlock(block int, scale any) {
	t := g.tokenAddress(block)
	total := g.Set.Finish(g.Kernel, g.correctionFor(t, 0), g.sums[block]...)
	place := g.accumulators[block%len(g.accumulators)]
	acc := g.Set.ScaleAdd(g.Kernel, total, scale, t.D, place)
	if g.Scheme.Minima {
		g.Set.SubtractMinimum(g.Kernel, g.scales.Minima.Plus(block*g.Set.Width()), t.S, acc)
	}
	if m, ok := place.(Mem); ok {
		g.Op("VMOVUPS", acc, m)
		g.Free(acc)
	}
}

// storeSums adds the accumulators and stores them at dst, which advances.
func (g *gemv8) storeSums() {
	var v []Vec
	for i, acc := range g.accumulators {
		if i < 4 {
			v = append(v, acc.(Vec))
		} else {
			g.Op("VADDPS", acc, v[i-4], v[i-4])
		}
	}
	g.addFour(v)
	g.Op("VMOVUPS", v[0], At(R12))
	g.Op("ADDQ", g.Set.Width(), R12)
}
