package main

import "fmt"

// armTile multiplies a panel of sixteen rows with up to 16 tokens and adds the products to accumulators in memory: four
// tokens at a time with SDOT and SMMLA, then two. A group of four rows is multiplied with all of them, a block of 32
// columns at a time, with all sums in registers. In place of a missing token the last one is used again, and its sums
// are stored twice.
//
// R0 acc, R1 q, R2 d of the tokens, R3 tokens left, R4, R5 a token's bytes of q and of d, R19 from d to s, R20 an
// accumulator in bytes, R23 what is prefetched; R6-R9 q, R10-R13 d, R14-R17 acc of each token, R22 blocks done, R24 w,
// R25 ds, R26 mins of a block; R21 for anything. V0-V7 activations, V8-V15 weights, V24-V27 d, V20-V23 s of each token,
// V28, V29 scales, of half blocks or with minima; V8-V11 accumulators after the products are computed.
type armTile struct {
	*arm
	tokens int // at a time
}

// Registers of each token.
var (
	tokenQ   = [4]Reg{R6, R7, R8, R9}
	tokenD   = [4]Reg{R10, R11, R12, R13}
	tokenAcc = [4]Reg{R14, R15, R16, R17}
)

// The end of what is prefetched, and the number of blocks.
var tilePrefetchEnd, tileBlocks = Mem{Symbol: "prefetchEnd-8", Base: SP}, Mem{Symbol: "blocks-16", Base: SP}

func writeArmTile(a *arm) {
	a.frame = 16
	a.ToArgs(R22)
	a.Load(R22, "acc", R0, "q", R1, "d", R2, "s", R19)
	a.Op("SUB", R2, R19)
	a.Load(R22, "tokens", R3, "n", R4)
	a.Op("LSR", 3, R4, R5)
	a.Op("LSL", 6, R3, R20)
	a.Load(R22, "prefetch", R23, "prefetchBytes", R21)
	a.Op("ADD", R23, R21)
	a.Op("MOVD", R21, tilePrefetchEnd)
	a.Load(R22, "wBytes", R21)
	a.Op("LSR", 9, R21)
	a.Op("MOVD", R21, tileBlocks)
	if a.set.FourTokens() {
		a.Op("CMP", 3, R3)
		a.Op("BLT", "two")
		four := a.Here("four")
		armTile{a, 4}.multiplyTokenGroup()
		a.Op("SUB", 4, R3)
		a.Op("CMP", 3, R3)
		a.Op("BGE", four)
		a.Place("two")
	}
	a.Op("CMP", 0, R3)
	a.Op("BLE", "done")
	two := a.Here("next")
	armTile{a, 2}.multiplyTokenGroup()
	a.Op("SUBS", 2, R3)
	a.Op("BGT", two)
	a.Place("done")
	a.Op("RET")
}

func (t armTile) multiplyTokenGroup() {
	t.Op("MOVD", R0, R14)
	t.Op("MOVD", R1, R6)
	t.Op("MOVD", R2, R10)
	t.ToArgs(R22)
	t.Load(R22, "w", R24, "ds", R25, "mins", R26)
	t.Op("MOVD", 0, R22)
	for i := 1; i < t.tokens; i++ {
		t.Op("ADD", R4, tokenQ[i-1], tokenQ[i])
		t.Op("ADD", R5, tokenD[i-1], tokenD[i])
		t.Op("ADD", 64, tokenAcc[i-1], tokenAcc[i])
		t.Op("CMP", i, R3)
		for _, of := range [][4]Reg{tokenQ, tokenD, tokenAcc} {
			t.Op("CSEL", "GT", of[i], of[i-1], of[i])
		}
	}
	t.multiplyAllBlocks()
	shift := Reg(fmt.Sprintf("<<%d", log2(t.tokens)))
	t.Op("ADD", R4+shift, R1)
	t.Op("ADD", R5+shift, R2)
	t.Advance(64*t.tokens, R0)
}

