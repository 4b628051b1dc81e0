package block

import "math"

// F16ToF32 converts an IEEE 754 half to float32, exactly. A NaN stays one, made quiet, with its payload.
func F16ToF32(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp := uint32(h>>10) & 0x1f
	mant := uint32(h) & 0x3ff
	switch exp {
	case 0: // zero or subnormal: mant·2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(mant)*0x1p-24))
	case 0x1f:
		if mant != 0 {
			mant |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | mant<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | mant<<13)
}

// F32ToF16 converts f to an IEEE 754 half, rounding to nearest, ties to even. What is too large becomes infinite, and
// a NaN stays one, made quiet, with the high bits of its payload.
func F32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits &^ (1 << 31)
	switch {
	case abs >= 0x47800000: // 2¹⁶ and beyond
		if abs > 0x7f800000 {
			return sign | 0x7e00 | uint16(abs>>13)&0x3ff
		}
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴: the sum's last place is 2⁻²⁴, so that its rounding is the one wanted
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-math.Float32bits(0.5))
	}
	abs += 0xfff + abs>>13&1 // round in place; a carry into the exponent is right, even into infinity
	return sign | uint16((abs-(127-15)<<23)>>13)
}

// BF16ToF32 converts a bfloat16 to float32, exactly.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 converts f to a bfloat16, rounding to nearest, ties to even. A NaN stays one, made quiet.
func F32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&^(1<<31) > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
