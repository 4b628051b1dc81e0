package block

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// writable are the types that Quantize writes; readable the others.
func writable() []Type { return []Type{F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K} }
func readable() []Type { return []Type{Q2_K, Q3_K, Q5_K, IQ4_NL, IQ4_XS} }

// deviates returns n normal deviates of standard deviation sigma.
func deviates(seed uint64, n int, sigma float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * sigma)
	}
	return x
}

// quantized returns x in blocks of typ.
func quantized(t testing.TB, typ Type, x []float32) []byte {
	elems, bytes := typ.Block()
	b := make([]byte, len(x)/elems*bytes)
	for i := range b {
		b[i] = 0xa5 // what was in dst must not show
	}
	require.NoError(t, typ.Quantize(b, x))
	return b
}

// roundTrip returns x after quantising and dequantising.
func roundTrip(t *testing.T, typ Type, x []float32) []float32 {
	y := make([]float32, len(x))
	typ.Dequantize(y, quantized(t, typ, x))
	return y
}

// relErr returns ‖x-ref‖/‖ref‖.
func relErr(x, ref []float32) float64 {
	var diff, sum float64
	for i, r := range ref {
		d := float64(x[i]) - float64(r)
		diff += d * d
		sum += float64(r) * float64(r)
	}
	return math.Sqrt(diff / sum)
}

// typeErr is the relative error that a type leaves of normal deviates, as llama.cpp's files of the golden
// set show it: package gguf compares with them.
func typeErr(t Type) float64 {
	return map[Type]float64{
		BF16: 0.00166, Q4_0: 0.0858, Q4_1: 0.0782, Q5_0: 0.0427, Q5_1: 0.0378,
		Q8_0: 0.00535, Q2_K: 0.296, Q3_K: 0.1507, Q4_K: 0.0712, Q5_K: 0.0361, Q6_K: 0.0177,
		IQ4_NL: 0.0763, IQ4_XS: 0.0766,
	}[t]
}

// TestQuantizeError needs no files: normal deviates, and others, leave the error of the type.
func TestQuantizeError(t *testing.T) {
	x := deviates(5, 1<<16, 0.02)
	for _, typ := range writable()[3:] {
		require.InDelta(t, typeErr(typ), relErr(roundTrip(t, typ, x), x), 0.04*typeErr(typ), typ)
	}
	shifted := deviates(6, 1<<12, 0.02) // weights all of one sign: the types with a minimum may not lose by it
	for i := range shifted {
		shifted[i] = -shifted[i]*0.1 - 1
	}
	require.Less(t, relErr(roundTrip(t, Q4_K, shifted), shifted), 0.008)
	require.Less(t, relErr(roundTrip(t, Q4_1, shifted), shifted), 0.008)
}

// TestQuantizeEdges: blocks of zeros, of one value, with one outlier, of the least and the largest floats.
func TestQuantizeEdges(t *testing.T) {
	fill := func(v float32) []float32 {
		x := make([]float32, 256)
		for i := range x {
			x[i] = v
		}
		return x
	}
	outlier := fill(0)
	outlier[77] = -3
	for _, typ := range writable() {
		require.Equal(t, fill(0), roundTrip(t, typ, fill(0)), typ)
		for _, v := range []float32{1, -1, 0.37, -900} {
			require.InDelta(t, 0, relErr(roundTrip(t, typ, fill(v)), fill(v)), 0.01, "%s %g", typ, v)
		}
		require.Less(t, relErr(roundTrip(t, typ, outlier), outlier), 0.01, typ)
		tiny := roundTrip(t, typ, fill(math.SmallestNonzeroFloat32))
		require.Less(t, math.Abs(float64(tiny[0])), 1e-6, typ)
	}
}

// TestQuantizeSigns: Q6_K and the symmetric types keep a block and its negative alike.
func TestQuantizeSigns(t *testing.T) {
	x := deviates(9, 1<<12, 1)
	neg := make([]float32, len(x))
	for i, v := range x {
		neg[i] = -v
	}
	for _, typ := range []Type{Q4_0, Q5_0, Q8_0, Q6_K} {
		require.InDelta(t, relErr(roundTrip(t, typ, x), x), relErr(roundTrip(t, typ, neg), neg), 1e-6, typ)
	}
}

func TestQuantizeRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, typ := range writable()[3:] {
		for _, bad := range []float32{inf, -inf, float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, 3e9} {
			x := deviates(1, 512, 1)
			x[300] = bad
			elems, bytes := typ.Block()
			require.ErrorIs(t, typ.Quantize(make([]byte, 512/elems*bytes), x), ErrNotFinite, "%s %g", typ, bad)
		}
	}
	for _, typ := range readable() {
		elems, bytes := typ.Block()
		err := typ.Quantize(make([]byte, bytes), make([]float32, elems))
		require.ErrorIs(t, err, ErrNoQuantizer)
		require.ErrorContains(t, err, typ.String())
	}
}

// TestRoundAway compares with the rounding of the standard library, next to halves above all.
func TestRoundAway(t *testing.T) {
	for i := float32(-130); i <= 130; i += 0.5 {
		for _, v := range []float32{i, math.Nextafter32(i, 200), math.Nextafter32(i, -200)} {
			require.Equal(t, int32(math.Round(float64(v))), roundAway(v), "%g", v)
		}
	}
}

// FuzzQuantize: whatever bits the floats have, quantising them is refused or gives blocks whose values are finite.
func FuzzQuantize(f *testing.F) {
	f.Add(uint8(0), make([]byte, 1024))
	f.Add(uint8(8), bytes.Repeat([]byte{0, 0, 0x80, 0x7f}, 256))
	f.Add(uint8(9), bytes.Repeat([]byte{1, 0, 0, 0, 0xff, 0xff, 0x7f, 0x7f}, 128))
	f.Fuzz(func(t *testing.T, which uint8, bits []byte) {
		typ := writable()[3:][int(which)%7]
		x := make([]float32, len(bits)/1024*256)
		F32.Dequantize(x, bits[:len(bits)/1024*1024])
		elems, size := typ.Block()
		b := make([]byte, len(x)/elems*size)
		if err := typ.Quantize(b, x); err != nil {
			require.ErrorIs(t, err, ErrNotFinite)
			return
		}
		y := make([]float32, len(x))
		typ.Dequantize(y, b)
		for i := range y {
			require.True(t, finite(y[i]), "%s: %g became %g", typ, x[i], y[i])
		}
	})
}

func BenchmarkQuantize(b *testing.B) {
	x := deviates(1, 1<<16, 0.02)
	for _, typ := range writable() {
		b.Run(typ.String(), func(b *testing.B) {
			dst := quantized(b, typ, x)
			for b.Loop() {
				_ = typ.Quantize(dst, x)
			}
			b.ReportMetric(float64(len(x)*b.N)/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
	}
}

func BenchmarkDequantize(b *testing.B) {
	x := deviates(1, 1<<16, 0.02)
	for _, typ := range append(writable(), readable()...) {
		b.Run(typ.String(), func(b *testing.B) {
			elems, bytes := typ.Block()
			src := make([]byte, len(x)/elems*bytes)
			for b.Loop() {
				typ.Dequantize(x, src)
			}
			b.ReportMetric(float64(len(x)*b.N)/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
	}
}