// multiplyAllBlocks multiplies all blocks; the first accumulator follows the last one.
func (t armTile) multiplyAllBlocks() {
	accumulators := 8
	if !t.Scheme.Halves && !t.Scheme.Minima {
		accumulators = 4
	}
	block := t.Here("block")
	t.set.LoadTokens(t.arm, t.tokens)
	for i := range t.tokens {
		if t.Scheme.Minima {
			t.Op("FMOVS", Reg(fmt.Sprintf("(%s)(%s)", tokenD[i], R19)), V(20+i))
		}
	}
	for i := range t.tokens {
		t.Op("FMOVS.P", At(tokenD[i]).Plus(4), V(24+i))
	}
	for group := range 4 {
		t.multiplyGroup(16 * group)
	}
	t.Advance(512, R24)
	t.Advance(128, R25)
	t.Advance(64, R26)
	t.Advance(1, R22)
	accumulator, done := t.Label("accumulator"), t.Label("prefetched")
	for _, r := range tokenAcc[:t.tokens] {
		t.Op("ADD", R20, r)
	}
	t.Op("TST", accumulators-1, R22)
	t.Op("BNE", accumulator)
	for _, r := range tokenAcc[:t.tokens] {
		t.Op("SUB", R20+Reg(fmt.Sprintf("<<%d", log2(accumulators))), r)
	}
	t.Place(accumulator)
	t.Op("MOVD", tilePrefetchEnd, R21)
	t.Prefetch(R23, R21, prefetched, done)
	t.Place(done)
	t.Op("MOVD", tileBlocks, R21)
	t.Op("CMP", R21, R22)
	t.Op("BLT", block)
}

// multiplyGroup multiplies four of sixteen rows: those with scales at offset g, in bytes.
func (t armTile) multiplyGroup(g int) {
	for i := range 8 {
		t.Op("FMOVQ", At(R24).Plus(8*g+16*i), V(8+i))
	}
	t.Op("FMOVQ", At(R25).Plus(g), V(28))
	switch {
	case t.Scheme.Halves:
		t.Op("FMOVQ", At(R25).Plus(g+64), V(29))
	case t.Scheme.Minima:
		t.Op("FMOVQ", At(R26).Plus(g), V(29))
	}
	sums, free := t.set.Products(t.arm, t.tokens, t.Scheme.Halves)
	for i, acc := range tokenAcc[:t.tokens] {
		t.Op("FMOVQ", At(acc).Plus(g), V(8+i))
	}
	t.scaleAdd(sums[0], 28, free)
	switch {
	case t.Scheme.Halves:
		t.scaleAdd(sums[1], 29, free)
	case t.Scheme.Minima:
		for i := range V(t.tokens) {
			t.Word("FMLSE", 20+i, 29, 8+i)
		}
	}
	for i, acc := range tokenAcc[:t.tokens] {
		t.Op("FMOVQ", V(8+i), At(acc).Plus(g))
	}
}

// scaleAdd adds integers times scale times d to the accumulators. It uses the free registers. The order of instructions
// suits CPUs that execute in order.
func (t armTile) scaleAdd(sums, scale, free V) {
	for i := range V(t.tokens) {
		t.Word("FMULE", 24+i, scale, free+i)
	}
	t.Each("SCVTF", t.tokens, sums)
	for i := range V(t.tokens) {
		t.Word("FMLA", sums+i, free+i, 8+i)
	}
}

// armHorizontalSum adds the accumulators of a tile, four or eight: first those four apart, then two, then one.
//
// R0 dst, R1 results left, R3 an accumulator in bytes, R2 and R4-R10 accumulators, R11 how many.
func armHorizontalSum(a *arm) {
	acc := []Reg{R2, R4, R5, R6, R7, R8, R9, R10}
	a.ToArgs(R3)
	a.Load(R3, "dst", R0, "n", R1, "acc", R2, "accumulators", R11)
	a.Op("LSL", 2, R1, R3)
	for i := range acc[1:] {
		a.Op("ADD", R3, acc[i], acc[i+1])
	}
	next := a.Here("next")
	load := func(from int) {
		for i, r := range acc[from : from+4] {
			a.Op("FMOVQ.P", At(r).Plus(16), V(from+i))
		}
	}
	load(0)
	a.Op("CMP", 4, R11)
	a.Op("BEQ", "four")
	load(4)
	for apart := V(4); apart > 0; apart /= 2 {
		for v := range apart {
			a.Word("FADD", v+apart, v, v)
		}
		if apart == 4 {
			a.Place("four")
		}
	}
	a.Op("FMOVQ.P", V(0), At(R0).Plus(16))
	a.Op("SUBS", 4, R1)
	a.Op("BNE", next)
	a.Op("RET")
}
