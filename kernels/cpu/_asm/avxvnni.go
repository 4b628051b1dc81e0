package main

import "fmt"

// avxvnni is avx2 with VPDPBUSD, as AVX-512 VNNI has it, on 32 bytes.
type avxvnni struct{ avx2 }

func (*avxvnni) Name() string { return "AVXVNNI" }

func (s *avxvnni) Constants(k *Kernel) {
	if k.Offset != 0 {
		s.offset = k.Broadcast(eachWord(-k.Offset))
	}
}

func (s *avxvnni) Start(k *Kernel, h Mem, panels int) (sums []*Sum) {
	for range panels {
		total := k.Vec()
		if h.Base == "" {
			k.Op("VPXOR", total, total, total)
		} else {
			k.Op("VPBROADCASTD", h, total)
			k.Op("VPMADDWD", s.offset, total, total)
		}
		sums = append(sums, &Sum{total: total})
	}
	return sums
}

func (*avxvnni) MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem) {
	for i, sum := range sums {
		t := k.Vec()
		k.Op("VPBROADCASTD", q, t)
		k.dotBytes(t, w[i], sum.total)
		k.Free(t)
	}
}

func (*avxvnni) Finish(k *Kernel, _ Mem, sums ...*Sum) Vec {
	for _, other := range sums[1:] {
		k.Op("VPADDD", other.total, sums[0].total, sums[0].total)
		k.Free(other.total)
	}
	return sums[0].total
}

// dotBytes is VPDPBUSD q, w, p in the form of AVX-VNNI; the assembler knows only that of AVX-512.
func (k *Kernel) dotBytes(q, w, p Vec) {
	rex, vvvv := 0xe2-128*(p.number/8)-32*(q.number/8), 8*(15-w.number)+5
	fmt.Fprintf(&k.text, "\tBYTE $0xc4; BYTE $%#x; BYTE $%#x; BYTE $0x50; BYTE $%#x // VPDPBUSD %s, %s, %s\n",
		rex, vvvv, 0xc0+8*(p.number%8)+q.number%8, q, w, p)
}
