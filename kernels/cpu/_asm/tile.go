package main

// tile multiplies one or two packed panels with up to 16 tokens and adds the products to sums in memory, of which each
// accumulator, token and output has one.
//
// SI weights, AX scales, BX minima of the panel, DI sums; the others as in EachToken.
type tile struct {
	*Kernel
	panels, atATime int
	waiting         Mem // sums of signed weights
}

func tileOf(panels, atATime int) func(k *Kernel) {
	return func(k *Kernel) {
		t := &tile{Kernel: k, panels: panels, atATime: atATime}
		t.loadArguments()
		block := k.Here("block")
		t.multiplyBlock()
		k.advanceAccumulator("MOVQ", DI, t.Slot("end"))
		width := k.Set.Width()
		k.Op("ADDQ", 8*width, SI)
		k.Op("ADDQ", 2*width, AX)
		k.Op("ADDQ", width, BX)
		k.Op("ADDQ", 32, DX)
		k.Op("ADDQ", 4, CX)
		k.Op("SUBQ", 8*width, t.Slot("left"))
		k.Op("JNZ", block)
		k.Return()
	}
}

func (t *tile) loadArguments() {
	t.ToArgs(AX)
	if t.Scheme.Signed() {
		t.waiting = t.Aligned(R8, maxTokens*t.Set.Width())
		t.AlignStack(R8)
	}
	t.Load(AX, "acc", DI, "accBytes", R12, "w", SI, "q", DX, "d", CX, "n", R9, "tokens", R11)
	t.Op("MOVQ", R11, t.Slot("tokens"))
	t.Op("MOVQ", R9, R10)
	t.Op("SHRQ", 3, R10)
	t.keepPrefetch(AX, R14)
	t.Load(AX, "wBytes", R13)
	if t.panels == 2 {
		t.Op("SHRQ", 1, R13)
		t.Op("SHRQ", 1, R12)
		t.Op("MOVQ", R12, R8)
		t.Op("MOVQ", R13, t.Slot("wBytes"))
		for _, field := range []string{"dsBytes", "minsBytes"} {
			t.Load(AX, field, R14)
			t.Op("SHRQ", 1, R14)
			t.Op("MOVQ", R14, t.Slot(field))
		}
	}
	t.Op("MOVQ", R13, t.Slot("left"))
	t.Op("ADDQ", DI, R12)
	t.Op("MOVQ", R12, t.Slot("end"))
	t.Op("MOVQ", DI, R12)
	t.Load(AX, t.Scheme.Sums(), R15, "mins", BX, "ds", AX)
	t.Op("SUBQ", CX, R15)
	t.Op("LEAQ", At(R15).Times(R10, 1), BP)
}

// multiplyBlock prefetches the next memory meanwhile, but not with two panels.
func (t *tile) multiplyBlock() {
	if t.Scheme.Signed() {
		t.prefetchNext(R13)
		t.multiplySignedHalves(t.waiting, At(AX), func(half int) []Vec {
			w := t.Vecs(4)
			for i := range w {
				t.Op("VMOVDQU", At(SI).Plus(128*half+32*i), w[i])
			}
			return w
		})
		return
	}
	if t.panels == 2 && t.Scheme.Halves {
		t.multiplyHalves()
		return
	}
	var weights []Weights
	for p := range t.panels {
		weights = append(weights, t.loadPanel(p))
	}
	if t.panels == 1 {
		t.prefetchNext(R13)
	}
	t.EachToken(t.atATime, t.panels, func(tokens []Token) { t.MultiplyTokens(tokens, weights) })
}

// multiplyHalves is multiplyBlock for two panels whose half blocks have scales of their own: one half after the other,
// as there are not enough registers for the sums of both.
func (t *tile) multiplyHalves() {
	t.Op("MOVQ", R12, t.Slot("sums"))
	for half := range 2 {
		if half == 1 {
			t.Op("MOVQ", t.Slot("sums"), R12)
		}
		var panels []halfPanel
		for p := range t.panels {
			panels = append(panels, t.loadHalf(p, half))
		}
		t.EachToken(t.atATime, t.panels, func(tokens []Token) { t.multiplyHalf(tokens, panels, half) })
		for _, p := range panels {
			t.Free(append(p.parts, p.scales)...)
		}
	}
}

// halfPanel is sixteen columns of a panel.
type halfPanel struct {
	parts  []Vec
	scales Vec
}

func (t *tile) loadHalf(panel, half int) halfPanel {
	width := t.Set.Width()
	h := halfPanel{t.Vecs(4), t.Vec()}
	w := t.panelAt(SI, panel, "wBytes")
	for i, v := range h.parts {
		t.Op("VPADDB", w.Plus(width*(4*half+i)), t.Bytes(t.Scheme.Offset), v)
	}
	t.Op("VMOVUPS", t.panelAt(AX, panel, "dsBytes").Plus(width*half), h.scales)
	return h
}

func (t *tile) multiplyHalf(tokens []Token, panels []halfPanel, half int) {
	var sums [][]*Sum
	for _, token := range tokens {
		sums = append(sums, t.Set.Start(t.Kernel, t.correctionFor(token, half), 1, len(panels))[0])
	}
	for i := range 4 {
		var w []Vec
		for _, p := range panels {
			w = append(w, p.parts[i])
		}
		for j, token := range tokens {
			t.Set.MultiplyAdd(t.Kernel, sums[j], w, token.Q.Plus(16*half+4*i))
		}
	}
	for j, token := range tokens {
		d := t.broadcastIfShared(token.D, len(panels)).(Vec)
		for p, panel := range panels {
			acc := t.Set.ScaleAdd(t.Kernel, sums[j][p].total, panel.scales, d, token.Sums[p])
			t.Op("VMOVUPS", acc, token.Sums[p])
			t.Free(acc)
		}
		t.Free(d)
	}
}

// loadPanel loads 32 columns of a panel.
func (t *tile) loadPanel(panel int) (w Weights) {
	w.Parts = t.loadParts(t.panelAt(SI, panel, "wBytes"), t.Scheme.Offset)
	w.loadScales(t.Kernel, t.panelAt(AX, panel, "dsBytes"), func() Mem { return t.panelAt(BX, panel, "minsBytes") })
	return w
}

// panelAt returns the place of the first panel, or of the second, to which it sets R13.
func (t *tile) panelAt(base Reg, panel int, bytes string) Mem {
	if panel == 0 {
		return At(base)
	}
	t.Op("MOVQ", t.Slot(bytes), R13)
	return At(base).Times(R13, 1)
}

// advanceAccumulator sets R12 to the sums of the next block. After those of the last accumulator these are the sums of
// the first one, which op sets.
func (k *Kernel) advanceAccumulator(op string, first any, end Mem) {
	next := k.Label("accumulator")
	k.Op("CMPQ", R12, end)
	k.Op("JNE", next)
	k.Op(op, first, R12)
	k.Place(next)
}
