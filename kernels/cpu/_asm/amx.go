package main

import "fmt"

// amxTile is a tile of AVX-512 VNNI with products by AMX. A panel's dwords, four columns of sixteen rows of weights one
// after the other, have the layout of AMX's second factor; tokens are the first factor without a change of layout:
//
//	C [T, 16 rows of weights] = A [T, 32 columns] · B [32 columns by four, 16 rows of weights]
//
// C is passed to the vector units through memory. There the float operations are those of the tiles of AVX-512 VNNI, in
// the same order. The sums of all tokens in an accumulator stay in registers during a pass (tilePass of the package),
// so that only C is passed through memory.
//
// The loop is pipelined, because C is in memory 70 cycles after the beginning of its product. A unit is a block, or
// half of one if the halves have scales of their own. While unit u is multiplied, unit u+1 is loaded, C of unit u-1 is
// stored, and the vector units scale unit u-2. Loads lie between the vector instructions, as a core looks some hundred
// instructions ahead, and the store of C alone is about 60. The code names three tiles, and not a second A, B and C:
// for seconds on end, presumably while another machine uses the same core, the core had few registers beside those that
// were named, and eight of them made tiles half as fast.
//
// For 0.1 µs after an AMX instruction, conversions, products and multiply-adds of 64 bytes run on one of two ports,
// additions on both. So every second token's integers are converted by two additions, to the same float: n, below 2²²,
// is added to the bits of 1.5·2²³, which makes them those of 1.5·2²³ + n.
//
// DX, SI what is loaded next of A and B, R9 a token's bytes of q, R14 bytes of a row of B and C, R15 C, R13 what
// changes it to the other C; AX scales, BX minima, CX d and s; R8 the end of q in the pass that is loaded, R10 that of
// d and s in the pass that is scaled; R11 what is prefetched, BP its end; R12, DI for anything.
type amxTile struct {
	*Kernel
	accumulators int
	whole        bool   // all sixteen tokens are there
	sums         []Vec  // of each token
	scales       [2]Vec // the second are minima
	config       Mem    // of the tiles
	c            Mem    // of two units
}

// Tiles, by number.
const (
	tileC = iota
	tileA
	tileB
)

// tileArguments are the arguments that passes lead to, as bytes from their beginning.
var tileArguments = []string{"q", "w", "tiled", "ds", "mins", "acc", "dst"}

// passBytes is the size of a tilePass.
const passBytes Reg = "$tilePass__size"

