package gpu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/sharedtest"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// clFake is an OpenCL that runs nothing: it records the calls of a device, and fails those that it is told to.
type clFake struct {
	calls  []string
	fails  map[string]int32  // errors by call
	args   map[uint32]uint64 // of the kernel: an address, or a length
	width  uint64            // of sub-groups
	source string
}

func (f *clFake) call(name string, format string, args ...any) int32 {
	f.calls = append(f.calls, name+fmt.Sprintf(format, args...))
	return f.fails[name]
}

// take returns the calls since the last time.
func (f *clFake) take() []string {
	taken := f.calls
	f.calls = nil
	return taken
}

// newCLFake returns a device on a fake.
func newCLFake() (*clFake, *clDevice) {
	f := &clFake{fails: map[string]int32{}, args: map[uint32]uint64{}, width: 32}
	made := func(name string, e *int32) uintptr {
		*e = f.call(name, "")
		return 7
	}
	return f, &clDevice{begin: time.Now(), queue: 3, clRuntime: &clRuntime{device: 1, context: 2, cl: &clAPI{
		CreateProgramWithSource: func(_ uintptr, _ uint32, texts *unsafe.Pointer, n *uint64, e *int32) uintptr {
			f.source = string(unsafe.Slice((*byte)(*texts), *n))
			return made("program", e)
		},
		BuildProgram: func(_ uintptr, _ uint32, _ *uintptr, options string, _ uintptr, _ unsafe.Pointer) int32 {
			return f.call("build", " %s", options)
		},
		GetProgramBuildInfo: func(_, _ uintptr, what uint32, room uint64, to *byte, _ *uint64) int32 {
			copy(unsafe.Slice(to, room), "line 3: no\n")
			return 0
		},
		CreateKernel: func(_ uintptr, name string, e *int32) uintptr { return made("kernel", e) + 1 },
		GetKernelWorkGroupInfo: func(_, _ uintptr, what uint32, _ uint64, to, _ *uint64) int32 {
			*to = 48
			return f.call("memory", "")
		},
		GetKernelSubGroupInfo: func(_, _ uintptr, _ uint32, _ uint64, shape *uint64, _ uint64, to, _ *uint64) int32 {
			*to = f.width
			return f.call("width", " %d", *shape)
		},
		SetKernelArg: func(_ uintptr, index uint32, size uint64, _ unsafe.Pointer) int32 {
			f.args[index] = size
			return f.fails["length"]
		},
		SetKernelArgSVMPointer: func(_ uintptr, index uint32, at unsafe.Pointer) int32 {
			f.args[index] = uint64(uintptr(at))
			return f.fails["address"]
		},
		EnqueueNDRangeKernel: func(
			_, kernel uintptr, _ uint32, _, global, local *uint64, _ uint32, _, _ *uintptr,
		) int32 {
			return f.call("run", " %d %v %v", kernel, unsafe.Slice(global, 3), unsafe.Slice(local, 3))
		},
		EnqueueBarrierWithWaitList: func(uintptr, uint32, *uintptr, *uintptr) int32 { return f.call("barrier", "") },
		EnqueueMarkerWithWaitList: func(_ uintptr, _ uint32, _, event *uintptr) int32 {
			*event = 9
			return f.call("marker", "")
		},
		Flush:               func(uintptr) int32 { return f.call("flush", "") },
		Finish:              func(uintptr) int32 { return f.call("finish", "") },
		WaitForEvents:       func(_ uint32, events *uintptr) int32 { return f.call("wait", " %d", *events) },
		ReleaseEvent:        func(event uintptr) int32 { return f.call("release event", " %d", event) },
		ReleaseKernel:       func(kernel uintptr) int32 { return f.call("release kernel", " %d", kernel) },
		ReleaseCommandQueue: func(queue uintptr) int32 { return f.call("release queue", " %d", queue) },
	}}}
}

