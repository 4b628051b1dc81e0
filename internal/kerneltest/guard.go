// Package kerneltest has helpers for tests of kernels: memory that detects accesses outside the arguments of a kernel,
// random arguments at any alignment, and tables of hashes that fix results to the last bit.
package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Canary is the value of the bytes before and after a guarded slice.
const Canary = 0xa5

// Guarded returns a slice of n elements for a kernel to read and write, off bytes before the end of its fenced memory,
// and a function that fails the test if a byte before or after the slice was written.
func Guarded[E any](t testing.TB, n, off int) ([]E, func()) {
	var e E
	size := n * int(unsafe.Sizeof(e))
	const before = 256
	m := allocFenced(t, before+size+off)
	for i := range m {
		m[i] = Canary
	}
	s := unsafe.Slice((*E)(unsafe.Pointer(&m[before])), n)
	return s, func() {
		t.Helper()
		for i, b := range m {
			if (i < before || i >= before+size) && b != Canary {
				t.Fatalf("write outside the slice: byte %d of %d..%d", i, before, before+size)
			}
		}
	}
}

// Inputs makes random arguments of kernels.
type Inputs struct {
	*rand.Rand
	T   testing.TB
	Off int // bytes between the end of an argument and the fence: the alignment
}

// NewInputs returns a source of arguments. The same seed gives the same arguments.
func NewInputs(t testing.TB, seed uint64, off int) *Inputs {
	return &Inputs{rand.New(rand.NewPCG(seed, 1)), t, off}
}

// Floats returns n normal deviates.
func (in *Inputs) Floats(n int) []float32 {
	s, _ := Guarded[float32](in.T, n, in.Off&^3)
	for i := range s {
		s[i] = float32(in.NormFloat64())
	}
	return s
}

// WideFloats returns n numbers of many magnitudes, including zeros and subnormal numbers.
func (in *Inputs) WideFloats(n int) []float32 {
	x := in.Floats(n)
	for i := range x {
		switch in.IntN(8) {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float32(math.Ldexp(float64(x[i]), in.IntN(60)-50))
		default:
			x[i] *= 10
		}
	}
	return x
}

// Bytes returns n random bytes.
func (in *Inputs) Bytes(n int) []byte {
	s, _ := Guarded[byte](in.T, n, in.Off)
	for i := range s {
		s[i] = byte(in.Uint32())
	}
	return s
}
