package main

import "fmt"

// amxTile is a tile of AVX-512 VNNI with products by AMX. A panel's dwords, four columns of sixteen rows of weights one
// after the other, have the layout of AMX's second factor; tokens are the first factor without a change of layout:
//
//	C [T, 16 rows of weights] = A [T, 32 columns] · B [32 columns by four, 16 rows of weights]
//
// C is passed to the vector units through memory. There the float operations are those of the tiles of AVX-512 VNNI, in
// the same order. The sums of all tokens in an accumulator stay in registers while its blocks are multiplied, so that
// only C is passed through memory. Because two accumulators share the cache lines of activations, 32 blocks are
// multiplied for every accumulator before the next ones: they stay in a first-level cache.
//
// DI sums; R8 bytes of weights left to the accumulator, R9 a token's bytes of q, R10 and R13 one and three tokens' of d
// and s, R11 tokens, R15 C; R12, R14 for anything.
type amxTile struct {
	*Kernel
	accumulators int
	sums         []Vec  // of each token
	scales       [2]Vec // the second are minima, or those of second half blocks
	blocks       []blockArg
	config       Mem // of the tiles
	c            Mem // [half blocks, 16 tokens, outputs]
}

// blockArg is an argument that advances from block to block: a register points to the current accumulator's data, and
// the slot with its name to those of the next accumulator.
type blockArg struct {
	field string
	at    Reg
	bytes int // of a block
}

// amxBlocks is the number of blocks to multiply before those of the next accumulators.
const amxBlocks = 32

func tileAMX(accumulators int) func(k *Kernel) {
	return func(k *Kernel) {
		t := &amxTile{Kernel: k, accumulators: accumulators, sums: k.Vecs(maxTokens), scales: [2]Vec(k.Vecs(2))}
		t.blocks = []blockArg{{"w", SI, 512}, {"ds", AX, 128}, {"mins", BX, 64}, {"q", DX, 32}, {"d", CX, 4}}
		t.config, t.c = k.Local(64), k.Aligned(R15, 2*64*maxTokens)
		t.loadAndConfigure()
		t.multiplyBlocks()
		k.writeEncoded("TILERELEASE", 0xc4, 0xe2, 0x78, 0x49, 0xc0)
		k.Return()
	}
}

func (t *amxTile) loadAndConfigure() {
	t.ToArgs(AX)
	t.AlignStack(R15)
	t.Load(AX, "tokens", R11, "n", R9, "acc", DI, "accBytes", R14)
	t.Op("ADDQ", DI, R14)
	t.Op("MOVQ", R14, t.Slot("end"))
	t.keepPrefetch(AX, R14)
	t.Load(AX, "wBytes", R14, "s", R12)
	t.Op("MOVQ", R14, t.Slot("left"))
	t.Op("SUBQ", t.Field(AX, "d"), R12)
	t.Op("MOVQ", R12, t.Slot("from d to s"))
	for _, a := range t.blocks {
		t.Load(AX, a.field, R14)
		t.Op("MOVQ", R14, t.Slot(a.field))
	}
	t.Op("MOVQ", R9, R10)
	t.Op("SHRQ", 3, R10)
	t.Op("LEAQ", At(R10).Times(R10, 2), R13)
	t.configureTiles()
}

// configureTiles sets the sizes of the tiles, at offset 16 by bytes of a row and at 48 by rows: 0 and 3 are C, 1 and 4
// A, 2 and 5 B.
func (t *amxTile) configureTiles() {
	depth := 8 / t.Scheme.Scales() // dwords of four columns in a product
	t.Op("VPXOR", t.sums[0], t.sums[0], t.sums[0])
	t.Op("VMOVDQU", t.sums[0], t.config)
	t.Op("MOVB", 1, t.config) // the palette
	for tile := range 3 * t.Scheme.Scales() {
		rowBytes, rows := 64, any(R11)
		switch tile % 3 {
		case 1:
			rowBytes = 4 * depth
		case 2:
			rows = depth
		}
		t.Op("MOVW", rowBytes, t.config.Plus(16+2*tile))
		t.Op("MOVB", rows, t.config.Plus(48+tile))
	}
	t.writeTileMemoryOp("LDTILECFG", 0x78, 0x49, 0, t.config)
}

