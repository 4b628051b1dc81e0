//go:build linux && (amd64 || arm64)

package mtl

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// floats returns a buffer as float32.
func floats(b metal.Buffer) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&b.Bytes()[0])), len(b.Bytes())/4)
}

// word returns the bytes of a number.
func word[T float32 | uint32](v T) []byte { return (*[4]byte)(unsafe.Pointer(&v))[:] }

func one(x int) metal.Size { return metal.Size{X: x, Y: 1, Z: 1} }

// bench is a device with the kernel scale and two buffers of 64 floats.
type bench struct {
	*Device
	t        testing.TB
	biases   map[float32]metal.Buffer
	x, out   metal.Buffer
	pipeline metal.Pipeline
}

func newBench(t testing.TB, f *fake) *bench {
	t.Helper()
	b := &bench{Device: f.open(t), t: t, biases: map[float32]metal.Buffer{}}
	b.x, b.out = newBuffer(t, b, 256), newBuffer(t, b, 256)
	b.pipeline = newPipeline(t, b, "scale", "scale")
	for i := range floats(b.x) {
		floats(b.x)[i] = float32(i)
	}
	return b
}

// goBench returns a bench on kernels in Go, and its fake of Metal.
func goBench(t testing.TB) (*fake, *bench) {
	t.Helper()
	f := newFake(t, &goGPU{})
	return f, newBench(t, f)
}

