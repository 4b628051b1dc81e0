package main

// avx2 has 16 registers of 32 bytes: panels of 8 outputs. VPMADDUBSW multiplies unsigned bytes with signed ones and
// adds pairs in 16 bits, where 8 registers of products fit if weights have 4 bits (16·15·127), 4 if they have 5, 2 if
// 6. Signed weights are multiplied as their magnitudes, with the activations negated for negative weights.
type avx2 struct{}

func (avx2) Vectors() (string, int)   { return "Y", 16 }
func (avx2) Spell(name string) string { return name }
func (avx2) Width() int               { return 32 }
func (avx2) Outputs() int             { return 8 }

func (avx2) LoadRows(k *Kernel, rows Rows, offset int) [4]Vec {
	v := [4]Vec(k.Vecs(4))
	for i := range v {
		k.Op("VMOVDQU", rows.At(i, offset), v[i].X())
	}
	for i := range v {
		k.Op("VINSERTI128", 1, rows.At(i+4, offset), v[i], v[i])
	}
	return v
}

func (avx2) SplitHalves(k *Kernel, v Vec) (lower, upper Vec) {
	upper = k.Vec()
	halves := k.Table("halves", 1, repeatValues(2, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15))
	k.Op("VPSHUFB", halves, v, v)
	k.Op("VPERMQ", 0xd8, v, v)
	k.Op("VEXTRACTI128", 1, v, upper.X())
	k.Op("VCVTPH2PS", v.X(), v)
	k.Op("VCVTPH2PS", upper.X(), upper)
	return v, upper
}

// FifthBits looks up the result for four bits at a time: the lower and the upper half of the row's byte for two
// registers.
func (avx2) FifthBits(k *Kernel, bits Vec, w [8]Vec) {
	alternate := k.Broadcast(0x08040201)
	clear, set, name := 0, 0x10, "fifthBits"
	if k.withSign {
		clear, set, name = 0xf0, 0, "fifthBitsSigned"
	}
	values := repeatValues(16, clear)
	for bit := range 4 {
		values[1<<bit] = set
	}
	become := k.Lookup(name, 1, values)
	low, high := k.Vec(), k.Vec()
	for pair := range 4 {
		k.Op("VPSHUFB", eachFourTimes(k, pair), bits, low)
		k.Op("VPSRLW", 4, low, high)
		for i, four := range []Vec{low, high} {
			k.Op("VPAND", alternate, four, four)
			k.Op("VPSHUFB", four, become, four)
			k.Op("VPOR", four, w[2*pair+i], w[2*pair+i])
		}
	}
	k.Free(low, high)
}

// eachFourTimes returns the table for VPSHUFB that copies a byte of each lane to all bytes of the lane.
func eachFourTimes(k *Kernel, byte int) Mem {
	var all []int
	for lane := range 4 {
		all = append(all, repeatValues(4, 4*lane+byte)...)
	}
	return k.Table("fourTimes"+digitString(byte), 1, repeatValues(k.Set.Width()/16, all...))
}

func (avx2) InRegisters() int { return 0 }

// Order alternates products of few bits between tokens. With six bits so few products can be added in 16 bits that
// there would not be enough registers.
func (s avx2) Order(scheme Scheme) [][]int {
	if s.Adds(scheme) == 2 {
		return [][]int{{0, 1}, {4, 5}, {2, 3}, {6, 7}}
	}
	return [][]int{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}
}

func (avx2) Start(_ *Kernel, _ Correction, halves, _ int) (sums [][]*Sum) {
	for range halves {
		sums = append(sums, []*Sum{{}})
	}
	return sums
}

func (s avx2) MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem) {
	for i, sum := range sums {
		p := k.Vec()
		k.Op("VPBROADCASTD", q, p)
		if magnitude, signed := k.magnitudes[w[i]]; signed {
			k.Op("VPSIGNB", w[i], p, p)
			k.Op("VPMADDUBSW", p, magnitude, p)
		} else {
			k.Op("VPMADDUBSW", p, w[i], p)
		}
		if sum.added == 0 {
			sum.words = p
		} else {
			k.Op("VPADDW", p, sum.words, sum.words)
			k.Free(p)
		}
		if sum.added++; sum.added == s.Adds(k.Scheme) {
			s.widenWords(k, sum)
		}
	}
}

