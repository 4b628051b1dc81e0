package cpu

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// canary fills what lies before and after a guarded slice.
const canary = 0xa5

// guarded returns a slice of n elements for a leaf to read and write, off bytes short of the end of its fenced memory, and a
// function that fails the test if a byte before or after the slice was written.
func guarded[E any](t testing.TB, n, off int) ([]E, func()) {
	var e E
	size := n * int(unsafe.Sizeof(e))
	const before = 256
	m := fenced(t, before+size+off)
	for i := range m {
		m[i] = canary
	}
	s := unsafe.Slice((*E)(unsafe.Pointer(&m[before])), n)
	return s, func() {
		t.Helper()
		for i, b := range m {
			if (i < before || i >= before+size) && b != canary {
				require.Failf(t, "write outside the slice", "byte %d of %d..%d", i, before, before+size)
			}
		}
	}
}

// inputs makes the arguments of leaves; off chooses their alignment.
type inputs struct {
	*rand.Rand
	t   testing.TB
	off int
}

func newInputs(t testing.TB, seed uint64, off int) *inputs {
	return &inputs{rand.New(rand.NewPCG(seed, 1)), t, off}
}

// floats returns n normal deviates.
func (in *inputs) floats(n int) []float32 {
	s, _ := guarded[float32](in.t, n, in.off&^3)
	for i := range s {
		s[i] = float32(in.NormFloat64())
	}
	return s
}

// bytes returns n random bytes.
func (in *inputs) bytes(n int) []byte {
	s, _ := guarded[byte](in.t, n, in.off)
	for i := range s {
		s[i] = byte(in.Uint32())
	}
	return s
}

// eachVariant runs f on every variant that this CPU offers.
func eachVariant(t *testing.T, f func(t *testing.T, k *kernels)) {
	for _, k := range variants() {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}
