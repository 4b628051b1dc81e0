package main

// gemm4Shape multiplies four outputs with up to eight tokens, four blocks of 32 columns at a time, of which each has a
// quarter of a register: a register of weights is sixteen columns of each block of one row. Activations are spread like
// that beforehand ([Acts]). It is the number of loads that counts, and one more where they cross a line: so weights
// come in whole registers and are brought to their places there. Of blocks of 256 columns the second half has sums of
// its own, which wait in memory.
//
// SI, BX, DI rows, R12 dst, R8 end of the weights, R15 what is prefetched; DX q, CX d, R13 h or s, R14 place in d, h
// and s in bytes, q is eight times as far. For a token R11 is R14 in that token, and AX leads q there; R10 and R9 lead
// to the next, and R9 is the end of R14. BP is the stack from where it is aligned.
type gemm4Shape struct {
	*Kernel
	quarters, ones, offset Vec   // dword b in quarter b; words of 1; what makes up for the offset of the weights
	sums                   []Vec // of each token: dword r of quarter b is of row r and block b
	later                  []Mem // of second halves
	args, count            Mem
}

// maxQuarterTokens is the most tokens that gemm4Shape takes.
const maxQuarterTokens = 8

// Quarters are four blocks of 32 columns of four rows.
type Quarters struct {
	Columns        [4][2]Vec // 0 to 15 and 16 to 31 of each row's blocks
	Scale, Minimum Vec       // as sums
}

// QuarterFormat is a format that gemm4Shape can read.
type QuarterFormat interface {
	Format
	// QuarterConstants takes registers for constants of UnpackQuarters.
	QuarterConstants(k *Kernel)
	// UnpackQuarters unpacks four blocks of 32, or a half of a block of 256: its first leaves what it likes for the
	// second in kept, 128 bytes.
	UnpackQuarters(k *Kernel, rows Rows, half int, kept Mem) Quarters
}

// quarterMasks are the masks of dword r of each quarter, for rows r = 1 to 3.
var quarterMasks = []Reg{"K1", "K2", "K3"}

func gemm4(k *Kernel) {
	f := k.Format.(QuarterFormat)
	b := f.Block()
	columns := max(b.Columns, 128) // at a time
	g := &gemm4Shape{Kernel: k, args: k.Local(8), count: k.Local(8)}
	var kept Mem
	if columns > 128 {
		kept = k.Aligned(BP, 128)
		for range maxQuarterTokens {
			g.later = append(g.later, k.Aligned(BP, 64))
		}
	}
	g.constants()
	f.QuarterConstants(k)
	g.load()

	outputs := k.Here("outputs")
	k.Op("LEAQ", At(SI).Times(DI, 1), BX)
	k.Op("XORL", R14, R14)
	g.clear()
	blocks := k.Here("blocks")
	for half := range columns / 128 {
		q := f.UnpackQuarters(k, panelRows, half, kept)
		g.eachToken(q, half)
		k.Op("ADDQ", 16, R14)
		q.free(k)
	}
	k.EndPrefetch()
	k.Op("ADDQ", b.Bytes*columns/b.Columns, SI)
	k.Op("ADDQ", b.Bytes*columns/b.Columns, BX)
	k.Op("CMPQ", R14, R9)
	k.Op("JLT", blocks)
	g.put()
	k.Op("LEAQ", At(BX).Times(DI, 2), SI)
	k.Op("CMPQ", SI, R8)
	k.Op("JLT", outputs)
	k.Return()
}

// constants takes registers for constants and sums.
func (g *gemm4Shape) constants() {
	for i, mask := range quarterMasks {
		g.Op("MOVL", 0x1111<<(i+1), R11)
		g.Op("KMOVD", R11, mask)
	}
	g.ones = g.Broadcast(eachWord(1))
	g.quarters = g.Vec()
	g.Op("VMOVDQU", g.Table("quarters", 4, []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}), g.quarters)
	if g.Offset != 0 {
		g.offset = g.Broadcast(eachWord(-g.Offset))
	}
	g.sums = g.Vecs(maxQuarterTokens)
}

// load loads the arguments.
func (g *gemm4Shape) load() {
	g.ToArgs(R14)
	g.AlignStack(BP)
	g.Op("MOVQ", R14, g.args)
	g.Load(R14, "dst", R12, "w", SI, "wBytes", R8, "q", DX, "d", CX, "n", R10, "tokens", R11, g.sumsField(), R13)
	g.Op("MOVQ", R11, g.count)
	g.Op("ADDQ", SI, R8)
	g.RowBytes(R10, DI)
	pages := 8192
	if g.later != nil {
		pages = 4096
	}
	g.Op("LEAQ", At(SI).Plus(pages).Times(DI, 4), R15)
	g.Op("MOVQ", R10, R9)
	g.Op("SHRQ", 3, R9)
	g.prefetching = &prefetcher{at: R15}
}

