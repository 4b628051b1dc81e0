package main

// Token is where a token's numbers are.
type Token struct {
	Q    Mem   // 32 activations, as signed bytes
	D    Mem   // their scale
	S    Mem   // the sum that minima are multiplied by, or the two sums of bytes that an offset is
	Sums []Mem // of the panels
}

// Weights are 32 columns of a panel.
type Weights struct {
	Parts          [8]Vec // four columns each
	Scale, Minimum any
}

// EachToken calls multiply for the tokens, two at a time if so many are asked for, and one that is left over.
//
// DX the first token's q, CX its d; R9, R10 a token's bytes of q and of d, s or h; R15 from d to s or h, BP the same of
// the next token; R12 the first token's sums, R8 from the sums of a panel to those of the next. R13, R14 and R12 go on
// from token to token, R11 tokens left.
func (k *Kernel) EachToken(count Mem, atATime, panels int, multiply func([]Token)) {
	width := k.Set.Width()
	tokens := make([]Token, 2)
	for i := range tokens {
		tokens[i] = Token{At(R13), At(R14), At(R14).Times([]Reg{R15, BP}[i], 1), []Mem{At(R12).Plus(i * width)}}
		if i == 1 {
			tokens[i].Q, tokens[i].D = At(R13).Times(R9, 1), At(R14).Times(R10, 1)
		}
		if panels == 2 {
			tokens[i].Sums = append(tokens[i].Sums, tokens[i].Sums[0].Times(R8, 1))
		}
	}
	k.Op("MOVQ", DX, R13)
	k.Op("MOVQ", CX, R14)
	k.Op("MOVQ", count, R11)
	if atATime == 1 {
		token := k.Here("token")
		multiply(tokens[:1])
		k.Op("ADDQ", R9, R13)
		k.Op("ADDQ", R10, R14)
		k.Op("ADDQ", width, R12)
		k.Op("DECQ", R11)
		k.Op("JNZ", token)
		return
	}
	last, done := k.Label("last"), k.Label("done")
	k.Op("SUBQ", 2, R11)
	k.Op("JLT", last)
	pair := k.Here("pair")
	multiply(tokens)
	k.Op("LEAQ", At(R13).Times(R9, 2), R13)
	k.Op("LEAQ", At(R14).Times(R10, 2), R14)
	k.Op("ADDQ", 2*width, R12)
	k.Op("SUBQ", 2, R11)
	k.Op("JGE", pair)
	k.Place(last)
	k.Op("ADDQ", 2, R11)
	k.Op("JZ", done)
	multiply(tokens[:1])
	k.Op("ADDQ", width, R12)
	k.Place(done)
}

// MultiplyTokens adds the products of panels with some tokens to their sums.
func (k *Kernel) MultiplyTokens(tokens []Token, panels []Weights) {
	sums := make([][]*Sum, len(tokens))
	for t, token := range tokens {
		sums[t] = k.Set.Start(k, k.offsetSum(token), len(panels))
	}
	for part := range 8 {
		var w []Vec
		for _, p := range panels {
			w = append(w, p.Parts[part])
		}
		for t, token := range tokens {
			k.Set.MultiplyAdd(k, sums[t], w, token.Q.Plus(4*part))
		}
	}
	for t, token := range tokens {
		k.Epilogue(token, panels, sums[t])
	}
}

// offsetSum is what the offset of the weights is multiplied by; the zero value if they have none.
func (k *Kernel) offsetSum(t Token) (none Mem) {
	if k.Offset == 0 {
		return none
	}
	return t.S
}

// Epilogue adds the products with a token, times scale and d, less minimum·s, to its sums in memory.
func (k *Kernel) Epilogue(t Token, panels []Weights, sums []*Sum) {
	minima := k.Format.Block().Minima
	d, s := k.shared(t.D, len(panels)), any(nil)
	if minima {
		s = k.shared(t.S, len(panels))
	}
	for p, panel := range panels {
		total, acc := k.Set.Finish(k, k.offsetSum(t), sums[p]), k.Vec()
		k.Op("VMOVUPS", t.Sums[p], acc)
		k.Set.ScaleAdd(k, total, panel.Scale, d, acc)
		if minima {
			k.Set.SubtractMinimum(k, panel.Minimum, s, acc)
		}
		k.Op("VMOVUPS", acc, t.Sums[p])
		k.Free(total, acc)
	}
	for _, v := range []any{d, s} {
		if v, ok := v.(Vec); ok {
			k.Free(v)
		}
	}
}

// shared is a number for all outputs: in a register if several panels take it.
func (k *Kernel) shared(number Mem, panels int) any {
	if panels == 1 {
		return number
	}
	v := k.Vec()
	k.Op("VBROADCASTSS", number, v)
	return v
}
