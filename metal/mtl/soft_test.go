//go:build linux && (amd64 || arm64)

package mtl

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withSoft installs a fake that runs kernels in software, with all checks, and opens its device.
func withSoft(t *testing.T, seed uint64) *Device {
	t.Helper()
	needClang(t)
	gpu, err := soft.Open(soft.Options{Variant: soft.Check, Seed: seed, PageSize: fakePage})
	require.NoError(t, err)
	return newFake(t, gpu).open(t)
}

// TestSoft: a kernel in the Metal language runs through Objective-C with the right result, for any order of its
// dispatches.
func TestSoft(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { saxpy(t, withSoft(t, seed)) })
	}
}

// sums has kernels that depend on order, and use both kinds of threadgroup memory.
const sums = `
#include <metal_stdlib>
using namespace metal;
kernel void add_one(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] += 1; }
kernel void double_it(device const float *x [[buffer(0)]], device float *out [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
	out[i] = 2 * x[i];
}
kernel void group_sum(device const float *x [[buffer(0)]], device float *out [[buffer(1)]],
                      threadgroup float *part [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]],
                      uint g [[threadgroup_position_in_grid]], uint n [[threads_per_threadgroup]]) {
	threadgroup float total[4];
	part[i] = x[g * n + i];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (i == 0) {
		total[0] = 0;
		for (uint k = 0; k < n; k++) {
			total[0] += part[k];
		}
		out[g] = total[0];
	}
}
`

// chain runs three dispatches, each of which reads the output of the previous one: out = 2·(x + 1), then the sums of
// groups of 32. Leaving out the barrier number without is a fault.
func chain(t *testing.T, d *Device, without int) ([]float32, error) {
	t.Helper()
	x, out, total := newBuffer(t, d, 256), newBuffer(t, d, 256), newBuffer(t, d, 8)
	for i := range floats(x) {
		floats(x)[i] = float32(i)
	}
	c := begin(t, d)
	barrier := func(n int) {
		if n != without {
			c.Barrier()
		}
	}
	c.SetPipeline(newPipeline(t, d, sums, "add_one"))
	c.SetBuffer(0, x, 0)
	c.Dispatch(one(2), one(32))
	barrier(1)
	c.SetPipeline(newPipeline(t, d, sums, "double_it"))
	c.SetBuffer(1, out, 0)
	c.Dispatch(one(1), one(64))
	barrier(2)
	c.SetPipeline(newPipeline(t, d, sums, "group_sum"))
	c.SetBuffer(0, out, 0)
	c.SetBuffer(1, total, 0)
	c.SetThreadgroupMemory(0, 128)
	c.Dispatch(one(2), one(32))
	c.Commit()
	_, err := c.Wait()
	return slices.Clone(floats(total)), err
}

// TestSoftBarriers: barriers work, and a missing one is detected.
func TestSoftBarriers(t *testing.T) {
	d := withSoft(t, 1)
	total, err := chain(t, d, 0)
	require.NoError(t, err)
	assert.Equal(t, []float32{2 * (32 + 31*16), 2 * (32 + 31*16 + 32*32)}, total)
	for without := 1; without <= 2; without++ {
		_, err := chain(t, d, without)
		assert.ErrorContains(t, err, "Metal command buffer: status 5: ")
		assert.ErrorContains(t, err, "without a barrier between them")
	}
}

// TestSoftCommandBuffers: command buffers see the writes of earlier ones, without a Wait in between.
func TestSoftCommandBuffers(t *testing.T) {
	d := withSoft(t, 2)
	x := newBuffer(t, d, 256)
	p := newPipeline(t, d, sums, "add_one")
	var all []metal.Commands
	for range 20 {
		c := begin(t, d)
		c.SetPipeline(p)
		c.SetBuffer(0, x, 0)
		c.Dispatch(one(1), one(64))
		c.Commit()
		all = append(all, c)
	}
	end := time.Duration(0)
	for _, c := range all {
		timing, err := c.Wait()
		require.NoError(t, err)
		assert.LessOrEqual(t, end, timing.Start)
		assert.LessOrEqual(t, timing.Start, timing.End)
		end = timing.End
	}
	assert.Equal(t, slices.Repeat([]float32{20}, 64), floats(x))
}