func tileAMX(accumulators int) func(k *Kernel) {
	return func(k *Kernel) {
		t := &amxTile{Kernel: k, accumulators: accumulators, sums: k.Vecs(maxTokens), scales: [2]Vec(k.Vecs(2))}
		t.config, t.c = k.Local(64), k.Aligned(R15, 2*64*maxTokens)
		t.loadAndConfigure()
		fewer, done := k.Label("fewer"), k.Label("done")
		k.Op("CMPQ", t.Slot("tokens"), maxTokens)
		k.Op("JNE", fewer)
		t.whole = true
		t.multiplyPasses(done)
		k.Place(fewer)
		t.whole = false
		t.multiplyPasses(done)
		k.Place(done)
		k.writeEncoded("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
		k.Return()
	}
}

func (t *amxTile) loadAndConfigure() {
	t.ToArgs(AX)
	t.AlignStack(R15)
	t.Op("LEAQ", t.c.Plus(64*maxTokens), R13)
	t.Op("XORQ", R15, R13)
	for _, field := range append(tileArguments, "tokens", "passes", "passCount", "then") {
		t.Load(AX, field, R14)
		t.Op("MOVQ", R14, t.Slot(field))
	}
	t.Op("ADDQ", t.Field(AX, "thenBytes"), R14)
	t.Op("MOVQ", R14, t.Slot("thenEnd"))
	t.Op("MOVQ", t.Slot("passes"), R14)
	t.Op("MOVQ", R14, t.Slot("passes to load"))
	t.Load(AX, "n", R9, "prefetch", R11, "prefetchBytes", BP)
	t.Op("ADDQ", R11, BP)
	t.configureTiles(t.Slot("tokens"))
	t.Op("MOVQ", 64, R14)
}

// configureTiles sets the sizes of the tiles, at offset 16 by bytes of a row and at 48 by rows.
func (t *amxTile) configureTiles(tokens Mem) {
	depth := 8 / t.Scheme.Scales() // dwords of four columns in a product
	t.Op("VPXOR", t.sums[0], t.sums[0], t.sums[0])
	t.Op("VMOVDQU", t.sums[0], t.config)
	t.Op("MOVB", 1, t.config) // the palette
	t.Op("MOVQ", tokens, R14)
	for tile, rowBytes := range []int{tileC: 64, tileA: 4 * depth, tileB: 64} {
		rows := any(R14)
		if tile == tileB {
			rows = depth
		}
		t.Op("MOVW", rowBytes, t.config.Plus(16+2*tile))
		t.Op("MOVB", rows, t.config.Plus(48+tile))
	}
	t.writeTileMemoryOp("LDTILECFG", 0x78, 0x49, 0, t.config)
}

// multiplyPasses multiplies the blocks of all passes. Before the loop two units are loaded and multiplied; at its end
// two that are loaded after the last pass are dropped.
func (t *amxTile) multiplyPasses(done string) {
	halves := t.Scheme.Scales()
	t.nextLoads()
	t.loadA(0)
	t.loadB(0)
	for unit := range 2 {
		if unit > 0 {
			t.storeProducts()
		}
		t.multiply()
		half := (unit + 1) % halves
		t.loadA(half)
		t.loadB(half)
	}
	t.nextPass()
	block := t.Here("block")
	t.prefetch()
	for half := range halves {
		t.multiplyUnit(half)
	}
	t.Op("ADDQ", 128*t.accumulators, AX)
	if t.Scheme.Minima {
		t.Op("ADDQ", 64*t.accumulators, BX)
	}
	t.Op("ADDQ", 2*4*maxTokens*t.accumulators, CX)
	t.Op("CMPQ", CX, R10)
	t.Op("JNE", block)
	t.endPass()
	t.Op("ADDQ", passBytes, t.Slot("passes"))
	t.Op("DECQ", t.Slot("passCount"))
	t.Op("JZ", done)
	t.nextPass()
	t.Op("JMP", block)
}

// endPass adds the sums of the accumulators that the pass is to add, and stores them, in acc or as results.
func (t *amxTile) endPass() {
	result, stored := t.Label("result"), t.Label("stored")
	t.Op("MOVQ", t.Slot("passes"), R12)
	t.Op("MOVQ", t.passField(R12, "adds"), AX)
	t.Op("LEAQ", t.passField(R12, "add"), BX)
	all, added := t.Label("adding"), t.Label("added")
	t.Place(all)
	t.Op("DECQ", AX)
	t.Op("JLT", added)
	t.Op("MOVQ", At(BX).Times(AX, 8), DI)
	t.Op("ADDQ", t.Slot("acc"), DI)
	t.eachToken(func(i int) { t.Op("VADDPS", At(DI).Plus(64*i), t.sums[i], t.sums[i]) })
	t.Op("JMP", all)
	t.Place(added)
	t.Op("CMPB", t.passField(R12, "last"), 0)
	t.Op("JNE", result)
	t.toArguments(R12, "acc", DI)
	t.eachToken(func(i int) { t.Op("VMOVUPS", t.sums[i], At(DI).Plus(64*i)) })
	t.Op("JMP", stored)
	t.Place(result)
	t.storeResults()
	t.Place(stored)
}

// storeResults stores the sums at dst, or adds them.
func (t *amxTile) storeResults() {
	t.ToArgs(DI)
	t.toArguments(R12, "dst", AX)
	t.Load(DI, "stride", BX)
	t.Op("SHLQ", 2, BX)
	t.Op("LEAQ", At(BX).Times(BX, 2), CX)
	token := func(i int) Mem {
		if i > 0 && i%4 == 0 {
			t.Op("LEAQ", At(AX).Times(BX, 4), AX)
		}
		return [4]Mem{At(AX), At(AX).Times(BX, 1), At(AX).Times(BX, 2), At(AX).Times(CX, 1)}[i%4]
	}
	add, stored := t.Label("add"), t.Label("stored")
	t.Op("CMPB", t.Field(DI, "add"), 0)
	t.Op("JNE", add)
	t.eachToken(func(i int) { t.Op("VMOVUPS", t.sums[i], token(i)) })
	t.Op("JMP", stored)
	t.Place(add)
	t.eachToken(func(i int) {
		to := token(i)
		t.Op("VADDPS", to, t.sums[i], t.sums[i])
		t.Op("VMOVUPS", t.sums[i], to)
	})
	t.Place(stored)
}

// prefetch prefetches memory that is read next. For all tokens, that is what many tokens read next, in two places: into
// the second-level cache, as the activations of this call fill the first.
func (t *amxTile) prefetch() {
	if !t.whole {
		t.PrefetchNext(R11, BP, 1)
		return
	}
	more, done := t.Label("prefetch"), t.Label("prefetched")
	t.Op("CMPQ", R11, BP)
	t.Op("JLT", more)
	t.Op("MOVQ", t.Slot("then"), R11)
	t.Op("MOVQ", t.Slot("thenEnd"), BP)
	t.Op("MOVQ", BP, t.Slot("then"))
	t.Op("JMP", done)
	t.Place(more)
	for line := range 3 {
		t.Op("PREFETCHT1", At(R11).Plus(64*line))
	}
	t.Op("ADDQ", 3*64, R11)
	t.Place(done)
}

// multiplyUnit is the loop's body for a unit.
func (t *amxTile) multiplyUnit(half int) {
	next := (half + 1) % t.Scheme.Scales()
	t.storeProducts()
	t.multiply()
	t.Op("VMOVUPS", At(AX).Plus(64*half), t.scales[0])
	if t.Scheme.Minima {
		t.Op("VMOVUPS", At(BX), t.scales[1])
	}
	if !t.whole {
		t.loadA(next)
		t.loadB(next)
	}
	t.eachToken(func(i int) {
		if t.whole && i == 5 {
			t.loadA(next)
		}
		if t.whole && i == 10 {
			t.loadB(next)
		}
		t.scale(i)
	})
}

// scale adds a token's products to its sums: the products times scale and d, less minimum·s.
func (t *amxTile) scale(i int) {
	v := t.Vecs(2)
	c := At(R15).Plus(64 * i)
	if i%2 == 0 {
		t.Op("VPADDD", c, t.Broadcast(0x4b400000), v[0])
		t.Op("VADDPS", t.Broadcast(0xcb400000), v[0], v[0])
	} else {
		t.Op("VCVTDQ2PS", c, v[0])
	}
	t.Op("VMULPS.BCST", At(CX).Plus(4*i), t.scales[0], v[1])
	t.Op("VFMADD231PS", v[0], v[1], t.sums[i])
	if t.Scheme.Minima {
		t.Set.SubtractMinimum(t.Kernel, t.scales[1], At(CX).Plus(4*(maxTokens+i)), t.sums[i])
	}
	t.Free(v...)
}

// storeProducts stores C, and leaves R15 at that of the unit before.
func (t *amxTile) storeProducts() {
	t.writeTileMemoryOp("TILESTORED", 0x7a, 0x4b, tileC, At(R15).Times(R14, 1))
	t.Op("XORQ", R13, R15)
}

func (t *amxTile) multiply() {
	t.writeEncoded("TILEZERO", 0xc4, 0xe2, 0x7b, 0x49, 0xc0+8*tileC)
	t.writeEncoded("TDPBSSD", 0xc4, 0xe2, 0x7b-8*tileB, 0x5e, 0xc0+8*tileC+tileA)
}

func (t *amxTile) loadA(half int) {
	t.writeTileMemoryOp("TILELOADD", 0x7b, 0x4b, tileA, At(DX).Plus(16*half).Times(R9, 1))
}

// loadB also advances to the next block, of the next pass if necessary.
func (t *amxTile) loadB(half int) {
	t.writeTileMemoryOp("TILELOADD", 0x7b, 0x4b, tileB, At(SI).Plus(256*half).Times(R14, 1))
	if half < t.Scheme.Scales()-1 {
		return
	}
	same := t.Label("same")
	t.Op("ADDQ", 32*t.accumulators, DX)
	t.Op("ADDQ", 512*t.accumulators, SI)
	t.Op("CMPQ", DX, R8)
	t.Op("JNE", same)
	t.nextLoads()
	t.Place(same)
}

// nextLoads sets what is loaded next to the beginning of a pass.
func (t *amxTile) nextLoads() {
	t.Op("MOVQ", t.Slot("passes to load"), SI)
	t.Op("ADDQ", passBytes, t.Slot("passes to load"))
	t.Op("MOVQ", t.passField(SI, "qEnd"), R8)
	t.Op("ADDQ", t.Slot("q"), R8)
	t.toArguments(SI, "q", DX, "w", SI)
}

// nextPass sets what is scaled next to the beginning of a pass, and its sums.
func (t *amxTile) nextPass() {
	loading, loaded := t.Label("loading"), t.Label("loaded")
	t.Op("MOVQ", t.Slot("passes"), R12)
	t.toArguments(R12, "tiled", CX, "ds", AX, "mins", BX, "acc", DI)
	t.Op("MOVQ", t.passField(R12, "tiledEnd"), R10)
	t.Op("ADDQ", t.Slot("tiled"), R10)
	t.Op("CMPB", t.passField(R12, "first"), 0)
	t.Op("JEQ", loading)
	for _, sum := range t.sums {
		t.Op("VPXOR", sum, sum, sum)
	}
	t.Op("JMP", loaded)
	t.Place(loading)
	t.eachToken(func(i int) { t.Op("VMOVUPS", At(DI).Plus(64*i), t.sums[i]) })
	t.Place(loaded)
}

// toArguments sets registers to the places in arguments where the pass at r begins.
func (t *amxTile) toArguments(r Reg, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		field := pairs[i].(string)
		t.Op("MOVQ", t.passField(r, field), pairs[i+1])
		t.Op("ADDQ", t.Slot(field), pairs[i+1])
	}
}