// pipelineOn returns a kernel of two buffers, with threadgroup memory and a position between them.
func clPipelineOn(d *clDevice) *clPipeline {
	return &clPipeline{device: d, kernel: 8, built: func() error { return nil }, Kernel: translate.Kernel{
		Name: "k", MaxThreads: 64, Params: []translate.Parameter{
			{Kind: "buffer", Index: 2, Name: "x"}, {Kind: "threadgroup", Index: 1, Name: "room"},
			{Kind: "thread_position_in_grid", Name: "at"}, {Kind: "buffer", Index: 0, Name: "y"},
		},
	}}
}

func clBufferOn(t *testing.T, d *clDevice, n int) metal.Buffer {
	t.Helper()
	b, err := d.NewBuffer(n)
	require.NoError(t, err)
	return b
}

// TestCLCalls: a command buffer waits for earlier ones, keeps its own barriers, and gives kernels their arguments in
// the order of their parameters. Its settings are those at the dispatch.
func TestCLCalls(t *testing.T) {
	f, d := newCLFake()
	p := clPipelineOn(d)
	x, y := clBufferOn(t, d, 64), clBufferOn(t, d, 64)
	c, err := d.NewCommands()
	require.NoError(t, err)
	c.SetPipeline(p)
	c.SetBuffers(1, []metal.Binding{{Buffer: y}, {Buffer: x, Offset: 60}})
	clSet(c, 2, x, 8)
	clSet(c, 0, y, 0)
	c.SetThreadgroupMemory(1, 32)
	c.Dispatch(metal.Size{X: 2, Y: 3, Z: 5}, metal.Size{X: 4, Y: 2, Z: 8})
	c.Barrier()
	c.Dispatch(clLine(1), clLine(64))
	assert.Empty(t, f.take(), "before Commit")
	c.Commit()
	assert.Equal(t, []string{
		"barrier", "run 8 [8 6 40] [4 2 8]", "barrier", "run 8 [64 1 1] [64 1 1]", "marker", "flush",
	}, f.take())
	address := func(b metal.Buffer, offset int) uint64 {
		return uint64(uintptr(unsafe.Pointer(&b.Bytes()[offset])))
	}
	assert.Equal(t, map[uint32]uint64{0: address(x, 8), 1: 32, 2: address(y, 0)}, f.args)
	timing, err := c.Wait()
	require.NoError(t, err)
	assert.Less(t, timing.Start, timing.End)
	assert.Equal(t, []string{"wait 9", "release event 9"}, f.take())
	require.NoError(t, d.Close())
	assert.Equal(t, []string{"finish", "release queue 3"}, f.take())
	assert.Empty(t, d.memory)
}

// clFailures are uses of a command buffer and failing calls of OpenCL, by the error that Wait returns.
func clFailures(f *clFake, x metal.Buffer) map[string]func(c metal.Commands, p *clPipeline) {
	good := func(c metal.Commands, p *clPipeline) {
		c.SetPipeline(p)
		c.SetBuffers(0, []metal.Binding{{Buffer: x}, {Buffer: x}, {Buffer: x}})
		c.SetThreadgroupMemory(1, 32)
	}
	fails := func(call string, e int32) func(metal.Commands, *clPipeline) {
		return func(c metal.Commands, p *clPipeline) {
			good(c, p)
			f.fails[call] = e
		}
	}
	return map[string]func(c metal.Commands, p *clPipeline){
		"no code": func(c metal.Commands, p *clPipeline) {
			good(c, p)
			p.built = func() error { return errors.New("no code") }
		},
		"k: buffer 2 (x) is not set": func(c metal.Commands, p *clPipeline) {
			c.SetPipeline(p)
			c.SetThreadgroupMemory(1, 32)
			clSet(c, 0, x, 0)
		},
		"k: 0 bytes of threadgroup memory 1": func(c metal.Commands, p *clPipeline) {
			good(c, p)
			c.SetPipeline(p) // which resets it
		},
		"k: buffer 2 (x): error -51":             fails("address", -51),
		"threadgroup memory 1: error -5":         fails("length", -5),
		"of {64 1 1} threads: error -54":         fails("run", -54),
		"clEnqueueBarrierWithWaitList: error -4": fails("barrier", -4),
		"clEnqueueMarkerWithWaitList: error -4":  fails("marker", -4),
		"clFlush: error -3":                      fails("flush", -3),
		"clWaitForEvents: error -14":             fails("wait", -14),
		"set buffer 1: *gpu.clBuffer from 64": func(c metal.Commands, p *clPipeline) {
			good(c, p)
			clSet(c, 1, x, 64)
			clSet(c, 2, x, -4)
		},
		"from -4 on":                func(c metal.Commands, p *clPipeline) { good(c, p); clSet(c, 1, x, -4) },
		"from 6 on":                 func(c metal.Commands, p *clPipeline) { good(c, p); clSet(c, 1, x, 6) },
		"set pipeline: <nil>":       func(c metal.Commands, p *clPipeline) { good(c, p); c.SetPipeline(nil) },
		"the command buffer was di": func(c metal.Commands, p *clPipeline) { good(c, p); c.Discard() },
		"k: threadgroups of 65 threads: at most 64": func(c metal.Commands, p *clPipeline) {
			good(c, p)
			c.Dispatch(clLine(1), metal.Size{X: 5, Y: 13, Z: 1})
		},
		"dispatch without a pipeline": func(metal.Commands, *clPipeline) {},
	}
}

