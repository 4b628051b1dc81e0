package block

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/blocktest"
)

// Reference implementations of dequantisation: one element at a time, in float64, from the position of its bits in the
// block.

// bitsAt returns n bits of b, from bit i (of byte i/8, counted from the least significant).
func bitsAt(b []byte, i, n int) int {
	v := 0
	for k := range n {
		v |= int(b[(i+k)/8]>>((i+k)%8)&1) << k
	}
	return v
}

func f16At(b []byte, off int) float64 { return f16Value(binary.LittleEndian.Uint16(b[off:])) }

// nibble32 returns the bit position of element i among the nibbles of a group of 32 in 16 bytes.
func nibble32(i int) int { return i%16*8 + i/16*4 }

// scaleMinRef returns scale and minimum of group g of Q4_K and Q5_K, from the bits of the 12 bytes.
func scaleMinRef(b []byte, g int) (scale, min float64) {
	if g < 4 {
		return float64(bitsAt(b, 8*g, 6)), float64(bitsAt(b, 8*(g+4), 6))
	}
	s := bitsAt(b, 8*(g+4), 4) | bitsAt(b, 8*(g-4)+6, 2)<<4
	m := bitsAt(b, 8*(g+4)+4, 4) | bitsAt(b, 8*g+6, 2)<<4
	return float64(s), float64(m)
}

// element returns element i of a block.
func element(t Type, b []byte, i int) float64 {
	values := iq4Values()
	chunk64, in64 := i/64, i%64 // Q4_K, Q5_K: 32 bytes for 64 elements
	half, quarter := i/128, i%128/32
	switch t {
	case Q4_0:
		return f16At(b, 0) * float64(bitsAt(b[2:], nibble32(i), 4)-8)
	case Q4_1:
		return f16At(b, 0)*float64(bitsAt(b[4:], nibble32(i), 4)) + f16At(b, 2)
	case Q5_0:
		return f16At(b, 0) * float64(bitsAt(b[6:], nibble32(i), 4)+16*bitsAt(b[2:], i, 1)-16)
	case Q5_1:
		return f16At(b, 0)*float64(bitsAt(b[8:], nibble32(i), 4)+16*bitsAt(b[4:], i, 1)) + f16At(b, 2)
	case Q8_0:
		return f16At(b, 0) * float64(int8(b[2+i]))
	case Q2_K:
		q := bitsAt(b[16+32*half+i%32:], 2*quarter, 2)
		return f16At(b, 80)*float64(b[i/16]%16)*float64(q) - f16At(b, 82)*float64(b[i/16]/16)
	case Q3_K:
		g := i / 16
		scale := bitsAt(b[96:], 8*(g%8)+4*(g/8), 4) + 16*bitsAt(b[104:], 8*(g%4)+2*(g/4), 2) - 32
		q := bitsAt(b[32+32*half+i%32:], 2*quarter, 2) + 4*bitsAt(b[i%32:], i/32, 1) - 4
		return f16At(b, 108) * float64(scale) * float64(q)
	case Q4_K:
		s, m := scaleMinRef(b[4:], i/32)
		return f16At(b, 0)*s*float64(bitsAt(b[16+32*chunk64+in64%32:], in64/32*4, 4)) - f16At(b, 2)*m
	case Q5_K:
		s, m := scaleMinRef(b[4:], i/32)
		q := bitsAt(b[48+32*chunk64+in64%32:], in64/32*4, 4) + 16*bitsAt(b[16+i%32:], i/32, 1)
		return f16At(b, 0)*s*float64(q) - f16At(b, 2)*m
	case Q6_K:
		q := bitsAt(b[64*half+i%64:], i%128/64*4, 4) + 16*bitsAt(b[128+32*half+i%32:], 2*quarter, 2) - 32
		return f16At(b, 208) * float64(int8(b[192+i/16])) * float64(q)
	case IQ4_NL:
		return f16At(b, 0) * float64(values[bitsAt(b[2:], nibble32(i), 4)])
	case IQ4_XS:
		g := i / 32
		scale := bitsAt(b[4:], 4*g, 4) + 16*bitsAt(b[2:], 2*g, 2) - 32
		return f16At(b, 0) * float64(scale) * float64(values[bitsAt(b[8+16*g:], nibble32(i%32), 4)])
	}
	panic(t)
}

// randomBlocks returns n blocks of random bits with finite float16 of the size of typical weights.
func randomBlocks(rng *rand.Rand, t Type, n int) []byte {
	_, size := t.Block()
	halves := map[Type][]int{
		Q4_1: {0, 2}, Q5_1: {0, 2}, Q2_K: {80, 82}, Q3_K: {108}, Q4_K: {0, 2}, Q5_K: {0, 2}, Q6_K: {208},
	}
	at, ok := halves[t]
	if !ok {
		at = []int{0}
	}
	all := make([]byte, 0, n*size)
	for range n {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		for _, off := range at {
			binary.LittleEndian.PutUint16(b[off:], F32ToF16(float32(rng.NormFloat64()*0.01)))
		}
		all = append(all, b...)
	}
	return all
}

// TestDequantize: the error of each element of random blocks is at most the rounding of two products and a sum.
func TestDequantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, typ := range []Type{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS} {
		const n = 50
		elems, size := typ.Block()
		src := randomBlocks(rng, typ, n)
		dst := make([]float32, n*elems)
		typ.Dequantize(dst, src)
		for i, got := range dst {
			want := element(typ, src[i/elems*size:], i%elems)
			require.InDelta(t, want, float64(got), 1e-5, "%s element %d", typ, i) // terms can be as large as 100
		}
	}
}

func TestDequantizeFloats(t *testing.T) {
	x := blocktest.Deviates(3, 64, 1)
	for _, typ := range []Type{F32, F16, BF16} {
		y := make([]float32, len(x))
		typ.Dequantize(y, blocktest.Quantized(t, typ, x))
		require.LessOrEqual(t, blocktest.RelErr(y, x), map[Type]float64{F32: 0, F16: 0x1p-11, BF16: 0x1p-8}[typ], typ)
	}
}

func TestLengthsPanic(t *testing.T) {
	for _, typ := range append(append(writable(), readable()...), 16, 99) {
		elems, size := typ.Block()
		require.Panics(t, func() { typ.Dequantize(make([]float32, elems+1), make([]byte, size)) }, typ)
		require.Panics(t, func() { typ.Dequantize(make([]float32, elems), make([]byte, size+1)) }, typ)
		require.Panics(t, func() { _ = typ.Quantize(make([]byte, size), make([]float32, 2*elems+1)) }, typ)
		if slices.Contains(Types(), typ) {
			require.NotPanics(t, func() { typ.Dequantize(nil, nil) })
		}
	}
}