func (avx2) widenWords(k *Kernel, sum *Sum) {
	k.Op("VPMADDWD", k.Words(1), sum.words, sum.words)
	if sum.total == (Vec{}) {
		sum.total = sum.words
	} else {
		k.Op("VPADDD", sum.words, sum.total, sum.total)
		k.Free(sum.words)
	}
	sum.added = 0
}

func (s avx2) Finish(k *Kernel, c Correction, sums ...*Sum) Vec {
	first := sums[0]
	for _, other := range sums[1:] {
		k.Op("VPADDW", other.words, first.words, first.words)
		k.Free(other.words)
	}
	if first.added > 0 {
		s.widenWords(k, first)
	}
	if c.Needed() {
		s.addCorrection(k, c, first.total)
	}
	return first.total
}

// addCorrection shifts for half blocks, because the multiply units are the busiest.
func (avx2) addCorrection(k *Kernel, c Correction, total Vec) {
	t := k.Vec()
	k.Op("VPBROADCASTD", c.Sums, t)
	operation, bits := "VPSUBD", log2(k.Scheme.Offset)
	switch {
	case !k.Scheme.Halves:
		operation = "VPADDD"
		k.Op("VPMADDWD", k.Words(-k.Scheme.Offset), t, t)
	case c.Second:
		k.Op("VPSRAD", 16, t, t)
		k.Op("VPSLLD", bits, t, t)
	default:
		k.Op("VPSLLD", 16, t, t)
		k.Op("VPSRAD", 16-bits, t, t)
	}
	k.Op(operation, t, total, total)
	k.Free(t)
}

func (avx2) ScaleAdd(k *Kernel, sum Vec, scale, d, acc any) Vec {
	t := k.Vec()
	k.Op("VCVTDQ2PS", sum, sum)
	k.Op("VBROADCASTSS", d, t)
	k.Op("VMULPS", scale, t, t)
	return k.multiplyAdd(sum, t, acc)
}

// multiplyAdd returns acc + sum·scale. It may overwrite sum and scale, and acc if it is a register.
func (k *Kernel) multiplyAdd(sum, scale Vec, acc any) Vec {
	k.Free(scale)
	if acc, ok := acc.(Vec); ok {
		k.Op("VFMADD231PS", sum, scale, acc)
		k.Free(sum)
		return acc
	}
	k.Op("VFMADD213PS", acc, scale, sum)
	return sum
}

func (avx2) SubtractMinimum(k *Kernel, minimum, s any, acc Vec) {
	t := k.Vec()
	k.Op("VBROADCASTSS", s, t)
	k.Op("VFNMADD231PS", minimum, t, acc)
	k.Free(t)
}

func (avx2) Dot(k *Kernel, w Vec, q Mem) Vec {
	p := k.Vec()
	if !k.Scheme.Signed() {
		k.Op("VPMADDUBSW", q, w, p)
		return p
	}
	magnitude := k.Vec()
	k.Op("VPABSB", w, magnitude)
	k.Op("VMOVDQU", q, p)
	k.Op("VPSIGNB", w, p, p)
	k.Op("VPMADDUBSW", p, magnitude, p)
	k.Op("VPMADDWD", k.Words(1), p, p)
	k.Free(magnitude)
	return p
}

// Adds returns the number of products of 127, two to a word, that fit in 16 bits; for signed weights, the products of
// one register.
func (avx2) Adds(s Scheme) int { return max(1, 128>>s.Bits) }

// DotAdds is Adds, but products of signed weights have 32 bits.
func (s avx2) DotAdds(scheme Scheme) int {
	if scheme.Signed() {
		return 0
	}
	return s.Adds(scheme)
}