// TestCLCallsFail: the first mistake or failure is returned by Wait, and nothing runs after it. The end of a command
// buffer is marked all the same, so that Wait returns.
func TestCLCallsFail(t *testing.T) {
	f, d := newCLFake()
	for want, encode := range clFailures(f, clBufferOn(t, d, 64)) {
		t.Run(want, func(t *testing.T) {
			defer clear(f.fails)
			c, err := d.NewCommands()
			require.NoError(t, err)
			encode(c, clPipelineOn(d))
			c.Dispatch(clLine(1), clLine(64))
			c.Barrier()
			c.Dispatch(clLine(1), clLine(64))
			f.take()
			c.Commit()
			calls := f.take()
			assert.Equal(t, []string{"marker", "flush"}, calls[len(calls)-2:])
			runs := len(slices.DeleteFunc(calls, func(s string) bool { return s[:3] != "run" }))
			switch {
			case f.fails["run"] != 0:
				assert.Equal(t, 1, runs)
			case f.fails["marker"] == 0 && f.fails["flush"] == 0 && f.fails["wait"] == 0:
				assert.Zero(t, runs)
			}
			_, err = c.Wait()
			assert.ErrorContains(t, err, want)
			assert.Equal(t, "release event 9", f.calls[len(f.calls)-1])
		})
	}
}

// TestCLBuild: a program is compiled when it is first needed, and once for all devices. Errors have the compiler's
// messages, and Close releases the kernel, once.
func TestCLBuild(t *testing.T) {
	f, d := newCLFake()
	for i, c := range []struct {
		fails, want string
		width       uint64
	}{
		{"", "", 32}, {"program", "clCreateProgramWithSource: error -5", 32},
		{"build", "clBuildProgram: error -5: line 3: no", 32}, {"kernel", "clCreateKernel: error -5", 32},
		{"memory", "clGetKernelWorkGroupInfo: error -5", 32}, {"width", "clGetKernelSubGroupInfo: error -5", 32},
		{"", "sub-groups of 16 threads", 16},
	} {
		f.width = c.width
		f.fails = map[string]int32{c.fails: -5}
		p := clPipelineOn(d)
		p.kernel = 0
		source := fmt.Sprint("source", i)
		err := p.build(source, "-x")
		if c.want != "" {
			assert.ErrorContains(t, err, c.want)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, source, f.source)
		assert.Equal(t, []string{"program", "build -x", "kernel", "memory", "width 32"}, f.take())
		assert.Equal(t, 48, p.ThreadgroupMemory())
		assert.Equal(t, 64, p.Threads())
		assert.Equal(t, 32, p.SIMDWidth())
		p.Close()
		p.Close()
		assert.Equal(t, []string{"release kernel 8"}, f.take())
		require.NoError(t, p.build(source, "-x"))
		assert.Equal(t, []string{"kernel", "memory", "width 32"}, f.take())
		p.MaxThreads = 0
		assert.Equal(t, 1024, p.Threads())
	}
}

