// Package blocktest has helpers for tests of block types: random weights, their conversion to a type and back, and the
// error of each type. It uses types through an interface, so that tests in package block can import it.
package blocktest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Type is a type of package block.
type Type interface {
	Block() (elems, bytes int)
	Quantize(dst []byte, src []float32) error
	Dequantize(dst []float32, src []byte)
	String() string
}

// Deviates returns n normal deviates of standard deviation sigma.
func Deviates(seed uint64, n int, sigma float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * sigma)
	}
	return x
}

// Quantized returns x in blocks of typ.
func Quantized(t testing.TB, typ Type, x []float32) []byte {
	t.Helper()
	elems, bytes := typ.Block()
	b := make([]byte, len(x)/elems*bytes)
	for i := range b {
		b[i] = 0xa5 // the result must not depend on the old content
	}
	if err := typ.Quantize(b, x); err != nil {
		t.Fatal(err)
	}
	return b
}

// RoundTrip returns x after quantising and dequantising.
func RoundTrip(t testing.TB, typ Type, x []float32) []float32 {
	t.Helper()
	y := make([]float32, len(x))
	typ.Dequantize(y, Quantized(t, typ, x))
	return y
}

// Loss returns the relative error of quantising x to typ.
func Loss(t testing.TB, typ Type, x []float32) float64 {
	t.Helper()
	return RelErr(RoundTrip(t, typ, x), x)
}

// RelErr returns ‖x-ref‖/‖ref‖.
func RelErr(x, ref []float32) float64 {
	var diff, sum float64
	for i, r := range ref {
		d := float64(x[i]) - float64(r)
		diff += d * d
		sum += float64(r) * float64(r)
	}
	return math.Sqrt(diff / sum)
}

// TypeErr returns the relative error of quantising normal deviates to a type, as in llama.cpp's files of the golden
// set: within 3% for every tensor of 32,768 weights or more. It is 0 for types with an unknown error.
func TypeErr(typ Type) float64 {
	return map[string]float64{
		"BF16": 0.00166, "Q4_0": 0.0858, "Q4_1": 0.0782, "Q5_0": 0.0427, "Q5_1": 0.0378, "Q8_0": 0.00535,
		"Q2_K": 0.296, "Q3_K": 0.1507, "Q4_K": 0.0712, "Q5_K": 0.0361, "Q6_K": 0.0177,
		"IQ4_NL": 0.0763, "IQ4_XS": 0.0766,
	}[typ.String()]
}
