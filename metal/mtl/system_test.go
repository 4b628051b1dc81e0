package mtl

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// saxpy is out[i] = a·x[i] + y[i] with a function constant a.
const saxpySource = `
#include <metal_stdlib>
using namespace metal;
constant float a [[function_constant(0)]];
kernel void saxpy(device const float *x [[buffer(0)]], device const float *y [[buffer(1)]],
                  device float *out [[buffer(2)]], constant uint &n [[buffer(3)]], uint i [[thread_position_in_grid]]) {
	if (i < n) {
		out[i] = a * x[i] + y[i];
	}
}
`

// saxpy runs the kernel twice on a device, the second time on the result of the first.
func saxpy(t *testing.T, d metal.Device) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const n = 1000
	buffers := [4]metal.Buffer{}
	values := [4][]float32{}
	for i := range buffers {
		b, err := d.NewBuffer(4 * n)
		must(err)
		defer b.Close()
		buffers[i], values[i] = b, unsafe.Slice((*float32)(unsafe.Pointer(&b.Bytes()[0])), n)
	}
	for i := range n {
		values[0][i], values[1][i] = float32(i), 1
	}
	l, err := d.NewLibrary(saxpySource)
	must(err)
	defer l.Close()
	p, err := l.NewPipeline("saxpy", metal.Constant{Index: 0, Value: float32(2)})
	must(err)
	defer p.Close()
	c, err := d.NewCommands()
	must(err)
	c.SetPipeline(p)
	for i := range 3 {
		c.SetBuffers(i, []metal.Binding{{Buffer: buffers[i]}})
	}
	count, err := d.NewBuffer(4)
	must(err)
	defer count.Close()
	copy(count.Bytes(), []byte{n & 0xff, n >> 8, 0, 0})
	c.SetBuffers(3, []metal.Binding{{Buffer: count}})
	c.Dispatch(metal.Size{X: (n + 63) / 64, Y: 1, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1})
	c.Barrier()
	c.SetBuffers(0, []metal.Binding{{Buffer: buffers[2]}})
	c.SetBuffers(2, []metal.Binding{{Buffer: buffers[3]}})
	c.Dispatch(metal.Size{X: (n + 63) / 64, Y: 1, Z: 1}, metal.Size{X: 64, Y: 1, Z: 1})
	c.Commit()
	_, err = c.Wait()
	must(err)
	for i := range n {
		if want := 4*float32(i) + 3; values[3][i] != want {
			t.Fatalf("out[%d] = %g instead of %g", i, values[3][i], want)
		}
	}
}

// TestSystem: the Metal of the system runs a kernel, if there is one.
func TestSystem(t *testing.T) {
	d, err := Open(Options{})
	if errors.Is(err, metal.ErrNoDevice) {
		if runtime.GOOS == "darwin" {
			t.Skipf("SKIPPED, NOT TESTED: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	t.Logf("%s: %+v", d.Name(), d.Limits())
	saxpy(t, d)
	sameEncodings(t, systemLibraries(), d)
	if _, err := d.NewLibrary("kernel void f( {}"); !errors.As(err, new(*metal.CompileError)) {
		t.Errorf("bad source gives %v", err)
	}
}
