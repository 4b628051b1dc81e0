package main

// Token is the place of a token's numbers.
type Token struct {
	Q    Mem   // 32 activations, as signed bytes
	D    Mem   // their scale
	S    Mem   // the sum to multiply minima by, or the two sums of bytes for an offset
	Sums []Mem // of the panels
}

// Weights are 32 columns of a panel.
type Weights struct {
	Parts  [8]Vec // four columns each
	Scales [2]any // the second are minima, or those of second half blocks
}

// loadParts loads 32 columns of a panel, and adds an offset to those that are stored with a sign.
func (k *Kernel) loadParts(from Mem, offset int) (w [8]Vec) {
	for part := range w {
		w[part] = k.Vec()
		m := from.Plus(k.Set.Width() * part)
		if offset == 0 {
			k.Op("VMOVDQU", m, w[part])
		} else {
			k.Op("VPADDB", m, k.Bytes(offset), w[part])
		}
	}
	return w
}

// loadScales sets the scales to those in memory, or loads them to registers if the set has enough.
func (w *Weights) loadScales(k *Kernel, from Mem, minima func() Mem) {
	for i := range w.Scales {
		switch {
		case i == 1 && k.Scheme.Minima:
			from = minima()
		case i == 1 && !k.Scheme.Halves:
			return
		case i == 1:
			from = from.Plus(k.Set.Width())
		}
		w.Scales[i] = from
		if i < k.Set.InRegisters() {
			v := k.Vec()
			k.Op("VMOVUPS", from, v)
			w.Scales[i] = v
		}
	}
}

func (w Weights) freeRegisters(k *Kernel) {
	k.Free(w.Parts[:]...)
	for _, scale := range w.Scales {
		if v, ok := scale.(Vec); ok {
			k.Free(v)
		}
	}
}

// EachToken calls multiply for the tokens, atATime at a time: one, two or four. If fewer than four are left, it takes
// two and then one. Products of several tokens in turn do not wait for each other: a sum of eight in a row takes 40
// cycles.
//
// DX the first token's q, CX its d; R9, R10 a token's bytes of q and of d, s or h; R15 from d to s or h, BP the same of
// the next token; R12 the first token's sums, R8 from the sums of a panel to those of the next. R13, R14 and R12 go on
// from token to token, R11 tokens left. With four tokens SI and DI are q and d of the third one, and are kept.
func (k *Kernel) EachToken(atATime, panels int, multiply func([]Token)) {
	tokens := k.tokenAddresses(panels)
	k.Op("MOVQ", DX, R13)
	k.Op("MOVQ", CX, R14)
	k.Op("MOVQ", k.Slot("tokens"), R11)
	if atATime == 1 {
		token := k.Here("token")
		multiply(tokens[:1])
		k.advanceTokens(1)
		k.Op("DECQ", R11)
		k.Op("JNZ", token)
		return
	}
	if atATime == 4 {
		k.eachFourTokens(tokens, multiply)
	}
	last, done := k.Label("last"), k.Label("done")
	k.Op("SUBQ", 2, R11)
	k.Op("JLT", last)
	pair := k.Here("pair")
	multiply(tokens[:2])
	k.advanceTokens(2)
	k.Op("SUBQ", 2, R11)
	k.Op("JGE", pair)
	k.Place(last)
	k.Op("ADDQ", 2, R11)
	k.Op("JZ", done)
	multiply(tokens[:1])
	k.Op("ADDQ", k.Set.Width(), R12)
	k.Place(done)
}

// eachFourTokens leaves fewer than four tokens.
func (k *Kernel) eachFourTokens(tokens []Token, multiply func([]Token)) {
	fewer := k.Label("fewer")
	k.Op("SUBQ", 4, R11)
	k.Op("JLT", fewer)
	k.Op("MOVQ", SI, k.Slot("SI"))
	k.Op("MOVQ", DI, k.Slot("DI"))
	four := k.Here("four")
	k.Op("LEAQ", At(R13).Times(R9, 2), SI)
	k.Op("LEAQ", At(R14).Times(R10, 2), DI)
	multiply(tokens)
	k.advanceTokens(4)
	k.Op("SUBQ", 4, R11)
	k.Op("JGE", four)
	k.Op("MOVQ", k.Slot("SI"), SI)
	k.Op("MOVQ", k.Slot("DI"), DI)
	k.Place(fewer)
	k.Op("ADDQ", 4, R11)
}

