package main

import "strings"

// vnni is AVX-512 VNNI: 32 registers of 64 bytes, panels of 16 outputs. VPDPBUSD multiplies unsigned bytes with signed
// ones and adds four products in 32 bits, and reads four activations directly from memory for all outputs.
type vnni struct{}

func (vnni) Vectors() (string, int) { return "Z", 32 }
func (vnni) Width() int             { return 64 }
func (vnni) Outputs() int           { return 16 }

// Spell adds the suffix of AVX-512 to names that need one because a mask could have 32 bits.
func (vnni) Spell(name string) string {
	switch name {
	case "VPAND", "VPOR", "VPXOR":
		return name + "D"
	case "VMOVDQU", "VMOVDQA":
		return name + "32"
	case "VBROADCASTI128", "VINSERTI128", "VEXTRACTF128":
		return strings.TrimSuffix(name, "128") + "32X4"
	}
	return name
}

func (vnni) LoadRows(k *Kernel, rows Rows, offset int) [4]Vec {
	v := [4]Vec(k.Vecs(4))
	for i := range v {
		k.Op("VMOVDQU", rows.At(i, offset), v[i].X())
		for quarter := 1; quarter < 4; quarter++ {
			k.Op("VBROADCASTI32X4", rows.At(i+4*quarter, offset), k.Mask(0xf<<(4*quarter)), v[i])
		}
	}
	return v
}

func (vnni) SplitHalves(k *Kernel, v Vec) (lower, upper Vec) {
	lower = k.Vec()
	k.Op("VPMOVDW", v, lower.Y())
	k.Op("VPSRLD", 16, v, v)
	k.Op("VPMOVDW", v, v.Y())
	k.Op("VCVTPH2PS", lower.Y(), lower)
	k.Op("VCVTPH2PS", v.Y(), v)
	return lower, v
}

// FifthBits adds by masks. Two registers have their bits in one byte of the row.
func (vnni) FifthBits(k *Kernel, bits Vec, w [8]Vec) {
	const mask Reg = "K7"
	for pair := range 4 {
		t := k.Vec()
		k.Op("VPSHUFB", eachFourTimes(k, pair), bits, t)
		for i, which := range []int{0x08040201, 0x80402010} {
			test, add := "VPTESTMB", "VPADDB"
			if k.withSign {
				test, add = "VPTESTNMB", "VPSUBB"
			}
			k.Op(test, k.Broadcast(which), t, mask)
			k.Op(add, k.Bytes(0x10), w[2*pair+i], mask, w[2*pair+i])
		}
		k.Free(t)
	}
}

func (vnni) InRegisters() int { return 2 }

func (vnni) Order(Scheme) [][]int { return [][]int{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}} }

// Start begins with the correction, which is the same for several panels.
func (vnni) Start(k *Kernel, c Correction, halves, panels int) (sums [][]*Sum) {
	h := k.Vec()
	if c.Needed() {
		k.Op("VPBROADCASTD", c.Sums, h)
	}
	for half := range halves {
		total := h
		if half < halves-1 {
			total = k.Vec()
		}
		if half == 1 {
			k.Op("VPSRLD", 16, h, h)
		}
		if c.Needed() {
			k.Op("VPMADDWD", k.offsetWords(c.Second), h, total)
		} else {
			k.Op("VPXOR", total, total, total)
		}
		sums = append(sums, []*Sum{{total: total}})
		for range panels - 1 {
			other := k.Vec()
			k.Op("VMOVDQA", total, other)
			sums[half] = append(sums[half], &Sum{total: other})
		}
	}
	return sums
}

// MultiplyAdd broadcasts activations to a register only if several panels use them.
func (vnni) MultiplyAdd(k *Kernel, sums []*Sum, w []Vec, q Mem) {
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

func (vnni) Finish(_ *Kernel, _ Correction, sums ...*Sum) Vec { return sums[0].total }

func (vnni) ScaleAdd(k *Kernel, sum Vec, scale, d, acc any) Vec {
	t := k.Vec()
	k.Op("VCVTDQ2PS", sum, sum)
	k.Op("VMULPS"+broadcastSuffix(d), d, scale, t)
	return k.multiplyAdd(sum, t, acc)
}

func (vnni) SubtractMinimum(k *Kernel, minimum, s any, acc Vec) {
	k.Op("VFNMADD231PS"+broadcastSuffix(s), s, minimum, acc)
}

// broadcastSuffix returns the suffix of an instruction with one number for all lanes, if the number is in memory.
func broadcastSuffix(number any) string {
	if _, ok := number.(Mem); ok {
		return ".BCST"
	}
	return ""
}
