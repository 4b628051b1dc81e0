//go:build linux && (amd64 || arm64)

package mtl

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withSoft installs a fake that runs kernels in software, with all checks, and opens its device.
func withSoft(t *testing.T, seed uint64) *Device {
	t.Helper()
	needClang(t)
	gpu, err := soft.Open(soft.Options{Variant: soft.Check, Seed: seed, PageSize: fakePage})
	require.NoError(t, err)
	return newFake(t, gpu).open(t)
}

// blend is out[i] = out[i]/2 + factor·x[i] + extra, via threadgroup memory.
const blend = `
#include <metal_stdlib>
using namespace metal;
constant float extra [[function_constant(0)]];
kernel void blend(device const float *x [[buffer(0)]], device float *out [[buffer(1)]],
                  constant float &factor [[buffer(2)]], threadgroup float *part [[threadgroup(0)]],
                  uint i [[thread_position_in_grid]], uint l [[thread_position_in_threadgroup]],
                  uint n [[threads_per_threadgroup]]) {
	part[n - 1 - l] = factor * x[i];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	out[i] = out[i] / 2 + part[n - 1 - l] + extra;
}
`

// randomRun runs a few random command buffers, in which most settings stay from one dispatch to the next, and returns
// the final contents of the buffers.
func randomRun(t *testing.T, d metal.Device, seed uint64) (all [][]float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	var buffers []metal.Buffer
	for range 4 {
		b := newBuffer(t, d, 1024)
		for i := range floats(b) {
			floats(b)[i] = r.Float32()
		}
		buffers = append(buffers, b)
	}
	factors := newBuffer(t, d, 32)
	for i := range floats(factors) {
		floats(factors)[i] = r.Float32()
	}
	pipelines := []metal.Pipeline{
		newPipeline(t, d, blend, "blend", metal.Constant{Value: float32(0.25)}),
		newPipeline(t, d, blend, "blend", metal.Constant{Value: float32(-1)}),
	}
	var running []metal.Commands
	for range 5 {
		c := begin(t, d)
		randomCommands(r, c, buffers, factors, pipelines)
		c.Commit()
		running = append(running, c)
	}
	for _, c := range running {
		_, err := c.Wait()
		require.NoError(t, err, "seed %d", seed)
	}
	for _, b := range buffers {
		all = append(all, slices.Clone(floats(b)))
	}
	return all
}

// randomCommands encodes dispatches of 64 threads, with a barrier after each. No dispatch reads the buffer that it
// writes.
func randomCommands(
	r *rand.Rand, c metal.Commands, buffers []metal.Buffer, factors metal.Buffer, pipelines []metal.Pipeline,
) {
	x, out := 0, 1
	offset := func() int { return 4 * r.IntN(256-64+1) }
	set := []func(){
		func() { c.SetPipeline(pipelines[r.IntN(2)]) },
		func() { set(c, 0, buffers[x], offset()) },
		func() { set(c, 1, buffers[out], offset()) },
		func() { c.SetThreadgroupMemory(0, 256+16*r.IntN(3)) },
		func() { set(c, 2, factors, 4*r.IntN(8)) },
		func() { set(c, 2, buffers[x], offset()) },
		func() { // another pair
			p := r.Perm(4)
			x, out = p[0], p[1]
			set(c, 0, buffers[x], offset())
			set(c, 1, buffers[out], offset())
			set(c, 2, buffers[x], offset())
		},
	}
	for _, s := range set {
		s()
	}
	for range 10 {
		for range r.IntN(4) {
			set[r.IntN(len(set))]()
		}
		c.Dispatch(one(2), one(32))
		c.Barrier()
	}
}

// TestSameAsSoft: the same commands have the same results with and without Objective-C, bit by bit.
func TestSameAsSoft(t *testing.T) {
	through := withSoft(t, 1)
	direct, err := soft.Open(soft.Options{Variant: soft.Check, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, direct.Close()) })
	for seed := range uint64(20) {
		require.Equal(t, randomRun(t, direct, seed), randomRun(t, through, seed), "seed %d", seed)
	}
	assert.NotEqual(t, randomRun(t, direct, 1), randomRun(t, direct, 2))
}
