package gguf

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/testdata"
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
	require.NoError(t, typ.Quantize(b, x))
	return b
}

// TestQuantizeAsLlamaCpp: where the golden files have the very floats that llama.cpp quantised, the bytes are equal.
func TestQuantizeAsLlamaCpp(t *testing.T) {
	dir := testdata.Shared(t, "golden")
	src, err := Open(filepath.Join(dir, "a-1layer-tied-f32.gguf"))
	require.NoError(t, err)
	defer src.Close()
	for name, typ := range map[string]Type{"bf16": BF16, "q4_1": Q4_1, "q5_0": Q5_0, "q5_1": Q5_1} {
		f, err := Open(filepath.Join(dir, "a-1layer-tied-"+name+".gguf"))
		require.NoError(t, err)
		n := 0
		for _, want := range f.Tensors() {
			if want.Type != typ {
				continue
			}
			x, ok := src.Tensor(want.Name)
			require.True(t, ok)
			require.True(t, string(quantized(t, typ, floats(x))) == string(want.Data), "%s %s", name, want.Name)
			n++
		}
		require.Equal(t, 8, n)
		require.NoError(t, f.Close())
	}
}

// TestQuantizeKError: the error of K types against that of llama.cpp's file of the same weights.
func TestQuantizeKError(t *testing.T) {
	dir := testdata.Shared(t, "golden")
	src, err := Open(filepath.Join(dir, "a-tied-f16.gguf"))
	require.NoError(t, err)
	defer src.Close()
	for name, typ := range map[string]Type{"q4_k": Q4_K, "q6_k": Q6_K, "q4_0": Q4_0, "q8_0": Q8_0} {
		f, err := Open(filepath.Join(dir, "a-tied-"+name+".gguf"))
		require.NoError(t, err)
		for _, theirs := range f.Tensors() {
			if theirs.Type != typ {
				continue
			}
			x, _ := src.Tensor(theirs.Name)
			ref := floats(x)
			ours := Tensor{Type: typ, Shape: x.Shape, Data: quantized(t, typ, ref)}
			a, b := relErr(floats(ours), ref), relErr(floats(theirs), ref)
			t.Log(typ, theirs.Name, a, b, a/b)
		}
		require.NoError(t, f.Close())
	}
}

func BenchmarkQuantize(b *testing.B) {
	x := deviates(1, 1<<16, 0.02)
	for _, typ := range writable() {
		b.Run(typ.String(), func(b *testing.B) {
			dst := quantized(b, typ, x)
			b.SetBytes(int64(len(x)))
			for b.Loop() {
				_ = typ.Quantize(dst, x)
			}
		})
	}
}

func BenchmarkDequantize(b *testing.B) {
	x := deviates(1, 1<<16, 0.02)
	for _, typ := range append(writable(), readable()...) {
		b.Run(typ.String(), func(b *testing.B) {
			elems, bytes := typ.Block()
			src := make([]byte, len(x)/elems*bytes)
			b.SetBytes(int64(len(x)))
			for b.Loop() {
				typ.Dequantize(x, src)
			}
		})
	}
}

var _ = math.Pi
