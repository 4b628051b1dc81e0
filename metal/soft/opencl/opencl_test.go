package opencl

import (
	"encoding/binary"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// source uses the features of Metal that the shipped kernels use. Each of its kernels tests a few of them.
const source = `
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
constant bool twice [[function_constant(0)]];
struct Args { uint n; float by; };
kernel void scale(device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant Args &a [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) {
  if (i < a.n) y[i] = x[i] * a.by * (twice ? 2.0f : 1.0f);
}
template <typename T, ushort N>
kernel void reverse(threadgroup T *more [[threadgroup(0)]], device T *x [[buffer(0)]],
                    uint i [[thread_index_in_threadgroup]], uint2 at [[threadgroup_position_in_grid]],
                    uint n [[threads_per_threadgroup]]) {
  threadgroup T own[N];
  device T *mine = x + (at.y * 2 + at.x) * n;
  own[i] = mine[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  more[i] = own[n - 1 - i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  mine[i] = more[i];
}
template [[host_name("reverse_64")]] kernel decltype(reverse<float, 64>) reverse<float, 64>;
kernel void lanes(device float *out [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]],
                  ushort sg [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                  uint tid [[thread_index_in_threadgroup]]) {
  const float2 pair = simd_shuffle_xor(float2(ushort2(lane, tid)), 3);
  device float *of = out + tid * 8;
  of[0] = simd_sum(float(lane)), of[1] = simd_max(lane + 100 * sg), of[2] = simd_min(uint(tid));
  of[3] = simd_prefix_exclusive_sum(1.0f), of[4] = pair.x, of[5] = pair.y;
  of[6] = simd_any(tid == 40), of[7] = simd_broadcast_first(tid) + groups;
}
kernel void product(device const half *a [[buffer(0)]], device float *c [[buffer(1)]],
                    uint i [[thread_index_in_threadgroup]]) {
  threadgroup half tile[64];
  threadgroup float out[64];
  tile[i] = a[i];
  tile[i + 32] = a[i + 32];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_half8x8 left, right;
  simdgroup_load(left, tile, 8);
  simdgroup_load(right, tile, 8, ulong2(0, 0), true);
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8>(1.0f);
  simdgroup_multiply_accumulate(sum, left, right, sum);
  simdgroup_store(sum, out, 8);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  c[i] = out[i];
  c[i + 32] = out[i + 32];
}
`

// open opens a device on the library that PILOTFISH_OPENCL names.
func open(t *testing.T) *Device {
	t.Helper()
	path := os.Getenv("PILOTFISH_OPENCL")
	if path == "" {
		t.Skip("PILOTFISH_OPENCL names no library: make opencl")
	}
	d, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func pipelineOf(t *testing.T, d *Device, name string) metal.Pipeline {
	t.Helper()
	l, err := d.NewLibrary(source)
	require.NoError(t, err)
	defer l.Close()
	p, err := l.NewPipeline(name, metal.Constant{Index: 0, Value: name == "scale"})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func floatsOf(t *testing.T, d *Device, values ...float32) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(max(4*len(values), 4))
	require.NoError(t, err)
	t.Cleanup(b.Close)
	for i, v := range values {
		binary.LittleEndian.PutUint32(b.Bytes()[4*i:], math.Float32bits(v))
	}
	return b
}

func at(b metal.Buffer, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b.Bytes()[4*i:]))
}

func commandsOf(t *testing.T, d *Device) metal.Commands {
	t.Helper()
	c, err := d.NewCommands()
	require.NoError(t, err)
	return c
}

func line(n int) metal.Size { return metal.Size{X: n, Y: 1, Z: 1} }

// TestChain: a dispatch sees the writes of dispatches before a barrier and of earlier command buffers. Buffers begin at
// their offsets, and a function constant has its value.
func TestChain(t *testing.T) {
	d := open(t)
	p := pipelineOf(t, d, "scale")
	x := floatsOf(t, d, make([]float32, 300)...)
	args := floatsOf(t, d, math.Float32frombits(100), 3)
	binary.LittleEndian.PutUint32(x.Bytes()[4*105:], math.Float32bits(1))
	var all []metal.Commands
	for range 2 {
		c := commandsOf(t, d)
		c.SetPipeline(p)
		for i := range 2 {
			c.SetBuffers(0, []metal.Binding{
				{Buffer: x, Offset: 400 * (1 - i)}, {Buffer: x, Offset: 400 * i}, {Buffer: args},
			})
			if i > 0 {
				c.Barrier()
			}
			c.Dispatch(line(2), line(64))
		}
		c.Commit()
		all = append(all, c)
	}
	for _, c := range all {
		timing, err := c.Wait()
		require.NoError(t, err)
		assert.Less(t, timing.Start, timing.End)
	}
	assert.Equal(t, []float32{216, 1296, 0}, []float32{at(x, 5), at(x, 105), at(x, 104)})
}