// TestSource: a source is translated for OpenCL, and each of its kernels is compiled alone, once, when it is first
// needed, with the values of its constants.
func TestCLSource(t *testing.T) {
	f, d := newCLFake()
	var err error
	d.compiler, err = translate.NewCompiler(translate.Options{})
	if errors.Is(err, metal.ErrNoDevice) {
		sharedtest.Missing(t, err)
	}
	require.NoError(t, err)
	l, err := d.NewLibrary(clSource)
	require.NoError(t, err)
	defer l.Close()
	p, err := l.NewPipeline("scale", metal.Constant{Index: 0, Value: true}, metal.Constant{Index: 3, Value: int32(-2)})
	require.NoError(t, err)
	assert.Equal(t, "scale", p.Name())
	assert.Empty(t, f.take())
	assert.Equal(t, 48, p.ThreadgroupMemory())
	assert.Equal(t, 48, p.ThreadgroupMemory(), "the second time")
	calls := f.take()
	require.Len(t, calls, 5)
	for _, option := range []string{
		"-cl-std=CLC++2021", "-cl-fp32-correctly-rounded-divide-sqrt", "-DMSL_VALUE_0=true", "-DMSL_VALUE_3=-2",
	} {
		assert.Contains(t, strings.Fields(calls[1]), option)
	}
	assert.Contains(t, f.source, translate.OpenCLKernel+"(")

	f.fails["build"] = -11
	lanes, err := l.NewPipeline("lanes", metal.Constant{Index: 0, Value: false})
	require.NoError(t, err)
	assert.Zero(t, lanes.ThreadgroupMemory())
	c, err := d.NewCommands()
	require.NoError(t, err)
	c.SetPipeline(lanes)
	c.Dispatch(clLine(1), clLine(32))
	c.Commit()
	_, err = c.Wait()
	compile, ok := errors.AsType[*metal.CompileError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, metal.CompileError{Function: "lanes", Log: "clBuildProgram: error -11: line 3: no"}, *compile)
	_, err = l.NewPipeline("missing")
	compile, ok = errors.AsType[*metal.CompileError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "missing", compile.Function)
	_, err = d.NewLibrary("kernel void f() {")
	_, ok = errors.AsType[*metal.CompileError](err)
	assert.True(t, ok, "%v", err)
}

// TestMemory: buffers are zeroed memory of their length, until the device is closed; wrapped ones are whole pages.
func TestCLMemory(t *testing.T) {
	_, d := newCLFake()
	b := clBufferOn(t, d, 5)
	assert.Equal(t, make([]byte, 5), b.Bytes())
	b.Close()
	b.Bytes()[4] = 1 // a command buffer may still use it
	for _, n := range []int{0, -1, maxBufferLength + 1} {
		_, err := d.NewBuffer(n)
		assert.ErrorContains(t, err, "want 1 to", n)
	}
	pages, err := clMap(3 * clPage)
	require.NoError(t, err)
	w, err := d.WrapBuffer(pages[clPage:])
	require.NoError(t, err)
	assert.Same(t, &pages[clPage], &w.Bytes()[0])
	for _, bad := range [][]byte{nil, pages[:clPage-1], pages[4 : clPage+4]} {
		_, err = d.WrapBuffer(bad)
		assert.ErrorContains(t, err, "want whole pages")
	}
	require.NoError(t, d.Close())
	pages[0] = 1
	require.NoError(t, clUnmap(pages), "the device does not own it")
	_, err = openCL("/no/library")
	assert.ErrorIs(t, err, metal.ErrNoDevice)
}

// clSet binds one buffer.
func clSet(c metal.Commands, index int, b metal.Buffer, offset int) {
	c.SetBuffers(index, []metal.Binding{{Buffer: b, Offset: offset}})
}

// TestCLMake: make opencl has more time than the ten minutes of go test, which a busy machine exceeds.
func TestCLMake(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "libintelocl.so"), nil, 0o644))
	out, err := exec.Command("make", "-C", "../../..", "opencl", "GO=echo", "OPENCLDIR="+dir).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no make")
	}
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), " -timeout 60m ")
}