// TestSoftConstants: a function constant of each type has its value in the kernel.
func TestSoftConstants(t *testing.T) {
	d := withSoft(t, 0)
	const source = `
#include <metal_stdlib>
using namespace metal;
constant bool on [[function_constant(0)]];
constant int low [[function_constant(1)]];
constant uint high [[function_constant(2)]];
constant float part [[function_constant(3)]];
kernel void constants(device float *out [[buffer(0)]]) {
	out[0] = on ? 1 : 2;
	out[1] = low / 2;
	out[2] = high / 2;
	out[3] = part;
}
`
	for _, on := range []bool{true, false} {
		p := newPipeline(t, d, source, "constants", metal.Constant{Index: 0, Value: on},
			metal.Constant{Index: 1, Value: int32(-8)}, metal.Constant{Index: 2, Value: uint32(1 << 31)},
			metal.Constant{Index: 3, Value: float32(-0.25)})
		out := newBuffer(t, d, 16)
		c := begin(t, d)
		c.SetPipeline(p)
		c.SetBuffer(0, out, 0)
		c.Dispatch(one(1), one(1))
		c.Commit()
		_, err := c.Wait()
		require.NoError(t, err)
		first := map[bool]float32{true: 1, false: 2}[on]
		assert.Equal(t, []float32{first, -4, 1 << 30, -0.25}, floats(out))
	}
}

// TestSoftErrors: errors in the source or at a dispatch have the messages of the compiler and the device.
func TestSoftErrors(t *testing.T) {
	d := withSoft(t, 0)
	_, err := d.NewLibrary("#include <metal_stdlib>\nusing namespace metal;\n" +
		"kernel void f(device float *x [[buffer(0)]]) {\n\tx[0] = y;\n}\n")
	var compile *metal.CompileError
	require.ErrorAs(t, err, &compile)
	assert.Contains(t, compile.Log, "4:", "the line")
	assert.Contains(t, compile.Log, "undeclared identifier 'y'")

	l, err := d.NewLibrary(sums)
	require.NoError(t, err)
	defer l.Close()
	_, err = l.NewPipeline("nothing")
	require.ErrorAs(t, err, &compile)
	p, err := l.NewPipeline("group_sum")
	require.NoError(t, err)
	defer p.Close()
	assert.Equal(t, 16, p.ThreadgroupMemory())
	assert.Equal(t, 1024, p.Threads())

	c := begin(t, d)
	c.SetPipeline(p)
	c.Dispatch(one(1), one(32))
	c.Commit()
	_, err = c.Wait()
	assert.ErrorContains(t, err, "buffer 0 (x) is not bound")
}

// TestSoftMapping: kernels read the pages of a file in place, through a read-only mapping.
func TestSoftMapping(t *testing.T) {
	d := withSoft(t, 0)
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer f.Close()
	data := make([]float32, 4*fakePage/4)
	data[fakePage/4] = 21
	_, err = f.Write(unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data)))
	require.NoError(t, err)
	mapped, err := unix.Mmap(int(f.Fd()), 0, 4*len(data), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mapped)) }()
	start := int(-uintptr(unsafe.Pointer(&mapped[0])) % fakePage) // pages are smaller here than Apple's
	pages, err := d.WrapBuffer(mapped[start : start+2*fakePage])
	require.NoError(t, err)
	defer pages.Close()

	out := newBuffer(t, d, 256)
	c := begin(t, d)
	c.SetPipeline(newPipeline(t, d, sums, "double_it"))
	c.SetBuffer(0, pages, fakePage-start)
	c.SetBuffer(1, out, 0)
	c.Dispatch(one(1), one(64))
	c.Commit()
	_, err = c.Wait()
	require.NoError(t, err)
	assert.Equal(t, float32(42), floats(out)[0])
}