func newBuffer(t testing.TB, d metal.Device, length int) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(length)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func newPipeline(t testing.TB, d metal.Device, source, name string, constants ...metal.Constant) metal.Pipeline {
	t.Helper()
	l, err := d.NewLibrary(source)
	require.NoError(t, err)
	defer l.Close()
	p, err := l.NewPipeline(name, constants...)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// begin begins a command buffer. It is discarded at the end if the test does not commit it.
func begin(t testing.TB, d metal.Device) metal.Commands {
	t.Helper()
	c, err := d.NewCommands()
	require.NoError(t, err)
	t.Cleanup(c.Discard)
	return c
}

// finish runs the commands, and returns their error.
func finish(c metal.Commands) error {
	c.Commit()
	_, err := c.Wait()
	return err
}

// set encodes everything that scale needs.
func (b *bench) set(c metal.Commands, bias float32) {
	c.SetPipeline(b.pipeline)
	set(c, 0, b.x, 0)
	set(c, 1, b.out, 0)
	if b.biases[bias] == nil {
		b.biases[bias] = bytesOf(b.t, b, word(bias))
	}
	set(c, 2, b.biases[bias], 0)
}

// bytesOf returns a buffer with these bytes.
func bytesOf(t testing.TB, d metal.Device, bytes []byte) metal.Buffer {
	t.Helper()
	b := newBuffer(t, d, len(bytes))
	copy(b.Bytes(), bytes)
	return b
}

func TestDispatch(t *testing.T) {
	f, b := goBench(t)
	assert.Equal(t, "Fake of Go", b.Name())
	limits := metal.Limits{PageSize: 16384, BufferLength: 1 << 30, Threads: 1024, ThreadgroupMemory: 32768}
	assert.Equal(t, limits, b.Limits())
	assert.Equal(t, make([]float32, 64), floats(b.out), "a new buffer is zeroed")

	c := begin(t, b)
	b.set(c, 0.5)
	c.Dispatch(one(2), one(16))
	c.Barrier()
	set(c, 0, b.x, 128) // from the 32nd float
	set(c, 1, b.out, 128)
	sizes := [2]metal.Size{{X: 2, Y: 3, Z: 5}, {X: 7, Y: 11, Z: 4}}
	c.Dispatch(sizes[0], sizes[1])
	assert.Equal(t, sizes, f.last)
	c.Commit()
	timing, err := c.Wait()
	require.NoError(t, err)
	assert.Equal(t, metal.Timing{Start: time.Millisecond, End: 2 * time.Millisecond}, timing)
	for i, v := range floats(b.out) {
		assert.Equal(t, float32(i)+0.5, v)
	}
}

// TestPipeline: a pipeline reports the properties from Metal.
func TestPipeline(t *testing.T) {
	_, b := goBench(t)
	p := b.pipeline
	assert.Equal(t, "scale", p.Name())
	assert.Equal(t, 512, p.Threads())
	assert.Equal(t, 32, p.SIMDWidth())
	assert.Equal(t, 4096, p.ThreadgroupMemory())
}

func TestConstants(t *testing.T) {
	_, b := goBench(t)
	b.pipeline = newPipeline(t, b, "scale crash", "scale", metal.Constant{Index: 0, Value: true},
		metal.Constant{Index: 1, Value: int32(-3)}, metal.Constant{Index: 65535, Value: uint32(5)},
		metal.Constant{Index: 3, Value: float32(0.5)})
	c := begin(t, b)
	b.set(c, 0)
	c.Dispatch(one(1), one(64))
	require.NoError(t, finish(c))
	assert.Equal(t, float32(2*7.5), floats(b.out)[2])
}

// TestWrapBuffer: a kernel reads memory of the program.
func TestWrapBuffer(t *testing.T) {
	_, b := goBench(t)
	memory := make([]byte, 3*fakePage)
	start := fakePage - int(uintptr(unsafe.Pointer(&memory[0]))%fakePage)
	pages := memory[start : start+fakePage]
	w, err := b.WrapBuffer(pages)
	require.NoError(t, err)
	defer w.Close()
	assert.Same(t, &pages[0], &w.Bytes()[0])
	floats(w)[1025] = 7

	c := begin(t, b)
	b.set(c, 0)
	set(c, 0, w, 4096)
	c.Dispatch(one(1), one(32))
	require.NoError(t, finish(c))
	assert.Equal(t, float32(7), floats(b.out)[1])

	for _, bad := range [][]byte{
		memory[start+1 : start+1+fakePage], memory[start : start+fakePage+1], memory[start : start+4096],
	} {
		_, err := b.WrapBuffer(bad)
		assert.ErrorContains(t, err, "no whole pages of 16384 bytes")
	}
	_, err = b.WrapBuffer(nil)
	assert.ErrorContains(t, err, "has 1 to")
}

// TestPipelinesAtOnce: goroutines may make pipelines of one library concurrently, and each has its own constants.
func TestPipelinesAtOnce(t *testing.T) {
	_, b := goBench(t)
	l, err := b.NewLibrary("scale")
	require.NoError(t, err)
	defer l.Close()
	made := make([]metal.Pipeline, 64)
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			p, err := l.NewPipeline("scale", metal.Constant{Value: float32(i)})
			assert.NoError(t, err)
			made[i] = p
		})
	}
	all.Wait()
	for i, p := range made {
		c := begin(t, b)
		b.set(c, 1)
		c.SetPipeline(p)
		c.Dispatch(one(1), one(64))
		require.NoError(t, finish(c))
		require.Equal(t, float32(3*i+1), floats(b.out)[3])
		p.Close()
	}
}

// TestRedundantCalls: redundant messages are not sent.
func TestRedundantCalls(t *testing.T) {
	f, b := goBench(t)
	c := begin(t, b)
	for range 3 {
		b.set(c, 1)
		c.SetThreadgroupMemory(0, 4096)
		c.Dispatch(one(1), one(32))
		c.Barrier()
		c.Barrier()
	}
	set(c, 0, b.x, 128)
	set(c, 0, b.out, 0)
	c.SetThreadgroupMemory(0, 4096-1024)
	c.SetThreadgroupMemory(0, 32)
	require.NoError(t, finish(c))
	assert.Equal(t, 1, f.counts["setComputePipelineState:"])
	assert.Equal(t, 3+1, f.counts["setBuffer:offset:atIndex:"])
	assert.Equal(t, 1, f.counts["setBufferOffset:atIndex:"])
	assert.Equal(t, 2, f.counts["setThreadgroupMemoryLength:atIndex:"])
	assert.Equal(t, 3, f.counts["memoryBarrierWithScope:"])
	assert.Equal(t, 3, f.counts["dispatchThreadgroups:threadsPerThreadgroup:"])
}

