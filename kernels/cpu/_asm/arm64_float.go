package main

// Order of the sums in armGEMV and armGEMM of float weights: element i goes to accumulator i mod 8 of two registers, a
// rest of four to the first register; then the lanes are summed, and the rest is added to their sum.

// armLoad loads the next elements at r, which advances, and converts them to float32: four for each register of to. F16
// and BF16 are first loaded to registers from t on, or two of them to the first register of to.
func (t floatType) armLoad(a *arm, r Reg, temporary V, to ...V) {
	bytes := 4 * t.bytes * len(to)
	if t == typeF32 {
		a.Op("VLD1.P", At(r).Plus(bytes), a.List("S4", to...))
		return
	}
	halves := registerRange((len(to)+1)/2, temporary)
	lanes := "H8"
	if len(to) == 1 {
		lanes = "H4"
	}
	a.Op("VLD1.P", At(r).Plus(bytes), a.List(lanes, halves...))
	convert := func(upper int, from, to V) {
		if t == typeF16 {
			a.Word([]string{"FCVTL", "FCVTL2"}[upper], from, to)
			return
		}
		a.Lanes("H8", []string{"VZIP1", "VZIP2"}[upper], from, 31, to)
	}
	if temporary == to[0] { // the upper half first: the lower half overwrites both
		convert(1, to[0], to[1])
		convert(0, to[0], to[0])
		return
	}
	for i, v := range to {
		convert(i%2, halves[i/2], v)
	}
}

// armLoadOne loads the next element at r to F16, in float32.
func (t floatType) armLoadOne(a *arm, r Reg) {
	if t == typeF32 {
		a.Op("FMOVS.P", At(r).Plus(4), V(16))
		return
	}
	a.Op("MOVHU.P", At(r).Plus(2), R9)
	if t == typeF16 {
		a.Op("FMOVS", R9, V(24))
		a.Op("FCVTHS", V(24), V(16))
		return
	}
	a.Op("LSL", 16, R9)
	a.Op("FMOVS", R9, V(16))
}

// armSum adds the two registers of each sum, and their lanes, for n sums from v on.
func (a *arm) armSum(n int, v V) {
	for i := range V(n) {
		a.Word("FADD", v+2*i+1, v+2*i, v+2*i)
		a.HorizontalSum(v+2*i, 16)
	}
}

// armGEMV multiplies four rows at a time with one token, because one row has too few sums to keep the units busy. If
// there are fewer than four rows, the last one is used again.
//
// R0 dst, R1 rows left, R2 w, R3 rowBytes, R4 x, R5 columns; in four rows R6, R10, R11, R12 w, R0, R13, R14, R15 dst,
// R7 x, R8 columns left. V0 and V1 sums of the first row, and so on; V16-V19 weights, V20-V23 activations, V31 zero.
func (t floatType) armGEMV(k *Kernel) {
	a := &arm{Kernel: k}
	w, dst := [4]Reg{R6, R10, R11, R12}, [4]Reg{R0, R13, R14, R15}
	a.ToArgs(R6)
	a.Load(R6, "dst", R0, "rows", R1, "w", R2, "rowBytes", R3, "x", R4, "n", R5)
	a.Zero(1, 31)
	row := a.Here("row")
	a.Op("MOVD", R2, R6)
	for i := 1; i < 4; i++ {
		a.Op("ADD", R3, w[i-1], w[i])
		a.Op("ADD", 4, dst[i-1], dst[i])
		a.Op("CMP", i, R1)
		a.Op("CSEL", "GT", w[i], w[i-1], w[i])
		a.Op("CSEL", "GT", dst[i], dst[i-1], dst[i])
	}
	a.Op("MOVD", R4, R7)
	a.Zero(8, 0)
	// loop multiplies count registers of columns as often as they fit. R8 holds the columns that are left, less from.
	loop := func(name string, count int) {
		loop := a.Here(name)
		a.Op("VLD1.P", At(R7).Plus(16*count), a.List("S4", registerRange(count, 20)...))
		for i, r := range w {
			t.armLoad(a, r, 24, registerRange(count, 16)...)
			for j := range V(count) {
				a.Word("FMLA", 16+j, 20+j, V(2*i)+j%2)
			}
		}
		a.Op("SUBS", 4*count, R8)
		a.Op("BGE", loop)
	}
	a.Op("SUBS", 16, R5, R8)
	a.Op("BLT", "fours")
	loop("sixteen", 4)
	a.Place("fours")
	a.Op("ADDS", 12, R8)
	a.Op("BLT", "sum")
	loop("four", 1)
	a.Place("sum")
	a.armSum(4, 0)
	a.Op("ADDS", 4, R8)
	a.Op("BEQ", "store")
	one := a.Here("one")
	a.Op("FMOVS.P", At(R7).Plus(4), V(20))
	for i, r := range w {
		t.armLoadOne(a, r)
		a.Op("FMADDS", V(20), V(2*i), V(16), V(2*i))
	}
	a.Op("SUBS", 1, R8)
	a.Op("BNE", one)
	a.Place("store")
	for i, r := range dst {
		a.Op("FMOVS", V(2*i), At(r))
	}
	a.Advance(16, R0)
	a.Op("ADD", R3+"<<2", R2)
	a.Op("SUBS", 4, R1)
	a.Op("BGT", row)
	a.Op("RET")
}

// armGEMM multiplies two rows with four tokens, twice, eight columns at a time: 16 multiply-adds for 12 loads (10 of
// halves), so neither bounds the other where there are four units and three loads a cycle.
//
// R0 dst, R2 w, R3 rowBytes, R9 passes left; in a pass R6, R10 w, R1, R4, R5, R7 x, R8 columns left. V0-V3 sums of the
// first token, and so on; V16-V19 weights, V20-V27 activations, V31 zero.
func (t floatType) armGEMM(k *Kernel) {
	a := &arm{Kernel: k}
	x := [4]Reg{R1, R4, R5, R7}
	a.ToArgs(R8)
	a.Load(R8, "dst", R0, "w", R2, "rowBytes", R3)
	a.Op("MOVD", 2, R9)
	a.Zero(1, 31)
	pass := a.Here("pass")
	a.Op("MOVD", R2, R6)
	a.Op("ADD", R3, R6, R10)
	a.ToArgs(R8)
	a.Load(R8, "x", R1, "n", R8)
	for i := range x[1:] {
		a.Op("ADD", R8+"<<2", x[i], x[i+1])
	}
	a.Zero(16, 0)
	eight := a.Here("eight")
	t.armLoad(a, R6, 16, 16, 17)
	t.armLoad(a, R10, 18, 18, 19)
	for i, r := range x {
		token := V(20 + 2*i)
		a.Op("VLD1.P", At(r).Plus(32), a.List("S4", token, token+1))
		for j := range V(4) {
			a.Word("FMLA", 16+j, token+j%2, V(4*i)+j)
		}
	}
	a.Op("SUBS", 8, R8)
	a.Op("BNE", eight)
	a.armSum(8, 0)
	for i := range 8 {
		a.Op("FMOVS", V(2*i), At(R0).Plus(16*(i/2)+4*(i%2)))
	}
	a.Advance(8, R0)
	a.Op("ADD", R3+"<<1", R2)
	a.Op("SUBS", 1, R9)
	a.Op("BNE", pass)
	a.Op("RET")
}
