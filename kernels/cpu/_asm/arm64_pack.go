package main

// armPack unpacks the sixteen rows of a panel, a group of four at a time, and stores them. A block of 32 columns of a
// group is 128 bytes, and of all sixteen rows 512.
//
// R0 w, R1 ds, R2 mins, R3 src of a group, R12 stride, R13 groups left, R14 what is prefetched, R17 its end, R19
// columns; of a group R4-R7 its rows, R8 w, R9 ds, R10 mins, R11 columns left; R15, R16 for anything. V0-V3 what is
// loaded of the rows, V4-V23 see panelLayout; V28-V31 constants.
func armPack(a *arm) {
	b, l := a.format.Block(), panelLayout(a)
	a.ToArgs(R4)
	a.Load(R4, "w", R0, "ds", R1, "mins", R2, "src", R3, "stride", R12, "prefetch", R14, "prefetchBytes", R17)
	a.Op("ADD", R14, R17)
	a.Load(R4, "columns", R19)
	a.Op("MOVD", 4, R13)
	a.format.ArmConstants(l)
	if a.Scheme.Offset != 0 {
		a.Constant(29, a.Scheme.Offset)
	}
	group := a.Here("group")
	a.Op("MOVD", R3, R4)
	a.Op("ADD", R12, R4, R5)
	a.Op("ADD", R12, R5, R6)
	a.Op("ADD", R12, R6, R7)
	a.Op("ADD", R12, R7, R3)
	for _, r := range [][2]Reg{{R0, R8}, {R1, R9}, {R2, R10}, {R19, R11}} {
		a.Op("MOVD", r[0], r[1])
	}
	block := a.Here("block")
	l.storeBlock(b.Columns / 32)
	a.format.ArmPanelScales(a)
	for range (2*b.Bytes + 127) / 128 { // half of what is loaded
		a.Prefetch(R14, R17, 128, "prefetched")
	}
	a.Place("prefetched")
	a.Advance(b.Bytes, groupRows[:]...)
	a.Advance(16*b.Columns, R8)
	a.Advance(4*b.Columns, R9)
	a.Advance(2*b.Columns, R10)
	a.Op("SUBS", b.Columns, R11)
	a.Op("BNE", block)
	a.Advance(128, R0)
	a.Advance(16, R1, R2)
	a.Op("SUBS", 1, R13)
	a.Op("BNE", group)
	a.Op("RET")
}

// groupRows points to the rows of a group.
var groupRows = [4]Reg{R4, R5, R6, R7}

func (l *layout) storeBlock(blocks int) {
	l.visit = func(block, half int, w []V) {
		if l.Scheme.Offset != 0 {
			for _, v := range w {
				l.Lanes("B16", "VSUB", 29, v, v)
			}
		}
		for i := 0; i < 4; i += 2 {
			to := At(R8).Plus(512*block + 64*half + 16*i)
			if block == 0 {
				l.StorePair(w[i], to)
				continue
			}
			l.Op("FMOVQ", w[i], to) // two registers can be stored less than 1024 bytes away
			l.Op("FMOVQ", w[i+1], to.Plus(16))
		}
	}
	for l.half = range min(2, blocks) {
		l.format.ArmUnpack(l)
	}
}

// loadFourRows loads 16 bytes of each row to V0-V3.
func (a *arm) loadFourRows(offset int) {
	for i, row := range groupRows {
		a.Op("FMOVQ", At(row).Plus(offset), V(i))
	}
}

// loadFourHalves loads a half-precision number of each row to V15, in float32.
func (a *arm) loadFourHalves(offset int) {
	a.Op("MOVHU", At(R4).Plus(offset), R15)
	for i, row := range groupRows[1:] {
		a.Op("MOVHU", At(row).Plus(offset), R16)
		a.Op("ORR", R16+Reg([]string{"<<16", "<<32", "<<48"}[i]), R15)
	}
	a.Op("FMOVD", R15, V(15))
	a.Word("FCVTL", 15, 15)
}

// storeBytes stores bytes 0 to 3 of each lane of v, signed or unsigned, times scale, step bytes apart. It uses V12.
func (a *arm) storeBytes(v, scale V, signed bool, to Mem, step int) {
	for i := range 4 {
		a.Shift("S4", "VSHL", 24-8*i, v, 12)
		if signed {
			a.Word("SSHR", 24, 12, 12)
		} else {
			a.Shift("S4", "VUSHR", 24, 12, 12)
		}
		a.Word("SCVTF", 12, 12)
		a.Word("FMUL", scale, 12, 12)
		a.Op("FMOVQ", V(12), to.Plus(i*step))
	}
}
