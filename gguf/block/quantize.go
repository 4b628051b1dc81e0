package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Errors of [Type.Quantize].
var (
	ErrNoQuantizer = errors.New("this type can be read but not written")
	ErrNotFinite   = errors.New("a weight is infinite, not a number, or too large for the type")
)

// Quantize sets dst to the blocks of t that store src, the inverse of [Type.Dequantize] up to the rounding of the
// type: len(src) is a multiple of the elements of a block, and dst is exactly the bytes of those blocks; other lengths
// panic. The error is [ErrNoQuantizer] for a type that can only be read, and [ErrNotFinite] if a weight is infinite or
// no number, or a scale does not fit its float16; dst is then partly written. F32, F16 and BF16 take any value.
// The bytes are the same on every machine.
func (t Type) Quantize(dst []byte, src []float32) error {
	t.checkLengths(len(src), len(dst))
	switch t {
	case F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case F16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(x))
		}
	case BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(x))
		}
	case Q4_0:
		return quantEach32(dst, src, 18, quantQ4_0)
	case Q4_1:
		return quantEach32(dst, src, 20, quantQ4_1)
	case Q5_0:
		return quantEach32(dst, src, 22, quantQ5_0)
	case Q5_1:
		return quantEach32(dst, src, 24, quantQ5_1)
	case Q8_0:
		return quantEach32(dst, src, 34, quantQ8_0)
	case Q4_K:
		return quantEach256(dst, src, 144, quantQ4K)
	case Q6_K:
		return quantEach256(dst, src, 210, quantQ6K)
	default:
		return fmt.Errorf("%s: %w", t, ErrNoQuantizer)
	}
	return nil
}

// quantEach32 calls block for each 32 elements of src, all finite, with the bytes of their block. The block returns
// false if its scales do not fit.
func quantEach32(dst []byte, src []float32, bytes int, block func(b []byte, x *[32]float32, amax float32) bool) error {
	for i := 0; len(src) > 0; i, dst, src = i+1, dst[bytes:], src[32:] {
		x := (*[32]float32)(src)
		if amax := absMax(x[:]); !isFinite(amax) || !block(dst[:bytes], x, amax) {
			return fmt.Errorf("block %d: %w", i, ErrNotFinite)
		}
	}
	return nil
}

func quantEach256(dst []byte, src []float32, bytes int, block func(b []byte, x *[256]float32) bool) error {
	for i := 0; len(src) > 0; i, dst, src = i+1, dst[bytes:], src[256:] {
		x := (*[256]float32)(src)
		if !isFinite(absMax(x[:])) || !block(dst[:bytes], x) {
			return fmt.Errorf("block %d: %w", i, ErrNotFinite)
		}
	}
	return nil
}

// absMax returns the largest |x|: infinite if one is, NaN if one is.
func absMax(x []float32) float32 {
	var m0, m1 uint32 // without the sign, the order of floats is that of their bits; NaN are above infinity
	for ; len(x) >= 2; x = x[2:] {
		m0 = max(m0, math.Float32bits(x[0])&^(1<<31))
		m1 = max(m1, math.Float32bits(x[1])&^(1<<31))
	}
	return math.Float32frombits(max(m0, m1))
}

func isFinite(x float32) bool { return x-x == 0 }

// putHalf stores x as float16 and reports whether it is finite there.
func putHalf(b []byte, x float32) bool {
	h := F32ToF16(x)
	binary.LittleEndian.PutUint16(b, h)
	return h&0x7c00 != 0x7c00
}

// inverseOrZero returns 1/d, or 0 if that is infinite: in that case d is 0 as a float16 too, and so are all elements.
func inverseOrZero(d float32) float32 {
	if inv := 1 / d; isFinite(inv) {
		return inv
	}
	return 0
}
