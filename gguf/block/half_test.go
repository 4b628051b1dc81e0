package block

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// f16Value is the definition of a finite half.
func f16Value(h uint16) float64 {
	sign, exp, mant := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	if exp == 0 {
		return sign * math.Ldexp(mant, -24)
	}
	return sign * math.Ldexp(1024+mant, exp-25)
}

// TestF16ToF32 tests all half-precision numbers.
func TestF16ToF32(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f, mant := F16ToF32(h), h&1023
		switch {
		case h>>10&31 != 31:
			require.Equal(t, math.Float64bits(f16Value(h)), math.Float64bits(float64(f)), "%04x", h)
			require.Equal(t, h, F32ToF16(f), "%04x", h)
		case mant == 0:
			require.True(t, math.IsInf(float64(f), 1-2*int(h>>15)))
			require.Equal(t, h, F32ToF16(f))
		default:
			require.True(t, f != f)
			require.NotZero(t, math.Float32bits(f)&(1<<22), "quiet")
			require.Equal(t, h|0x200, F32ToF16(f), "payload of NaN")
		}
	}
}

// TestF32ToF16 tests all pairs of neighboring half-precision numbers: a float below the midpoint is rounded down, above
// it up, and exactly at it to even. Because the conversion is monotonic in between, this covers every float.
func TestF32ToF16(t *testing.T) {
	for i := range uint16(0x7c00) {
		low, high := f16Value(i), f16Value(i+1)
		if i == 0x7bff {
			high = 65536 // the next number after the largest half; infinity replaces it
		}
		mid := float32((low + high) / 2) // 12 bits: exact
		even := i + i&1
		require.Equal(t, even, F32ToF16(mid), "%04x", i)
		require.Equal(t, i, F32ToF16(math.Nextafter32(mid, 0)), "%04x", i)
		require.Equal(t, i+1, F32ToF16(math.Nextafter32(mid, 1e9)), "%04x", i)
		require.Equal(t, i|0x8000, F32ToF16(-math.Nextafter32(mid, 0)), "%04x", i)
		require.Equal(t, i+1|0x8000, F32ToF16(-math.Nextafter32(mid, 1e9)), "%04x", i)
	}
	require.Equal(t, uint16(0x7c00), F32ToF16(math.MaxFloat32))
	require.Equal(t, uint16(0x0000), F32ToF16(math.SmallestNonzeroFloat32))
	require.Equal(t, uint16(0x8000), F32ToF16(float32(math.Copysign(0, -1))))
}

// TestF32ToF16Monotonic tests every 4,099th float.
func TestF32ToF16Monotonic(t *testing.T) {
	last := uint16(0)
	for bits := uint64(0); bits <= 0x7f800000; bits += 4099 {
		h := F32ToF16(math.Float32frombits(uint32(bits)))
		if h < last {
			t.Fatalf("%#x becomes %#x, a smaller number %#x", bits, h, last)
		}
		last = h
	}
}

// TestBF16 tests all bfloat16 and the midpoints between neighbors.
func TestBF16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := BF16ToF32(h)
		require.Equal(t, uint32(h)<<16, math.Float32bits(f))
		if f != f {
			require.Equal(t, h|0x40, F32ToBF16(f))
			continue
		}
		require.Equal(t, h, F32ToBF16(f))
		if h&0x7fff == 0x7f80 {
			continue // infinity has no upper neighbour
		}
		mid := uint32(h)<<16 | 0x8000
		require.Equal(t, h+h&1, F32ToBF16(math.Float32frombits(mid)))
		require.Equal(t, h, F32ToBF16(math.Float32frombits(mid-1)))
		require.Equal(t, h+1, F32ToBF16(math.Float32frombits(mid+1)))
	}
	nan := math.Float32frombits(0x7f800001) // a payload that truncation would lose
	require.Equal(t, uint16(0x7fc0), F32ToBF16(nan))
}
