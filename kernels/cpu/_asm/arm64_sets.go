package main

// armSet is an instruction set of arm64: how it multiplies signed bytes, and its layout of a panel. A group of a panel
// is four of its sixteen rows; sixteen columns of it are four registers.
type armSet interface {
	Name() string     // at the end of the names of microkernels
	Packs() string    // at the end of the names of those that pack for it
	FourTokens() bool // whether tile takes four tokens at a time

	// Dot sets p to four integers with the sum of the products of all weights w and activations q. It uses t.
	Dot(a *arm, p, t V, w, q []V)

	// Interleave sets the registers to, sixteen columns of a group, from V0-V3, each with those of one row. It uses
	// V8-V11.
	Interleave(a *arm, to []V)
	// Source returns the row and the column that Interleave moves to byte i of register r.
	Source(r, i int) (row, column int)

	// LoadTokens loads the activations of a block, at R6, R7 and so on, to registers up to V7.
	LoadTokens(a *arm, tokens int)
	// Products multiplies a group's block, 32 columns in V8-V15, with all tokens. The results are integers for four
	// rows in a register for each token, from sums[0] on. With halves, those of columns 16 to 31 are separate, from
	// sums[1] on. Four registers from free on are then free.
	Products(a *arm, tokens int, halves bool) (sums [2]V, free V)
}

// neon multiplies pairs of bytes. A register of the panel has sixteen columns of a row. Two tokens take 60 operations
// for 256 products, as many as GEMV takes with Q8_0; the other formats save the unpacking.
type neon struct{}

func (neon) Name() string     { return "NEON" }
func (neon) Packs() string    { return "By16" }
func (neon) FourTokens() bool { return false }

// Dot: |weight| ≤ 128 and |activation| ≤ 127, so two products add up to at most 32512 and fit in 16 bits.
func (neon) Dot(a *arm, p, t V, w, q []V) {
	for i := range w {
		to, add := p, "SADDLP"
		if i > 0 {
			to, add = t, "SADALP"
		}
		a.Word("SMULL", q[i], w[i], to)
		a.Word("SMLAL2", q[i], w[i], to)
		a.Word(add, to, p)
	}
}

func (neon) Interleave(a *arm, to []V) {
	for row, v := range to {
		a.Lanes("B16", "VMOV", V(row), v)
	}
}

func (neon) Source(r, i int) (row, column int) { return r, i }

func (neon) LoadTokens(a *arm, tokens int) {
	for t := range tokens {
		a.LoadPair(".P", At(tokenQ[t]).Plus(32), V(2*t))
	}
}

func (s neon) Products(a *arm, tokens int, halves bool) (sums [2]V, free V) {
	for half := range 2 {
		for t := range tokens {
			q := registerRange(2, V(2*t))
			if halves {
				q = q[half : half+1]
			}
			for row := range V(4) {
				w := []V{8 + V(4*half) + row, 12 + row}
				s.Dot(a, 4+row, 30, w[:len(q)], q)
			}
			a.sumRegisterLanes([4]V{4, 5, 6, 7}, V(16+2*half+t))
		}
		if !halves {
			break
		}
	}
	return [2]V{16, 18}, 12
}

// sumRegisterLanes sets to to the sums of the lanes of four registers, in this order; the registers are overwritten.
func (a *arm) sumRegisterLanes(v [4]V, to V) {
	a.Lanes("S4", "VADDP", v[1], v[0], v[0])
	a.Lanes("S4", "VADDP", v[3], v[2], v[2])
	a.Lanes("S4", "VADDP", v[2], v[0], to)
}

// sdot multiplies groups of four bytes. A register of the panel has the same four columns of four rows, which are
// multiplied with four activations in every lane. For four tokens 32 SDOT and 12 operations in float32 give 512
// products: 11 cycles with four units, together with 17 loads and stores.
type sdot struct{ neon }

func (sdot) Name() string     { return "SDOT" }
func (sdot) Packs() string    { return "By4" }
func (sdot) FourTokens() bool { return true }

