package block

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/blocktest"
)

// writable returns the types that Quantize writes, and readable the others.
func writable() []Type { return []Type{F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K} }
func readable() []Type { return []Type{Q2_K, Q3_K, Q5_K, IQ4_NL, IQ4_XS} }

// TestQuantizeError: for normal deviates, and other data, the error is that of the type.
func TestQuantizeError(t *testing.T) {
	x := blocktest.Deviates(5, 1<<16, 0.02)
	for _, typ := range writable()[3:] {
		want := blocktest.TypeErr(typ)
		require.InDelta(t, want, blocktest.Loss(t, typ, x), 0.04*want, typ)
	}
	// weights with one sign: a minimum must not make the error larger
	shifted := blocktest.Deviates(6, 1<<12, 0.02)
	for i := range shifted {
		shifted[i] = -shifted[i]*0.1 - 1
	}
	require.Less(t, blocktest.Loss(t, Q4_K, shifted), 0.008)
	require.Less(t, blocktest.Loss(t, Q4_1, shifted), 0.008)
}

// TestQuantizeEdges: blocks of zeros, of one value, with one outlier, with the smallest and the largest floats.
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
		require.Equal(t, fill(0), blocktest.RoundTrip(t, typ, fill(0)), typ)
		for _, v := range []float32{1, -1, 0.37, -900} {
			require.InDelta(t, 0, blocktest.Loss(t, typ, fill(v)), 0.01, "%s %g", typ, v)
		}
		require.Less(t, blocktest.Loss(t, typ, outlier), 0.01, typ)
		tiny := blocktest.RoundTrip(t, typ, fill(math.SmallestNonzeroFloat32))
		require.Less(t, math.Abs(float64(tiny[0])), 1e-6, typ)
	}
	zeros := bytes.Repeat(append([]byte{0, 0x80}, bytes.Repeat([]byte{0x88}, 16)...), 8) // a scale of -0
	require.Equal(t, zeros, blocktest.Quantized(t, Q4_0, fill(0)))
	tiny := fill(0)
	tiny[3] = 1e-40 // the inverse of its scale is infinite
	require.Equal(t, zeros, blocktest.Quantized(t, Q4_0, tiny))
}

// TestQuantizeSigns: Q6_K and the symmetric types treat a block and its negative in the same way.
func TestQuantizeSigns(t *testing.T) {
	x := blocktest.Deviates(9, 1<<12, 1)
	neg := make([]float32, len(x))
	for i, v := range x {
		neg[i] = -v
	}
	for _, typ := range []Type{Q4_0, Q5_0, Q8_0, Q6_K} {
		require.InDelta(t, blocktest.Loss(t, typ, x), blocktest.Loss(t, typ, neg), 1e-6, typ)
	}
}

func TestQuantizeRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, typ := range writable()[3:] {
		for _, bad := range []float32{inf, -inf, float32(math.NaN()), math.MaxFloat32, -math.MaxFloat32, 3e9} {
			x := blocktest.Deviates(1, 512, 1)
			x[300] = bad
			elems, bytes := typ.Block()
			err := typ.Quantize(make([]byte, 512/elems*bytes), x)
			require.ErrorIs(t, err, ErrNotFinite, "%s %g", typ, bad)
			require.ErrorContains(t, err, fmt.Sprintf("block %d: ", 300/elems), typ)
		}
	}
	for _, typ := range readable() {
		elems, bytes := typ.Block()
		err := typ.Quantize(make([]byte, bytes), make([]float32, elems))
		require.ErrorIs(t, err, ErrNoQuantizer)
		require.ErrorContains(t, err, typ.String())
	}
}

// TestRoundAway compares with the rounding of the standard library, especially near halves.
func TestRoundAway(t *testing.T) {
	for i := float32(-130); i <= 130; i += 0.5 {
		for _, v := range []float32{i, math.Nextafter32(i, 200), math.Nextafter32(i, -200)} {
			require.Equal(t, int32(math.Round(float64(v))), roundAway(v), "%g", v)
		}
	}
}

// FuzzQuantize: quantising floats with any bits is refused, or gives blocks with finite values.
func FuzzQuantize(f *testing.F) {
	f.Add(uint8(0), make([]byte, 1024))
	f.Add(uint8(8), bytes.Repeat([]byte{0, 0, 0x80, 0x7f}, 256))
	f.Add(uint8(9), bytes.Repeat([]byte{1, 0, 0, 0, 0xff, 0xff, 0x7f, 0x7f}, 128))
	for which := range uint8(7) {
		for _, v := range []float32{1e6, -1e6, 5e6, -5e6} { // scale and minimum fit float16 for some types only
			f.Add(which, bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)), 256))
		}
	}
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
			require.True(t, isFinite(y[i]), "%s: %g became %g", typ, x[i], y[i])
		}
	})
}

func BenchmarkQuantize(b *testing.B) {
	x := blocktest.Deviates(1, 1<<16, 0.02)
	for _, typ := range writable() {
		b.Run(typ.String(), func(b *testing.B) {
			dst := blocktest.Quantized(b, typ, x)
			for b.Loop() {
				_ = typ.Quantize(dst, x)
			}
			b.ReportMetric(float64(len(x)*b.N)/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
	}
}

func BenchmarkDequantize(b *testing.B) {
	x := blocktest.Deviates(1, 1<<16, 0.02)
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
