package soft

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
)

// open makes a device for a test, or skips the test without a compiler.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// floats makes a buffer of float32.
func floats(t testing.TB, d *Device, x ...float32) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(4 * len(x))
	require.NoError(t, err)
	for i, v := range x {
		binary.NativeEndian.PutUint32(b.Bytes()[4*i:], math.Float32bits(v))
	}
	t.Cleanup(b.Close)
	return b
}

// values reads a buffer of float32.
func values(b metal.Buffer) []float32 {
	x := make([]float32, len(b.Bytes())/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.NativeEndian.Uint32(b.Bytes()[4*i:]))
	}
	return x
}