func (sdot) Dot(a *arm, p, _ V, w, q []V) {
	a.Zero(1, p)
	for i := range w {
		a.Word("SDOT", q[i], w[i], p)
	}
}

func (sdot) Interleave(a *arm, to []V) { a.transposeRegisters(to) }

// transposeRegisters transposes V0-V3 into to: lane j of register i becomes lane i of register j. It uses V8-V11.
func (a *arm) transposeRegisters(to []V) {
	a.Lanes("S4", "VTRN1", 1, 0, 8)
	a.Lanes("S4", "VTRN2", 1, 0, 9)
	a.Lanes("S4", "VTRN1", 3, 2, 10)
	a.Lanes("S4", "VTRN2", 3, 2, 11)
	a.Lanes("D2", "VTRN1", 10, 8, to[0])
	a.Lanes("D2", "VTRN1", 11, 9, to[1])
	a.Lanes("D2", "VTRN2", 10, 8, to[2])
	a.Lanes("D2", "VTRN2", 11, 9, to[3])
}

func (sdot) Source(r, i int) (row, column int) { return i / 4, 4*r + i%4 }

func (sdot) Products(a *arm, tokens int, halves bool) (sums [2]V, free V) {
	sums = a.zeroSums(tokens, halves)
	for half := range V(2) {
		for four := range V(4) {
			for t := range V(tokens) {
				a.Word("SDOTE", four, half+2*t, 8+4*half+four, sums[half]+t)
			}
		}
	}
	return sums, 12
}

// zeroSums sets sums to zero: from V16 on, and for halves from V20 on.
func (a *arm) zeroSums(tokens int, halves bool) [2]V {
	a.Zero(tokens, 16)
	if !halves {
		return [2]V{16, 16}
	}
	a.Zero(tokens, 20)
	return [2]V{16, 20}
}

// smmla multiplies two rows by two tokens. A register of the panel has the same eight columns of two rows. For four
// tokens 16 SMMLA, 4 operations to reorder their sums, 12 in float32, and 2 (8 for all sixteen rows) to combine
// activations give 512 products: 8.5 cycles with four units; SDOT takes 11.
type smmla struct{ sdot }

func (smmla) Name() string  { return "SMMLA" }
func (smmla) Packs() string { return "By8" }

func (smmla) Interleave(a *arm, to []V) {
	for i, zip := range []string{"VZIP1", "VZIP2"} {
		a.Lanes("D2", zip, 1, 0, to[2*i])
		a.Lanes("D2", zip, 3, 2, to[2*i+1])
	}
}

func (smmla) Source(r, i int) (row, column int) { return 2*(r%2) + i/8, 8*(r/2) + i%8 }

// LoadTokens loads columns 0-7, 8-15, 16-23, 24-31 of two tokens to registers.
func (smmla) LoadTokens(a *arm, tokens int) {
	for t := range tokens {
		a.LoadPair(".P", At(tokenQ[t]).Plus(32), V(16+2*t))
		if t%2 == 0 {
			continue
		}
		first, to := V(14+2*t), V(4*(t/2))
		for half := range V(2) {
			a.Lanes("D2", "VZIP1", first+2+half, first+half, to+2*half)
			a.Lanes("D2", "VZIP2", first+2+half, first+half, to+2*half+1)
		}
	}
}

func (smmla) Products(a *arm, tokens int, halves bool) (sums [2]V, free V) {
	sums = a.zeroSums(tokens, halves)
	for eight := range V(4) {
		for t := range V(tokens) { // of two tokens the first and the second two rows
			a.Word("SMMLA", 4*(t/2)+eight, 8+2*eight+t%2, sums[eight/2]+t)
		}
	}
	for i := range 2 {
		for t := V(0); t < V(tokens); t += 2 {
			from, to := sums[i]+t, sums[i]-4+t
			a.Lanes("S4", "VUZP1", from+1, from, to)
			a.Lanes("S4", "VUZP2", from+1, from, to+1)
		}
		if !halves {
			break
		}
	}
	return [2]V{sums[0] - 4, sums[1] - 4}, sums[1]
}
