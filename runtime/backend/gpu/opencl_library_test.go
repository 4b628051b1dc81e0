package gpu

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// clLibrary is a source in OpenCL: each pipeline is a program of its own.
type clLibrary struct {
	device *clDevice
	source *translate.OpenCL
}

// NewLibrary implements [metal.Device].
func (d *clDevice) NewLibrary(source string) (metal.Library, error) {
	o, err := d.compiler.OpenCL(source)
	if err != nil {
		return nil, err
	}
	return &clLibrary{d, o}, nil
}

// Close implements [metal.Library]. Pipelines stay valid.
func (l *clLibrary) Close() {}

// clPipeline is a kernel. It is compiled when it is first used, which takes a second: models make pipelines of more
// kernels than a test runs. Errors of compilation are those of its dispatches.
type clPipeline struct {
	translate.Kernel
	device *clDevice
	built  func() error
	kernel uintptr
	memory int // bytes of threadgroup memory that the kernel declares
}

// NewPipeline implements [metal.Library].
func (l *clLibrary) NewPipeline(function string, constants ...metal.Constant) (metal.Pipeline, error) {
	text, k, err := l.source.Program(function)
	if err != nil {
		return nil, &metal.CompileError{Function: function, Log: err.Error()}
	}
	// Optimised code takes eight times as long to compile.
	options := "-cl-std=CLC++2021 -cl-opt-disable -cl-fp32-correctly-rounded-divide-sqrt"
	for _, c := range constants {
		options += fmt.Sprintf(" -DMSL_VALUE_%d=%v", c.Index, c.Value)
	}
	p := &clPipeline{Kernel: k, device: l.device}
	p.built = sync.OnceValue(func() error {
		if err := p.build(text, options); err != nil {
			return &metal.CompileError{Function: function, Log: err.Error()}
		}
		return nil
	})
	return p, nil
}

// program returns a compiled program.
func (r *clRuntime) program(text, options string) (uintptr, error) {
	build := sync.OnceValues(func() (uintptr, error) { return r.buildProgram(text, options) })
	shared, _ := r.programs.LoadOrStore(options+"\n"+text, build)
	return shared.(func() (uintptr, error))()
}

func (r *clRuntime) buildProgram(text, options string) (uintptr, error) {
	bytes := append([]byte(text), 0)
	start, length := unsafe.Pointer(&bytes[0]), uint64(len(text))
	var e int32
	program := r.cl.CreateProgramWithSource(r.context, 1, &start, &length, &e)
	runtime.KeepAlive(bytes)
	if e != 0 {
		return 0, clFailed("clCreateProgramWithSource", e)
	}
	if e = r.cl.BuildProgram(program, 1, &r.device, options, 0, nil); e != 0 {
		log := make([]byte, 1<<16)
		r.cl.GetProgramBuildInfo(program, r.device, programBuildLog, uint64(len(log)), &log[0], nil)
		return 0, fmt.Errorf("%w: %s", clFailed("clBuildProgram", e), strings.TrimRight(string(log), "\x00\n"))
	}
	return program, nil
}

// build compiles the program, and asks what its kernel needs.
func (p *clPipeline) build(text, options string) error {
	cl, d := p.device.cl, p.device
	program, err := d.program(text, options)
	if err != nil {
		return err
	}
	var e int32
	if p.kernel = cl.CreateKernel(program, translate.OpenCLKernel, &e); e != 0 {
		return clFailed("clCreateKernel", e)
	}
	var memory, width uint64
	shape := uint64(simdWidth)
	err = errors.Join(clFailed("clGetKernelWorkGroupInfo",
		cl.GetKernelWorkGroupInfo(p.kernel, d.device, kernelLocalMemSize, 8, &memory, nil)),
		clFailed("clGetKernelSubGroupInfo",
			cl.GetKernelSubGroupInfo(p.kernel, d.device, kernelSubGroupSize, 8, &shape, 8, &width, nil)))
	if p.memory = int(memory); err == nil && width != simdWidth {
		err = fmt.Errorf("sub-groups of %d threads", width)
	}
	return err
}

// Name implements [metal.Pipeline].
func (p *clPipeline) Name() string { return p.Kernel.Name }

// Threads implements [metal.Pipeline].
func (p *clPipeline) Threads() int {
	if p.MaxThreads > 0 {
		return p.MaxThreads
	}
	return maxThreads
}

// SIMDWidth implements [metal.Pipeline].
func (p *clPipeline) SIMDWidth() int { return simdWidth }

// ThreadgroupMemory implements [metal.Pipeline]. It is 0 if the kernel cannot be compiled.
func (p *clPipeline) ThreadgroupMemory() int {
	_ = p.built() // a dispatch will fail with this error
	return p.memory
}

// Close implements [metal.Pipeline]. OpenCL keeps what enqueued dispatches need.
func (p *clPipeline) Close() {
	if p.kernel != 0 {
		p.device.cl.ReleaseKernel(p.kernel)
	}
	p.kernel = 0
}
