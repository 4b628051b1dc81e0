package soft

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// open makes a device for a test, or skips the test where there is no compiler.
func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := Open(o)
	if errors.Is(err, metal.ErrNoDevice) {
		if os.Getenv("PILOTFISH_REQUIRE_ALL") == "1" {
			t.Fatalf("PILOTFISH_REQUIRE_ALL=1, but there is no software Metal device: %v", err)
		}
		t.Skipf("SKIPPED, NOT TESTED: there is no software Metal device: %v", err)
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

// run dispatches one kernel with its buffers at 0, 1, 2, ....
func run1(t testing.TB, d *Device, source, name string, groups, threads int, buffers ...metal.Buffer) error {
	t.Helper()
	l, err := d.NewLibrary(source)
	require.NoError(t, err)
	p, err := l.NewPipeline(name)
	require.NoError(t, err)
	c, err := d.NewCommands()
	require.NoError(t, err)
	c.SetPipeline(p)
	for i, b := range buffers {
		c.SetBuffer(i, b, 0)
	}
	c.Dispatch(metal.Size{X: groups, Y: 1, Z: 1}, metal.Size{X: threads, Y: 1, Z: 1})
	c.Commit()
	_, err = c.Wait()
	return err
}

func TestSmoke(t *testing.T) {
	for _, v := range []Variant{Fast, FastMath, Check, UBSan} {
		d := open(t, Options{Variant: v})
		x, y := floats(t, d, make([]float32, 64)...), floats(t, d, make([]float32, 64)...)
		for i := range 64 {
			binary.NativeEndian.PutUint32(x.Bytes()[4*i:], math.Float32bits(float32(i)))
		}
		err := run1(t, d, `#include <metal_stdlib>
using namespace metal;
kernel void k(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], uint t [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[t] = x[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[t] = s[63 - t] + simd_sum(1.0f);
}`, "k", 1, 64, x, y)
		require.NoError(t, err, v)
		require.Equal(t, float32(63+32), values(y)[0])
		require.Equal(t, float32(32), values(y)[63])
	}
}
