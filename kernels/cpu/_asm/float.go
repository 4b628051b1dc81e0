package main

import "slices"

// floatType is a type of float weights.
type floatType struct {
	name  string
	bytes int // of an element
}

var (
	typeF32  = floatType{"F32", 4}
	typeF16  = floatType{"F16", 2}
	typeBF16 = floatType{"BF16", 2}
)

// loadFloats converts elements to float32, in memory or in the lower part of a register, as many as v has room for.
func (t floatType) loadFloats(k *Kernel, from any, v Vec) {
	switch t {
	case typeF32:
		k.Op("VMOVUPS", from, v)
	case typeF16:
		k.Op("VCVTPH2PS", from, v)
	case typeBF16:
		k.Op("VPMOVZXWD", from, v)
		k.Op("VPSLLD", 16, v, v)
	}
}

// loadOneFloat uses BX.
func (t floatType) loadOneFloat(k *Kernel, m Mem, v Vec) {
	if t == typeF32 {
		k.Op("VMOVSS", m, v)
		return
	}
	k.Op("MOVWLZX", m, BX)
	k.Op("VMOVD", BX, v)
	t.loadFloats(k, v, v)
}

// halving says how the lanes of two registers are added: two instructions each take one half of both.
type halving struct {
	first, second string
	selectors     []int // of the two, if they take one
}

// halvings are the steps of a horizontal sum, by the width of a register. Element i of a product is added to lane i mod
// 16; these are summed up as lane l and l+8, then l+4, l+2, l+1.
var halvings = map[int][]halving{
	32: {
		{"VPERM2F128", "VPERM2F128", []int{0x20, 0x31}},
		{"VUNPCKLPD", "VUNPCKHPD", nil},
		{"VSHUFPS", "VSHUFPS", []int{0x88, 0xdd}},
	},
	64: {
		{"VSHUFF64X2", "VSHUFF64X2", []int{0x44, 0xee}},
		{"VSHUFF64X2", "VSHUFF64X2", []int{0x88, 0xdd}},
		{"VUNPCKLPD", "VUNPCKHPD", nil},
		{"VSHUFPS", "VSHUFPS", []int{0x88, 0xdd}},
	},
}

// HorizontalSums returns a register with the sum of all lanes of each of some registers, up to as many as there are
// lanes: that of v[i] is the (i/p)-th number of 16 bytes i mod p, if a register has p times 16 bytes. The result is in
// v[0], the others are overwritten.
func (k *Kernel) HorizontalSums(v []Vec) Vec {
	v = slices.Clone(v)
	first := k.Vec()
	for _, h := range halvings[k.Set.Width()] {
		for i := 0; i < len(v); i += 2 {
			a, b := v[i], v[min(i+1, len(v)-1)]
			if h.selectors == nil {
				k.Op(h.first, b, a, first)
				k.Op(h.second, b, a, a)
			} else {
				k.Op(h.first, h.selectors[0], b, a, first)
				k.Op(h.second, h.selectors[1], b, a, a)
			}
			k.Op("VADDPS", a, first, a)
			v[i/2] = a
		}
		v = v[:(len(v)+1)/2]
	}
	k.Free(first)
	return v[0]
}