// TestThreadgroupMemory: threadgroup memory that was set for one kernel also counts for the next one, even if that does
// not use it, until it is reduced: only when that is needed.
func TestThreadgroupMemory(t *testing.T) {
	f, b := goBench(t)
	c := begin(t, b)
	b.set(c, 1)
	for _, n := range []int{16384, 28672, 16} {
		c.SetThreadgroupMemory(0, n) // 4096 bytes belong to the kernel
	}
	c.SetThreadgroupMemory(30, 28656)
	c.Dispatch(one(1), one(64))
	c.SetPipeline(newPipeline(t, b, "scale", "scale"))
	c.SetThreadgroupMemory(0, 16)
	c.Dispatch(one(1), one(64))
	sets := f.counts["setThreadgroupMemoryLength:atIndex:"]
	assert.Equal(t, 4, sets)
	c.SetThreadgroupMemory(0, 28656)
	c.Dispatch(one(1), one(64))
	c.SetThreadgroupMemory(0, 28656-512) // additional memory stays
	assert.Equal(t, sets+2, f.counts["setThreadgroupMemoryLength:atIndex:"])
	c.SetThreadgroupMemory(1, 512) // until there is no room for it
	c.Dispatch(one(1), one(64))
	assert.Equal(t, sets+2+2, f.counts["setThreadgroupMemoryLength:atIndex:"])
	require.NoError(t, finish(c))
}

// TestSetBuffers: consecutive buffers are bound by one message, from the first to the last that differs from before.
func TestSetBuffers(t *testing.T) {
	f, b := goBench(t)
	c := begin(t, b)
	spare := newBuffer(t, b, 256)
	all := func(offsets ...int) (bindings []metal.Binding) {
		for i, of := range []metal.Buffer{b.x, b.out, spare, b.x, spare} {
			bindings = append(bindings, metal.Binding{Buffer: of, Offset: offsets[i]})
		}
		return bindings
	}
	type counts struct{ each, offsets, together int }
	for _, k := range []struct {
		offsets []int
		want    counts // messages so far
	}{
		{[]int{0, 0, 0, 0, 0}, counts{0, 0, 1}},
		{[]int{0, 0, 0, 0, 0}, counts{0, 0, 1}},
		{[]int{0, 0, 8, 0, 0}, counts{0, 1, 1}},
		{[]int{0, 4, 8, 4, 0}, counts{0, 1, 2}},
		{[]int{4, 4, 8, 4, 4}, counts{0, 1, 3}},
	} {
		c.SetBuffers(3, all(k.offsets...))
		got := counts{f.counts["setBuffer:offset:atIndex:"], f.counts["setBufferOffset:atIndex:"],
			f.counts["setBuffers:offsets:withRange:"]}
		assert.Equal(t, k.want, got, "%v", k.offsets)
	}
	c.SetBuffers(0, nil)
	c.SetBuffers(0, all(128, 128, 0, 0, 0)[:2])
	c.SetPipeline(b.pipeline)
	set(c, 2, bytesOf(t, b, word(float32(1))), 0)
	c.Dispatch(one(1), one(32))
	c.SetBuffers(0, []metal.Binding{{Buffer: b.x}, {Buffer: b.out, Offset: 128}})
	c.SetBuffers(0, []metal.Binding{{Buffer: b.x}, {Buffer: b.out}})
	c.Dispatch(one(1), one(32))
	require.NoError(t, finish(c))
	for i, v := range floats(b.out) {
		assert.Equal(t, float32(i)+1, v)
	}
}

// TestWaitElsewhere: another goroutine may wait for a command buffer than the one that filled it.
func TestWaitElsewhere(t *testing.T) {
	_, b := goBench(t)
	c := begin(t, b)
	b.set(c, 1)
	c.Dispatch(one(1), one(64))
	c.Commit()
	done := make(chan error)
	go func() {
		_, err := c.Wait()
		done <- err
	}()
	require.NoError(t, <-done)
	assert.Equal(t, float32(64), floats(b.out)[63])
}

