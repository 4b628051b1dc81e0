package main

import "fmt"

// avxvnni is avx2 with VPDPBUSD, which multiplies unsigned bytes with signed ones and adds four products in 32 bits.
type avxvnni struct{ avx2 }

func (avxvnni) InRegisters() int { return 1 }

// Order alternates between both half blocks.
func (avxvnni) Order(Scheme) [][]int { return [][]int{{0}, {4}, {1}, {5}, {2}, {6}, {3}, {7}} }

func (avxvnni) Start(k *Kernel, c Correction, halves, _ int) [][]*Sum {
	return vnni{}.Start(k, c, halves, 1)
}

// offsetWords returns the words that correct for the offset of the weights: for half blocks those of the first or the
// second half.
func (k *Kernel) offsetWords(second bool) Vec {
	switch {
	case !k.Scheme.Halves:
		return k.Words(-k.Scheme.Offset)
	case second:
		return k.Broadcast(-k.Scheme.Offset << 16 & 0xffffffff)
	}
	return k.Broadcast(-k.Scheme.Offset & 0xffff)
}

func (s avxvnni) MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem) {
	for i, sum := range sums {
		t := k.Vec()
		k.Op("VPBROADCASTD", q, t)
		k.dotBytes(t, w[i], sum.total)
		k.Free(t)
	}
}

func (avxvnni) Finish(k *Kernel, _ Correction, sums ...*Sum) Vec {
	for i, sum := range sums {
		if sum.times16 {
			k.Op("VPSRAD", 4, sum.total, sum.total)
		}
		if i == 0 {
			continue
		}
		k.Op("VPADDD", sum.total, sums[0].total, sums[0].total)
		k.Free(sum.total)
	}
	return sums[0].total
}

func (avxvnni) Dot(k *Kernel, w Vec, q Mem) Vec {
	p, t := k.Vec(), k.Vec()
	k.Op("VMOVDQU", q, t)
	k.Op("VPXOR", p, p, p)
	k.dotBytes(t, w, p)
	k.Free(t)
	return p
}

func (avxvnni) DotAdds(Scheme) int { return 0 }

// dotBytes writes VPDPBUSD q, w, p in the encoding of AVX-VNNI; the assembler supports only that of AVX-512.
func (k *Kernel) dotBytes(q, w, p Vec) {
	rex, vvvv := 0xe2-128*(p.number/8)-32*(q.number/8), 8*(15-w.number)+5
	k.writeEncoded(fmt.Sprintf("VPDPBUSD %s, %s, %s", q, w, p), 0xc4, rex, vvvv, 0x50, 0xc0+8*(p.number%8)+q.number%8)
}

// vnni256 is AVX-512 VNNI on 32 bytes, for a row of weights at a time.
type vnni256 struct{ avxvnni }

func (vnni256) Dot(k *Kernel, w Vec, q Mem) Vec {
	p := k.Vec()
	k.Op("VPXOR", p, p, p)
	k.Op("VPDPBUSD", q, w, p)
	return p
}