func (t *amxTile) passField(r Reg, name string) Mem { return Mem{Symbol: "tilePass_" + name, Base: r} }

// eachToken calls write for every token.
func (t *amxTile) eachToken(write func(i int)) {
	done := t.Label("tokens")
	for i := range maxTokens {
		if i > 0 && !t.whole {
			t.Op("CMPQ", t.Slot("tokens"), i)
			t.Op("JEQ", done)
		}
		write(i)
	}
	if !t.whole {
		t.Place(done)
	}
}

// writeTileMemoryOp writes an AMX instruction with a tile and memory: row r is at m, with r times its index.
func (k *Kernel) writeTileMemoryOp(name string, prefix, opcode, tile int, m Mem) {
	numbers := map[Reg]int{"": 4, DX: 2, SP: 4, SI: 6, R9: 9, R14: 14, R15: 15}
	base, index := numbers[m.Base], numbers[m.Index]
	k.writeEncoded(fmt.Sprintf("%s tile %d, %s", name, tile, m),
		0xc4, 0xe2-index/8*64-base/8*32, prefix, opcode, 0x84+8*tile, index%8*8+base%8)
	k.Op("LONG", m.Offset)
}

// writeEncoded writes an instruction that the assembler does not support.
func (k *Kernel) writeEncoded(instruction string, bytes ...int) {
	for i, b := range bytes {
		fmt.Fprintf(&k.text, "%sBYTE $%#x", []string{"\t", "; "}[min(i, 1)], b)
	}
	fmt.Fprintf(&k.text, " // %s\n", instruction)
}