func (k *Kernel) advanceTokens(n int) {
	k.Op("LEAQ", At(R13).Times(R9, n), R13)
	k.Op("LEAQ", At(R14).Times(R10, n), R14)
	k.Op("ADDQ", n*k.Set.Width(), R12)
}

// tokenAddresses returns four tokens, of which the last two are at SI and DI.
func (k *Kernel) tokenAddresses(panels int) []Token {
	tokens := make([]Token, 4)
	for i := range tokens {
		q, d := At([]Reg{R13, SI}[i/2]), At([]Reg{R14, DI}[i/2])
		t := Token{Q: q, D: d, S: d.Times([]Reg{R15, BP}[i%2], 1)}
		if i%2 == 1 {
			t.Q, t.D = q.Times(R9, 1), d.Times(R10, 1)
		}
		t.Sums = []Mem{At(R12).Plus(i * k.Set.Width())}
		if panels == 2 {
			t.Sums = append(t.Sums, t.Sums[0].Times(R8, 1))
		}
		tokens[i] = t
	}
	return tokens
}

// tokenSums are the sums of a token with some panels: [half block, panel].
type tokenSums [][]*Sum

// MultiplyTokens adds the products of panels with some tokens to their sums in memory.
func (k *Kernel) MultiplyTokens(tokens []Token, panels []Weights) {
	for t, sums := range k.multiplyInOrder(tokens, panels, k.Set.Order(k.Scheme)) {
		k.addTokenProducts(tokens[t], panels, sums)
	}
}

func (k *Kernel) multiplyInOrder(tokens []Token, panels []Weights, order [][]int) []tokenSums {
	sums := make([]tokenSums, len(tokens))
	for t, token := range tokens {
		sums[t] = k.Set.Start(k, k.correctionFor(token, 0), k.Scheme.Scales(), len(panels))
	}
	for _, parts := range order {
		for t, token := range tokens {
			for _, part := range parts {
				var w []Vec
				for _, p := range panels {
					w = append(w, p.Parts[part])
				}
				half := part / 4 * (k.Scheme.Scales() - 1)
				k.Set.MultiplyAdd(k, sums[t][half], w, token.Q.Plus(4*part))
			}
		}
	}
	return sums
}

func (k *Kernel) correctionFor(t Token, half int) (c Correction) {
	if k.Scheme.Offset != 0 {
		c = Correction{Sums: t.S, Second: half == 1}
	}
	return c
}

// addTokenProducts adds the products with a token, times scale and d, less minimum·s, to its sums in memory.
func (k *Kernel) addTokenProducts(t Token, panels []Weights, sums tokenSums) {
	d, s := k.broadcastIfShared(t.D, len(panels)), any(nil)
	if k.Scheme.Minima {
		s = k.broadcastIfShared(t.S, len(panels))
	}
	for p, panel := range panels {
		var acc any = t.Sums[p]
		for half := range k.Scheme.Scales() {
			total := k.Set.Finish(k, k.correctionFor(t, half), sums[half][p])
			acc = k.Set.ScaleAdd(k, total, panel.Scales[half], d, acc)
		}
		if k.Scheme.Minima {
			k.Set.SubtractMinimum(k, panel.Scales[1], s, acc.(Vec))
		}
		k.Op("VMOVUPS", acc, t.Sums[p])
		k.Free(acc.(Vec))
	}
	for _, v := range []any{d, s} {
		if v, ok := v.(Vec); ok {
			k.Free(v)
		}
	}
}

func (k *Kernel) broadcastIfShared(number Mem, panels int) any {
	if panels == 1 {
		return number
	}
	v := k.Vec()
	k.Op("VBROADCASTSS", number, v)
	return v
}
