package main

// avx2 has 16 registers of 32 bytes: panels of 8 outputs. VPMADDUBSW multiplies unsigned bytes with signed ones and
// adds by twos in 16 bits, where 8 registers of products fit if weights have 4 bits (16·15·127), 4 if they have 5, 2 if
// 6.
type avx2 struct {
	ones, offset Vec // words of 1, and of what makes up for the offset of the weights
}

func (*avx2) Name() string             { return "AVX2" }
func (*avx2) Vectors() (string, int)   { return "Y", 16 }
func (*avx2) Spell(name string) string { return name }
func (*avx2) Width() int               { return 32 }
func (*avx2) Outputs() int             { return 8 }

func (s *avx2) Constants(k *Kernel) {
	s.ones = s.Broadcast(k, eachWord(1))
	if k.Offset != 0 {
		s.offset = s.Broadcast(k, eachWord(-k.Offset))
	}
}

func (*avx2) Broadcast(k *Kernel, dword int) Vec {
	v := k.Vec()
	k.Op("MOVL", dword, R13)
	k.Op("VMOVD", R13, v.X())
	k.Op("VPBROADCASTD", v.X(), v)
	return v
}

func (*avx2) RowMasks(*Kernel) {}

func (*avx2) Interleave(k *Kernel, rows Rows, offset int) [4]Vec {
	v := [4]Vec(k.Vecs(4))
	for i := range v {
		k.Op("VMOVDQU", rows.At(i, offset), v[i].X())
	}
	for i := range v {
		k.Op("VINSERTI128", 1, rows.At(i+4, offset), v[i], v[i])
	}
	k.Loaded(128)
	return interleave4(k, v)
}

// Scales collects them in integer registers, which have nothing else to do. One load sets the words of two rows: that
// of an odd row comes as the upper half of a dword, whose lower half is overwritten.
func (*avx2) Scales(k *Kernel, rows Rows, offset int) Vec {
	v, t := k.Vec(), k.Vec()
	for half, x := range []Vec{v, t} {
		row := 4 * half
		k.Op("MOVL", rows.At(row+1, offset-2), R13)
		k.Op("MOVL", rows.At(row+3, offset-2), R11)
		k.Op("MOVW", rows.At(row, offset), R13)
		k.Op("MOVW", rows.At(row+2, offset), R11)
		k.Op("SHLQ", 32, R11)
		k.Op("ORQ", R11, R13)
		k.Op("VMOVQ", R13, x.X())
	}
	k.Loaded(16)
	k.Op("VPUNPCKLQDQ", t.X(), v.X(), v.X())
	k.Op("VCVTPH2PS", v.X(), v)
	k.Free(t)
	return v
}

func (*avx2) SplitHalves(k *Kernel, v Vec) (lower, upper Vec) {
	upper = k.Vec()
	k.Op("VPSHUFB", k.Table("halves", 1, repeat(2, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)), v, v)
	k.Op("VPERMQ", 0xd8, v, v)
	k.Op("VEXTRACTI128", 1, v, upper.X())
	k.Op("VCVTPH2PS", v.X(), v)
	k.Op("VCVTPH2PS", upper.X(), upper)
	return v, upper
}

func (*avx2) Operand(_ *Kernel, m Mem) any { return m }

func (*avx2) Start(_ *Kernel, _ Mem, panels int) (sums []*Sum) {
	for range panels {
		sums = append(sums, &Sum{empty: true})
	}
	return sums
}

func (s *avx2) MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem) {
	for i, sum := range sums {
		p := k.Vec()
		k.Op("VPBROADCASTD", q, p)
		k.Op("VPMADDUBSW", p, w[i], p)
		if sum.links == 0 {
			sum.chain = p
		} else {
			k.Op("VPADDW", p, sum.chain, sum.chain)
			k.Free(p)
		}
		if sum.links++; sum.links == s.fit(k) {
			s.widen(k, sum)
		}
	}
}

// fit is how many registers of products can be added in 16 bits.
func (*avx2) fit(k *Kernel) int { return 128 >> k.Format.Block().Bits }

// widen adds what is in 16 bits to the total.
func (s *avx2) widen(k *Kernel, sum *Sum) {
	k.Op("VPMADDWD", s.ones, sum.chain, sum.chain)
	if sum.empty {
		sum.total, sum.empty = sum.chain, false
	} else {
		k.Op("VPADDD", sum.chain, sum.total, sum.total)
		k.Free(sum.chain)
	}
	sum.links = 0
}

func (s *avx2) Finish(k *Kernel, h Mem, sums ...*Sum) Vec {
	first := sums[0]
	for _, other := range sums[1:] {
		k.Op("VPADDW", other.chain, first.chain, first.chain)
		k.Free(other.chain)
	}
	if first.links > 0 {
		s.widen(k, first)
	}
	if h.Base != "" {
		t := k.Vec()
		k.Op("VPBROADCASTD", h, t)
		k.Op("VPMADDWD", s.offset, t, t)
		k.Op("VPADDD", t, first.total, first.total)
		k.Free(t)
	}
	return first.total
}

func (s *avx2) Offsets(k *Kernel, h, offsets Mem) {
	t := k.Vec()
	k.Op("VPMADDWD", h, s.offset.X(), t.X())
	k.Op("VMOVDQU", t.X(), offsets)
	k.Free(t)
}

func (*avx2) AddOffset(k *Kernel, offset Mem, total Vec) {
	t := k.Vec()
	k.Op("VPBROADCASTD", offset, t)
	k.Op("VPADDD", t, total, total)
	k.Free(t)
}

func (*avx2) ScaleAdd(k *Kernel, sum Vec, scale, d any, acc Vec) {
	t := k.Vec()
	k.Op("VCVTDQ2PS", sum, sum)
	k.Op("VBROADCASTSS", d, t)
	k.Op("VMULPS", scale, t, t)
	k.Op("VFMADD231PS", sum, t, acc)
	k.Free(t)
}

func (*avx2) SubtractMinimum(k *Kernel, minimum, s any, acc Vec) {
	t := k.Vec()
	k.Op("VBROADCASTSS", s, t)
	k.Op("VFNMADD231PS", minimum, t, acc)
	k.Free(t)
}