// clear begins the sums of four outputs.
func (g *gemm4Shape) clear() {
	for i, sum := range g.sums {
		g.Op("VPXOR", sum, sum, sum)
		if g.later != nil {
			g.Op("VMOVUPS", sum, g.later[i])
		}
	}
}

// eachToken multiplies the weights with all tokens and adds that to their sums.
func (g *gemm4Shape) eachToken(q Quarters, half int) {
	done := g.Label("done")
	g.Op("MOVQ", R14, R11)
	g.Op("MOVQ", DX, AX)
	for t, sum := range g.sums {
		if t > 0 {
			g.Op("CMPQ", g.count, t)
			g.Op("JEQ", done)
			g.Op("ADDQ", R10, AX)
			g.Op("ADDQ", R9, R11)
		}
		if half == 0 {
			g.multiply(q, sum)
			continue
		}
		late := g.Vec()
		g.Op("VMOVUPS", g.later[t], late)
		g.multiply(q, late)
		g.Op("VMOVUPS", late, g.later[t])
		g.Free(late)
	}
	g.Place(done)
}

// multiply adds the products with a token to its sum.
func (g *gemm4Shape) multiply(q Quarters, sum Vec) {
	activations := g.Vecs(2)
	for i, v := range activations {
		g.Op("VMOVDQU", At(AX).Times(R14, 8).Plus(64*i), v)
	}
	var p [4]Vec
	for row := range p {
		p[row] = g.Vec()
		g.Op("VPXOR", p[row], p[row], p[row])
		for i, v := range activations {
			g.Op("VPDPBUSD", v, q.Columns[row][i], p[row])
		}
	}
	g.Free(activations...)
	total := g.startTotal()
	g.horizontalSum(p, total)

	d := g.spread(CX)
	g.Op("VMULPS", d, q.Scale, d)
	g.Op("VCVTDQ2PS", total, total)
	g.Op("VFMADD231PS", total, d, sum)
	g.Free(d, total)
	if g.Format.Block().Minima {
		s := g.spread(R13)
		g.Op("VFNMADD231PS", s, q.Minimum, sum)
		g.Free(s)
	}
}

// startTotal is what makes up for the offset of the weights.
func (g *gemm4Shape) startTotal() Vec {
	total := g.Vec()
	if g.Offset == 0 {
		g.Op("VPXOR", total, total, total)
		return total
	}
	g.Op("VPMADDWD", At(R13).Times(R11, 1), g.offset.X(), total.X())
	g.Op("VPERMD", total, g.quarters, total)
	return total
}

// horizontalSum adds to total, for each row and quarter, the four dwords there. Two words that hold eight products of
// five bits (8·31·127) fit in 16 bits; of four bits the sums of sixteen do (16·15·127).
func (g *gemm4Shape) horizontalSum(p [4]Vec, total Vec) {
	g.Op("VPACKSSDW", p[1], p[0], p[1])
	g.Op("VPACKSSDW", p[3], p[2], p[3])
	g.Op("VSHUFPS", 0x88, p[3], p[1], p[0])
	g.Op("VSHUFPS", 0xdd, p[3], p[1], p[2])
	if g.Format.Block().Bits == 4 {
		g.Op("VPADDW", p[2], p[0], p[0])
	} else {
		g.Op("VPDPWSSD", g.ones, p[2], total)
	}
	g.Op("VPDPWSSD", g.ones, p[0], total)
	g.Free(p[:]...)
}

// spread is the token's four numbers from base on, one in each quarter.
func (g *gemm4Shape) spread(base Reg) Vec {
	v := g.Vec()
	g.Op("VMOVUPS", At(base).Times(R11, 1), v.X())
	g.Op("VPERMPS", v, g.quarters, v)
	return v
}

// put adds the quarters of each token's sums, (0+2)+(1+3), and puts them at dst, which moves on to the next outputs.
func (g *gemm4Shape) put() {
	done := g.Label("put")
	g.Op("MOVQ", g.args, R11)
	g.Op("MOVQ", g.Field(R11, "stride"), AX)
	g.Op("SHLQ", 2, AX)
	g.Op("MOVQ", R12, R11)
	v := g.Vec()
	for t, sum := range g.sums {
		if t > 0 {
			g.Op("CMPQ", g.count, t)
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

func (q Quarters) free(k *Kernel) {
	for _, row := range q.Columns {
		k.Free(row[:]...)
	}
	k.Free(q.Scale)
	if k.Format.Block().Minima {
		k.Free(q.Minimum)
	}
}