func (t *amxTile) multiplyBlocks() {
	whole, done := t.Label("whole"), t.Label("done")
	accumulator := t.Here("accumulator")
	t.Op("MOVQ", 512*amxBlocks, R8)
	t.Op("CMPQ", R8, t.Slot("left"))
	t.Op("JLE", whole)
	t.Op("MOVQ", t.Slot("left"), R8)
	t.Place(whole)
	for _, a := range t.blocks {
		t.Op("MOVQ", t.Slot(a.field), a.at)
	}
	loaded := t.eachToken(func(i int, _, _ Mem) { t.Op("VMOVUPS", At(DI).Plus(64*i), t.sums[i]) })
	t.alignLoop()
	t.Place(loaded)
	block := t.Here("block")
	t.multiplyBlock()
	for _, a := range t.blocks {
		t.Op("ADDQ", a.bytes*t.accumulators, a.at)
	}
	t.Op("SUBQ", 512*t.accumulators, R8)
	t.Op("JGT", block)
	t.Place(t.eachToken(func(i int, _, _ Mem) { t.Op("VMOVUPS", t.sums[i], At(DI).Plus(64*i)) }))
	t.Op("MOVQ", R11, R14)
	t.Op("SHLQ", 6, R14)
	t.Op("ADDQ", R14, DI)
	t.advanceBlocks(1, done)
	t.Op("CMPQ", DI, t.Slot("end"))
	t.Op("JNE", accumulator)
	t.advanceBlocks(amxBlocks-t.accumulators, done)
	t.ToArgs(DI)
	t.Load(DI, "acc", DI)
	t.Op("JMP", accumulator)
	t.Place(done)
}

func (t *amxTile) advanceBlocks(blocks int, done string) {
	for _, a := range t.blocks {
		t.Op("ADDQ", a.bytes*blocks, t.Slot(a.field))
	}
	t.Op("SUBQ", 512*blocks, t.Slot("left"))
	t.Op("JLE", done)
}

func (t *amxTile) multiplyBlock() {
	t.prefetchNext(R14)
	t.Op("MOVQ", 64, R14)
	for half := range t.Scheme.Scales() {
		c, a, b := 3*half, 3*half+1, 3*half+2
		t.writeTileMemoryOp("TILELOADD", 0x7b, 0x4b, a, At(DX).Plus(16*half).Times(R9, 1))
		t.writeTileMemoryOp("TILELOADD", 0x7b, 0x4b, b, At(SI).Plus(256*half).Times(R14, 1))
		t.writeEncoded("TILEZERO", 0xc4, 0xe2, 0x7b, 0x49, 0xc0+8*c)
		t.writeEncoded("TDPBSSD", 0xc4, 0xe2, 0x7b-8*b, 0x5e, 0xc0+8*c+a)
		t.writeTileMemoryOp("TILESTORED", 0x7a, 0x4b, c, t.c.Plus(64*maxTokens*half).Times(R14, 1))
		t.Op("VMOVUPS", At(AX).Plus(64*half), t.scales[half])
	}
	if t.Scheme.Minima {
		t.Op("VMOVUPS", At(BX), t.scales[1])
	}
	t.Op("MOVQ", CX, R14)
	t.Op("MOVQ", t.Slot("from d to s"), R12)
	t.Op("ADDQ", CX, R12)
	t.Place(t.eachToken(func(i int, d, s Mem) {
		for half := range t.Scheme.Scales() {
			v := t.Vecs(2)
			t.Op("VCVTDQ2PS", t.c.Plus(64*(maxTokens*half+i)), v[0])
			t.Op("VMULPS.BCST", d, t.scales[half], v[1])
			t.Op("VFMADD231PS", v[0], v[1], t.sums[i])
			t.Free(v...)
		}
		if t.Scheme.Minima {
			t.Set.SubtractMinimum(t.Kernel, t.scales[1], s, t.sums[i])
		}
	}))
}

// alignLoop aligns the loop that follows to the 10th of 64 bytes: at the 1st to 6th of 16 bytes the products take 2 to
// 3% longer (docs/study/tried.md). Jumps must target a label after the alignment: with a jump to a label before
// PCALIGN, Go's assembler did not terminate.
func (t *amxTile) alignLoop() {
	t.Op("PCALIGN", 64)
	t.writeEncoded("NOP", 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0)
}

// eachToken calls write for every token. The d and s of the first token are at R14 and R12. The caller places the label
// that it returns after the loop.
func (t *amxTile) eachToken(write func(i int, d, s Mem)) (done string) {
	done = t.Label("tokens")
	token := multiples{R10, R13}
	for i := range maxTokens {
		write(i, token.addressAfter(At(R14), i%4), token.addressAfter(At(R12), i%4))
		t.Op("CMPQ", R11, i+1)
		t.Op("JEQ", done)
		if i%4 == 3 {
			t.Op("LEAQ", token.addressAfter(At(R14), 4), R14)
			t.Op("LEAQ", token.addressAfter(At(R12), 4), R12)
		}
	}
	return done
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
