package main

// vnni is AVX-512 VNNI: 32 registers of 64 bytes, panels of 16 outputs. VPDPBUSD multiplies unsigned bytes with signed
// ones and adds by fours in 32 bits, and takes four activations right from memory for all outputs.
type vnni struct {
	offset Vec
}

func (*vnni) Name() string           { return "VNNI" }
func (*vnni) Vectors() (string, int) { return "Z", 32 }
func (*vnni) Width() int             { return 64 }
func (*vnni) Outputs() int           { return 16 }

// Spell adds the suffix that AVX-512 has where a mask could be of dwords.
func (*vnni) Spell(name string) string {
	switch name {
	case "VPAND", "VPOR", "VPXOR":
		return name + "D"
	case "VMOVDQU", "VMOVDQA":
		return name + "32"
	}
	return name
}

// quarters are the masks of the dwords of the second to the fourth 16 bytes of a register.
var quarters = []Reg{"K1", "K2", "K3"}

func (s *vnni) Constants(k *Kernel) {
	if k.Offset != 0 {
		s.offset = s.Broadcast(k, eachWord(-k.Offset))
	}
}

func (*vnni) Broadcast(k *Kernel, dword int) Vec {
	v := k.Vec()
	k.Op("MOVL", dword, R13)
	k.Op("VPBROADCASTD", R13, v)
	return v
}

func (*vnni) RowMasks(k *Kernel) {
	for i, mask := range quarters {
		k.Op("MOVL", 0xf<<(4*(i+1)), R13)
		k.Op("KMOVW", R13, mask)
	}
}

func (*vnni) Interleave(k *Kernel, rows Rows, offset int) [4]Vec {
	v := [4]Vec(k.Vecs(4))
	for i := range v {
		k.Op("VMOVDQU", rows.At(i, offset), v[i].X())
		for quarter, mask := range quarters {
			k.Op("VBROADCASTI32X4", rows.At(i+4*(quarter+1), offset), mask, v[i])
		}
	}
	return interleave4(k, v)
}

func (*vnni) Scales(k *Kernel, rows Rows, offset int) Vec {
	v, t := k.Vec(), k.Vec()
	for row := range 16 {
		x := [2]Vec{v, t}[row/8].X()
		k.Op("VPINSRW", row%8, rows.At(row, offset), x, x)
	}
	k.Op("VINSERTI128", 1, t.X(), v.Y(), v.Y())
	k.Op("VCVTPH2PS", v.Y(), v)
	k.Free(t)
	return v
}

func (*vnni) SplitHalves(k *Kernel, v Vec) (lower, upper Vec) {
	lower = k.Vec()
	k.Op("VPMOVDW", v, lower.Y())
	k.Op("VPSRLD", 16, v, v)
	k.Op("VPMOVDW", v, v.Y())
	k.Op("VCVTPH2PS", lower.Y(), lower)
	k.Op("VCVTPH2PS", v.Y(), v)
	return lower, v
}

func (*vnni) Operand(k *Kernel, m Mem) any {
	v := k.Vec()
	k.Op("VMOVUPS", m, v)
	return v
}

func (s *vnni) Start(k *Kernel, h Mem, panels int) (sums []*Sum) {
	for panel := range panels {
		sum := Sum{total: k.Vec()}
		switch {
		case h.Base == "":
			k.Op("VPXOR", sum.total, sum.total, sum.total)
		case panels == 1:
			k.Op("VPXOR", sum.total, sum.total, sum.total)
			k.Op("VPDPWSSD.BCST", h, s.offset, sum.total)
		case panel == 0:
			k.Op("VPBROADCASTD", h, sum.total)
			k.Op("VPMADDWD", s.offset, sum.total, sum.total)
		default:
			k.Op("VMOVDQA", sums[0].total, sum.total)
		}
		sums = append(sums, &sum)
	}
	return sums
}

// MultiplyAdd broadcasts activations to a register only if several panels take them.
func (*vnni) MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem) {
	if len(sums) == 1 {
		k.Op("VPDPBUSD.BCST", q, w[0], sums[0].total)
		return
	}
	t := k.Vec()
	k.Op("VPBROADCASTD", q, t)
	for i, sum := range sums {
		k.Op("VPDPBUSD", t, w[i], sum.total)
	}
	k.Free(t)
}

func (*vnni) Finish(_ *Kernel, _ Mem, sums ...*Sum) Vec { return sums[0].total }

func (*vnni) Offsets(k *Kernel, _, _ Mem) { panic(k.Name + " is not written for VNNI") }

func (*vnni) AddOffset(k *Kernel, _ Mem, _ Vec) { panic(k.Name + " is not written for VNNI") }

func (*vnni) ScaleAdd(k *Kernel, sum Vec, scale, d any, acc Vec) {
	t := k.Vec()
	k.Op("VCVTDQ2PS", sum, sum)
	k.Op("VMULPS"+broadcast(d), d, scale, t)
	k.Op("VFMADD231PS", sum, t, acc)
	k.Free(t)
}

func (*vnni) SubtractMinimum(k *Kernel, minimum, s any, acc Vec) {
	k.Op("VFNMADD231PS"+broadcast(s), s, minimum, acc)
}

// broadcast is the suffix of an instruction that takes one dword for all: if it is in memory.
func broadcast(dword any) string {
	if _, ok := dword.(Mem); ok {
		return ".BCST"
	}
	return ""
}
