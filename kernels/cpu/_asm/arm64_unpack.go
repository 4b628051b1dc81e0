package main

// armFormat is how arm64 unpacks a format: the same for all instruction sets, and for GEMV and packing (see layout).
type armFormat interface {
	Block() Block
	// ArmConstants sets registers that the others need, V16-V31.
	ArmConstants(l *layout)
	// ArmUnpack calls l.visit with registers of weights, of half a block of 32 columns or of all of it, see layout. The
	// offset of the scheme is not subtracted.
	ArmUnpack(l *layout)
	// ArmScales, for blocks of 256, loads the scales of the row at R2 to V24 and on, and the minima to V26 and on, in
	// float32. It uses V8-V11 and R11-R15.
	ArmScales(a *arm)
	// ArmPanelScales stores the scales of four rows, at R9, and the minima, at R10.
	ArmPanelScales(a *arm)
}

func (oneScale) ArmScales(*arm) {}

func (oneScale) ArmPanelScales(a *arm) {
	a.loadFourHalves(0)
	a.Op("FMOVQ", V(15), At(R9))
}

// layout says in which registers weights are while they are unpacked: one row for GEMV (16 columns to a register, and
// for blocks of 256 the next 16 in another) or a group of four rows for packing (four registers of 16 columns,
// interleaved for the instruction set; for blocks of 256 first one half of all blocks of 32, then the other).
type layout struct {
	*arm
	panel     bool
	bytes     [2][]V // where load loads to, in turn
	bits      []V    // where further bits are loaded to
	low, high []V    // results: of low nibbles, of high ones
	at        int    // of a row: bytes from R2 to the block
	half      int    // of a panel: 0 or 1, the half of blocks of 256 that is unpacked
	loads     int    // so far
	visit     func(block, half int, w []V)
}

func rowLayout(a *arm) *layout {
	n := 1
	if a.format.Block().Columns == 256 {
		n = 2
	}
	return &layout{
		arm:   a,
		bytes: [2][]V{registerRange(n, 16), registerRange(n, 18)}, bits: registerRange(n, 20),
		low: registerRange(n, 2), high: registerRange(n, 22),
	}
}

func panelLayout(a *arm) *layout {
	return &layout{
		arm: a, panel: true,
		bytes: [2][]V{registerRange(4, 4), registerRange(4, 20)}, bits: registerRange(4, 16),
		low: registerRange(4, 12), high: registerRange(4, 8),
	}
}

// eachBlock unpacks a row and calls multiply with two registers of each block of 32 columns.
func (l *layout) eachBlock(multiply func(block int, w []V)) {
	var both []V
	l.visit = func(block, _ int, w []V) {
		if both = append(both, w...); len(both) == 2 {
			multiply(block, both)
			both = nil
		}
	}
	l.loads = 0
	l.format.ArmUnpack(l)
}

// loadBytes loads the bytes at offset in the block: 16 bytes of each row, or 32 if the single row has blocks of 256.
func (l *layout) loadBytes(offset int) []V {
	l.loads++
	return l.loadTo(l.bytes[(l.loads-1)%2], offset)
}

func (l *layout) loadTo(v []V, offset int) []V {
	switch offset += 16 * l.half; {
	case l.panel:
		l.loadFourRows(offset)
		l.set.Interleave(l.arm, v)
	case len(v) == 2:
		l.LoadPair("", At(R2).Plus(l.at+offset), v[0])
	default:
		l.Op("FMOVQ", At(R2).Plus(l.at+offset), v[0])
	}
	return v
}

// splitNibbles expects bytes of 15 in V31.
func (l *layout) splitNibbles(v []V) (low, high []V) {
	low, high = l.low[:len(v)], l.high[:len(v)]
	for i := range v {
		l.Lanes("B16", "VAND", 31, v[i], low[i])
	}
	for i := range v {
		l.Shift("B16", "VUSHR", 4, v[i], high[i])
	}
	return low, high
}

// nibblesWithBits returns the low and the high nibbles with further bits above them. A shift to the left, or to the
// right if it is negative, moves these bits to their places. V30 masks the bits of a weight if a shift leaves others.
func (l *layout) nibblesWithBits(v, bits []V, leftLow, leftHigh int) (low, high []V) {
	low, high = l.low, l.high
	l.shiftBits(bits, leftLow, low)
	for i := range v {
		l.Lanes("B16", "VBIT", 31, v[i], low[i])
	}
	l.keepBits(low, leftLow)
	l.shiftBits(bits, leftHigh, high)
	for i := range v {
		l.Shift("B16", "VSRI", 4, v[i], high[i])
	}
	l.keepBits(high, leftHigh)
	return low, high
}

func (l *layout) shiftBits(bits []V, left int, to []V) {
	for i := range bits {
		switch {
		case left > 0:
			l.Shift("B16", "VSHL", left, bits[i], to[i])
		case left < 0:
			l.Shift("B16", "VUSHR", -left, bits[i], to[i])
		default:
			l.Lanes("B16", "VMOV", bits[i], to[i])
		}
	}
}

func (l *layout) keepBits(w []V, left int) {
	if left == l.Scheme.Bits-8 {
		return
	}
	for _, v := range w {
		l.Lanes("B16", "VAND", 30, v, v)
	}
}
