package gpu

import (
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// clSource has kernels with a few features of Metal.
const clSource = `
#include <metal_stdlib>
using namespace metal;
constant bool twice [[function_constant(0)]];
struct Args { uint n; float by; };
kernel void scale(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant Args &a [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) {
  if (i < a.n) y[i] = x[i] * a.by * (twice ? 2.0f : 1.0f);
}
kernel void lanes(device float *out [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]],
                  ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                  uint tid [[thread_index_in_threadgroup]]) {
  const float2 pair = simd_shuffle_xor(float2(ushort2(lane, tid)), 3);
  device float *of = out + tid * 8;
  of[0] = simd_sum(float(lane)), of[1] = simd_max(lane + 100 * sg), of[2] = simd_min(uint(tid));
  of[3] = simd_prefix_exclusive_sum(1.0f), of[4] = pair.x, of[5] = pair.y;
  of[6] = simd_any(tid == 40), of[7] = simd_broadcast_first(tid) + groups;
}
`

// openWitness opens a device on the library that PILOTFISH_OPENCL names.
func openWitness(t *testing.T) *clDevice {
	t.Helper()
	path := os.Getenv("PILOTFISH_OPENCL")
	if path == "" {
		t.Skip("PILOTFISH_OPENCL names no library: make opencl")
	}
	d, err := openCL(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func clPipelineOf(t *testing.T, d *clDevice, name string) metal.Pipeline {
	t.Helper()
	l, err := d.NewLibrary(clSource)
	require.NoError(t, err)
	defer l.Close()
	p, err := l.NewPipeline(name, metal.Constant{Index: 0, Value: name == "scale"})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func clFloats(t *testing.T, d *clDevice, values ...float32) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(max(4*len(values), 4))
	require.NoError(t, err)
	t.Cleanup(b.Close)
	for i, v := range values {
		binary.LittleEndian.PutUint32(b.Bytes()[4*i:], math.Float32bits(v))
	}
	return b
}

func clFloat(b metal.Buffer, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
}

func clCommandsOf(t *testing.T, d *clDevice) metal.Commands {
	t.Helper()
	c, err := d.NewCommands()
	require.NoError(t, err)
	return c
}

func clLine(n int) metal.Size { return metal.Size{X: n, Y: 1, Z: 1} }

// TestChain: a dispatch sees the writes of dispatches before a barrier and of earlier command buffers. Buffers begin at
// their offsets, and a function constant has its value.
func TestChain(t *testing.T) {
	d := openWitness(t)
	p := clPipelineOf(t, d, "scale")
	x := clFloats(t, d, make([]float32, 300)...)
	args := clFloats(t, d, math.Float32frombits(100), 3)
	binary.LittleEndian.PutUint32(x.Bytes()[4*105:], math.Float32bits(1))
	var all []metal.Commands
	for range 2 {
		c := clCommandsOf(t, d)
		c.SetPipeline(p)
		for i := range 2 {
			c.SetBuffers(0, []metal.Binding{
				{Buffer: x, Offset: 400 * (1 - i)}, {Buffer: x, Offset: 400 * i}, {Buffer: args},
			})
			if i > 0 {
				c.Barrier()
			}
			c.Dispatch(clLine(2), clLine(64))
		}
		c.Commit()
		all = append(all, c)
	}
	for _, c := range all {
		timing, err := c.Wait()
		require.NoError(t, err)
		assert.Less(t, timing.Start, timing.End)
	}
	assert.Equal(t, []float32{216, 1296, 0}, []float32{clFloat(x, 5), clFloat(x, 105), clFloat(x, 104)})
}
