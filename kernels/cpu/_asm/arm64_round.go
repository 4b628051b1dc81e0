package main

// armRound rounds activations to 8 bits, a block of 32 at a time (roundGeneric). Magnitudes are ordered like integers,
// with infinity and NaN above all. A block with one of these, or with no magnitude of at least 1e-36, becomes zeros; in
// the first case its scale is NaN.
//
// R0 q, R1 d, R2 blocks left, R3 s, R4 h, R5 x; V0-V7 the block; R7 the bits of infinity, R8 of 1e-36, F30 127, F24 d.
func armRound(a *arm) {
	a.ToArgs(R6)
	a.Load(R6, "q", R0, "d", R1, "n", R2)
	a.Op("LSR", 5, R2)
	a.Load(R6, "s", R3, "h", R4, "x", R5)
	a.Op("MOVD", 0x7f800000, R7)
	a.Op("MOVD", 0x03aa2425, R8)
	a.Op("MOVD", 0x42fe0000, R9)
	a.Op("FMOVS", R9, V(30))
	block := a.Here("block")
	for v := V(0); v < 8; v += 4 {
		a.Op("VLD1.P", At(R5).Plus(64), a.List("S4", registerRange(4, v)...))
	}
	for v := range V(8) {
		a.Word("FABS", v, 16+v)
	}
	for step := V(1); step < 8; step *= 2 {
		for v := V(16); v < 24; v += 2 * step {
			a.Lanes("S4", "VUMAX", v+step, v, v)
		}
	}
	a.Word("UMAXV", 16, 16)
	a.Op("FMOVS", V(16), R6)
	a.Op("CMPW", R7, R6)
	a.Op("BHS", "notfinite")
	a.Op("CMPW", R8, R6)
	a.Op("BLO", "zero")
	a.Op("FDIVS", V(30), V(16), V(24))
	a.Op("FDIVS", V(16), V(30), V(25))
	for v := range V(8) {
		a.Word("FMULE", 25, v, v)
	}
	a.Each("FCVTNS", 8, 0)
	a.storeRoundedSums()
	for v := V(0); v < 8; v += 2 {
		a.Lanes("H8", "VUZP1", v+1, v, v)
	}
	a.Lanes("B16", "VUZP1", 2, 0, 0)
	a.Lanes("B16", "VUZP1", 6, 4, 1)
	next := func() {
		a.Op("VST1.P", a.List("B16", 0, 1), At(R0).Plus(32))
		a.Op("SUBS", 1, R2)
		a.Op("BNE", block)
		a.Op("RET")
	}
	next()
	a.Place("notfinite")
	a.Op("MOVD", 0x7fc00000, R9)
	a.Op("B", "fill")
	a.Place("zero")
	a.Op("MOVD", 0, R9)
	a.Place("fill")
	a.Op("MOVW.P", R9, At(R1).Plus(4))
	a.Op("MOVW.P", R9, At(R3).Plus(4))
	a.Op("MOVW.P", Reg("ZR"), At(R4).Plus(4))
	a.Zero(2, 0)
	next()
}

// storeRoundedSums stores h, the sums of both halves, s, d times that of both, and d.
func (a *arm) storeRoundedSums() {
	for i := range V(4) {
		a.Lanes("S4", "VADD", 2*i+1, 2*i, 16+i)
	}
	a.Lanes("S4", "VADD", 17, 16, 16)
	a.Lanes("S4", "VADD", 19, 18, 18)
	a.Lanes("S4", "VADDP", 18, 16, 16)
	a.Lanes("S4", "VADDP", 16, 16, 16)
	a.Lanes("H8", "VUZP1", 16, 16, 17)
	a.Op("FMOVS.P", V(17), At(R4).Plus(4))
	a.Lanes("S4", "VADDP", 16, 16, 16)
	a.Word("SCVTF", 16, 16)
	a.Op("FMULS", V(24), V(16), V(16))
	a.Op("FMOVS.P", V(16), At(R3).Plus(4))
	a.Op("FMOVS.P", V(24), At(R1).Plus(4))
}