// TestLifetime: a closed object is released as soon as no command buffer can use it any more, for any order of
// completion.
func TestLifetime(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var l lifetime
		var live []uint64
		users := map[int][]uint64{} // by closed object: the command buffers that may use it
		released := map[int]bool{}
		for object := range 40 {
			switch r.IntN(3) {
			case 0:
				live = append(live, l.addCommandBuffer())
			case 1:
				if len(live) > 0 {
					i := r.IntN(len(live))
					ended := live[i]
					live = slices.Delete(live, i, i+1)
					l.removeCommandBuffer(nil, ended)
				}
			case 2:
				users[object] = slices.Clone(live)
				l.releaseLater(nil, func(*scope) { released[object] = true })
			}
			first := uint64(math.MaxUint64)
			if len(live) > 0 {
				first = slices.Min(live)
			}
			for o, by := range users {
				used := slices.ContainsFunc(by, func(n uint64) bool { return slices.Contains(live, n) })
				require.False(t, used && released[o])
				require.True(t, released[o] || first <= l.begun, "kept too long")
				if len(by) == 0 || slices.Max(by) < first {
					require.True(t, released[o])
				}
			}
		}
		l.releaseAll(nil)
		assert.Len(t, released, len(users))
	}
}

// TestNoLeaks: 500 command buffers, libraries, pipelines and buffers leave no objects, successful or not.
func TestNoLeaks(t *testing.T) {
	f, b := goBench(t)
	first := begin(t, b)
	b.set(first, 1) // makes a buffer
	first.Discard()
	before := f.left()
	for i := range 500 {
		extra, err := b.NewBuffer(4 + i)
		require.NoError(t, err)
		l, err := b.NewLibrary("scale crash")
		require.NoError(t, err)
		p, err := l.NewPipeline("scale", metal.Constant{Value: float32(i)})
		require.NoError(t, err)
		c := begin(t, b)
		b.set(c, 1)
		c.SetPipeline(p)
		set(c, 4, extra, 0)
		c.Dispatch(one(1), one(64))
		switch i % 4 {
		case 0:
			c.Discard()
		case 1:
			c.Dispatch(one(0), one(1))
			require.Error(t, finish(c))
		case 2:
			f.failure = "the GPU hangs"
			fallthrough
		case 3:
			extra.Close() // the command buffer retains what it uses
			p.Close()
			c.Commit()
			_, err = c.Wait()
			require.Equal(t, i%4 == 2, err != nil)
			require.Equal(t, float32(i*3+1), floats(b.out)[3])
		}
		_, err = b.NewLibrary("nonsense")
		require.Error(t, err)
		_, err = l.NewPipeline("nothing", metal.Constant{Value: true})
		require.Error(t, err)
		p.Close()
		l.Close()
		extra.Close()
	}
	assert.Equal(t, before, f.left())
	assert.Empty(t, b.objc.pools)
	assert.Greater(t, len(f.objects), 5000)
}

// TestInterleaved: two goroutines, and two command buffers of one goroutine, are independent.
func TestInterleaved(t *testing.T) {
	_, b := goBench(t)
	b.set(begin(t, b), 1) // makes a buffer
	done := make(chan error)
	for range 2 {
		go func() {
			for range 50 {
				first, err := b.NewCommands()
				if err != nil {
					done <- err
					return
				}
				second, err := b.NewCommands()
				if err != nil {
					done <- err
					return
				}
				b.set(first, 1)
				b.set(second, 1)
				first.Dispatch(one(1), one(64))
				first.Commit()
				second.Dispatch(one(1), one(64))
				second.Commit()
				if _, err := first.Wait(); err != nil {
					done <- err
					return
				}
				if _, err := second.Wait(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// set binds one buffer.
func set(c metal.Commands, index int, b metal.Buffer, offset int) {
	c.SetBuffers(index, []metal.Binding{{Buffer: b, Offset: offset}})
}