// TestThreadgroups: threadgroup memory of both kinds and positions in two dimensions work.
func TestThreadgroups(t *testing.T) {
	d := open(t)
	p := pipelineOf(t, d, "reverse_64")
	assert.GreaterOrEqual(t, p.ThreadgroupMemory(), 256)
	values := make([]float32, 64*4)
	for i := range values {
		values[i] = float32(i)
	}
	x := floatsOf(t, d, values...)
	c := commandsOf(t, d)
	c.SetPipeline(p)
	c.SetBuffer(0, x, 0)
	c.SetThreadgroupMemory(0, 256)
	c.Dispatch(metal.Size{X: 2, Y: 2, Z: 1}, line(64))
	c.Commit()
	_, err := c.Wait()
	require.NoError(t, err)
	for i := range values {
		require.Equal(t, float32(i/64*64+63-i%64), at(x, i))
	}
}

// TestSimdgroups: the operations of a simdgroup's threads together have the right results.
func TestSimdgroups(t *testing.T) {
	d := open(t)
	out := floatsOf(t, d, make([]float32, 64*8)...)
	values := make([]float32, 32)
	for i := range values { // halves of 1, and of other small numbers
		values[i] = math.Float32frombits(0x3c00 | uint32(i%3)<<8 | 0x3c00<<16 | uint32(i%5)<<24)
	}
	a, product := floatsOf(t, d, values...), floatsOf(t, d, make([]float32, 64)...)
	c := commandsOf(t, d)
	c.SetPipeline(pipelineOf(t, d, "lanes"))
	c.SetBuffer(0, out, 0)
	c.Dispatch(line(1), line(64))
	c.SetPipeline(pipelineOf(t, d, "product"))
	c.SetBuffers(0, []metal.Binding{{Buffer: a}, {Buffer: product}})
	c.Dispatch(line(1), line(32))
	c.Commit()
	_, err := c.Wait()
	require.NoError(t, err)
	for tid := range 64 {
		lane, sg := tid%32, tid/32
		want := []float32{496, float32(31 + 100*sg), float32(32 * sg), float32(lane), float32(lane ^ 3),
			float32(tid ^ 3), float32(sg), float32(32*sg + 2)}
		for i, w := range want {
			require.Equal(t, w, at(out, tid*8+i), "value %d of thread %d", i, tid)
		}
	}
	half := func(row, column int) float64 { // of numbers from 1 on: exponent 15 to 17
		i := row*8 + column
		bits := math.Float32bits(values[i/2]) >> (16 * (i % 2)) & 0xffff
		return math.Ldexp(1+float64(bits&1023)/1024, int(bits>>10)-15)
	}
	for i := range 64 {
		want := 1.0
		for k := range 8 {
			want += half(i/8, k) * half(i%8, k)
		}
		require.InDelta(t, want, at(product, i), 1e-5, "element %d", i)
	}
}

// TestErrors: a mistake of the caller is an error of Wait or of the pipeline, and the error names it.
func TestErrors(t *testing.T) {
	d := open(t)
	p, x := pipelineOf(t, d, "scale"), floatsOf(t, d, 1, 2)
	for want, do := range map[string]func(c metal.Commands){
		"scale: buffer 2 (a) is not set": func(c metal.Commands) {
			c.SetPipeline(p)
			c.SetBuffers(0, []metal.Binding{{Buffer: x}, {Buffer: x}})
			c.Dispatch(line(1), line(1))
		},
		"set buffer 0: *opencl.buffer from 8 on": func(c metal.Commands) { c.SetBuffer(0, x, 8) },
		"set buffer 0: <nil>":                    func(c metal.Commands) { c.SetBuffer(0, nil, 0) },
		"set pipeline: <nil>":                    func(c metal.Commands) { c.SetPipeline(nil) },
		"dispatch without a pipeline":            func(c metal.Commands) { c.Dispatch(line(1), line(1)) },
		"reverse_64: 0 bytes of threadgroup memory 0": func(c metal.Commands) { // which setting the pipeline reset
			c.SetThreadgroupMemory(0, 256)
			c.SetPipeline(pipelineOf(t, d, "reverse_64"))
			c.SetBuffer(0, x, 0)
			c.Dispatch(line(1), line(64))
		},
		"scale: threadgroups of 1048576 threads: at most 1024 are possible": func(c metal.Commands) {
			c.SetPipeline(p)
			c.SetBuffers(0, []metal.Binding{{Buffer: x}, {Buffer: x}, {Buffer: x}})
			c.Dispatch(line(1), line(1<<20))
		},
	} {
		c := commandsOf(t, d)
		do(c)
		c.Commit()
		_, err := c.Wait()
		assert.ErrorContains(t, err, want)
	}
	c := commandsOf(t, d)
	_, err := c.Wait()
	assert.ErrorContains(t, err, "was not committed")
	c.Discard()

	_, err = d.NewLibrary("kernel void f() {")
	var compile *metal.CompileError
	assert.ErrorAs(t, err, &compile)
	l, err := d.NewLibrary(source)
	require.NoError(t, err)
	_, err = l.NewPipeline("missing")
	assert.ErrorContains(t, err, "the source has no kernel missing")
	_, err = d.NewBuffer(0)
	assert.ErrorContains(t, err, "buffer of 0 bytes")
	_, err = d.WrapBuffer(x.Bytes())
	assert.ErrorContains(t, err, "want whole pages")
	_, err = Open("/no/library")
	assert.ErrorIs(t, err, metal.ErrNoDevice)
}
