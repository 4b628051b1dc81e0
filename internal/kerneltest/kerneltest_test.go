package kerneltest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seen records failures instead of failing.
type seen struct {
	testing.TB
	said []string
}

func (s *seen) Errorf(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *seen) Fatalf(format string, args ...any) { s.Errorf(format, args...) }

// TestGuarded: a write beside a slice is found, before it and between it and the fence, and one to the slice is not.
func TestGuarded(t *testing.T) {
	for at, want := range map[int]bool{-256: true, -1: true, 0: false, 11: false, 12: true, 16: true} {
		s := &seen{TB: t}
		x, check := Guarded[float32](s, 3, 5)
		require.Len(t, x, 3)
		check()
		require.Empty(t, s.said)
		*(*byte)(unsafe.Add(unsafe.Pointer(&x[0]), at)) = 7
		check()
		assert.Equal(t, want, len(s.said) > 0, at)
	}
}

// TestFence: on systems with fences, an access after the end of the memory is a fault.
func TestFence(t *testing.T) {
	if !fences {
		t.Skip("no fences")
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, n := range []int{1, 4096, 5000} {
		m := allocFenced(t, n)
		require.Len(t, m, n)
		m[n-1] = 1
		assert.Panics(t, func() { *(*byte)(unsafe.Add(unsafe.Pointer(&m[0]), n)) = 1 }, n)
	}
}

// TestInputs: the same seed gives the same arguments, another seed others; wide numbers include zeros and subnormal
// numbers.
func TestInputs(t *testing.T) {
	of := func(seed uint64) string {
		in := NewInputs(t, seed, 3)
		return Hash(t, in.Floats(5), in.Bytes(5), in.WideFloats(5))
	}
	assert.Equal(t, of(1), of(1))
	assert.NotEqual(t, of(1), of(2))
	zeros, small, large := 0, 0, 0
	for _, x := range NewInputs(t, 1, 0).WideFloats(10_000) {
		switch size := math.Abs(float64(x)); {
		case size == 0:
			zeros++
		case size < 1e-9:
			small++
		case size > 10:
			large++
		}
	}
	assert.True(t, zeros > 0 && small > 0 && large > 0, "%d, %d, %d", zeros, small, large)
}

// TestHoldBits: a line that the table lacks is an error, also if another instruction set has it; an update replaces the
// lines of its set only.
func TestHoldBits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bits")
	held := func(set string, update bool, lines ...string) []string {
		s := &seen{TB: t}
		HoldBits(s, file, set, lines, update)
		return s.said
	}
	assert.Empty(t, held("b", true, "x 1", "y 2"))
	assert.Empty(t, held("c", true, "x 3"))
	assert.Empty(t, held("a", true, "x 4"))
	assert.Empty(t, held("b", true, "x 5", "z 6"))
	table, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "a x 4\nb x 5\nb z 6\nc x 3\n", string(table))
	assert.Empty(t, held("b", false, "x 5"))
	assert.Len(t, held("b", false, "x 5", "x 4", "y 2"), 2)
	same, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, table, same)
}
