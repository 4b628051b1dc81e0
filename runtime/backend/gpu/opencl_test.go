package gpu

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// Limits of Apple's GPUs, which the processor exceeds.
const (
	simdWidth            = 32
	maxThreads           = 1024
	maxThreadgroupMemory = 32768
	maxBufferLength      = 64 << 30
)

// clDevice is a [metal.Device] on a processor, by Intel's runtime of OpenCL: a second compiler, made by others, that
// these tests run the kernels with. Package translate makes a program in C++ for OpenCL of the source that the software
// device runs. A simdgroup is a sub-group of 32 lanes.
//
// It finds what depends on the software device's own understanding of Metal: its compiler, its operations of
// simdgroups, its order of threads. It checks few rules: races, bounds and uninitialised memory are the software
// device's to find. It needs libintelocl.so, which `make opencl` installs, clang-19 for the translation, and Linux on
// x86-64.
type clDevice struct {
	*clRuntime
	compiler *translate.Compiler
	queue    uintptr
	begin    time.Time

	mu     sync.Mutex // of arguments of kernels, and of what follows
	memory [][]byte   // of all buffers, until Close
}

// clRuntime is what all devices of a library share: most of the time of these tests is that of building programs.
type clRuntime struct {
	cl              *clAPI
	device, context uintptr
	programs        sync.Map // by options and text: func() (uintptr, error), which builds it once
}

// clRuntimes has a func() (*clRuntime, error) for each path of a library.
var clRuntimes sync.Map

// openCL makes a device of the first processor of the OpenCL library at path. It fails with [metal.ErrNoDevice] if the
// library or clang cannot be loaded.
func openCL(path string) (*clDevice, error) {
	compiler, err := translate.NewCompiler(translate.Options{})
	if err != nil {
		return nil, err
	}
	shared, _ := clRuntimes.LoadOrStore(path, sync.OnceValues(func() (*clRuntime, error) { return newCLRuntime(path) }))
	d := &clDevice{compiler: compiler, begin: time.Now()}
	if d.clRuntime, err = shared.(func() (*clRuntime, error))(); err != nil {
		return nil, err
	}
	var e int32
	d.queue = d.cl.CreateCommandQueue(d.context, d.device, queueOutOfOrder, &e)
	return d, clFailed("clCreateCommandQueue", e)
}

func newCLRuntime(path string) (*clRuntime, error) {
	cl, err := loadCL(path)
	if err != nil {
		return nil, err
	}
	r := &clRuntime{cl: cl}
	var platform uintptr
	if e := cl.GetPlatformIDs(1, &platform, nil); e != 0 {
		return nil, fmt.Errorf("%w: %s has no platform: error %d", metal.ErrNoDevice, path, e)
	}
	if e := cl.GetDeviceIDs(platform, deviceTypeCPU, 1, &r.device, nil); e != 0 {
		return nil, fmt.Errorf("%w: %s has no processor: error %d", metal.ErrNoDevice, path, e)
	}
	var e int32
	r.context = cl.CreateContext(nil, 1, &r.device, 0, nil, &e)
	return r, clFailed("clCreateContext", e)
}

// clFailed returns the error of a call, or nil. Numbers are those of CL/cl.h.
func clFailed(call string, e int32) error {
	if e == 0 {
		return nil
	}
	return fmt.Errorf("%s: error %d", call, e)
}

// Name implements [metal.Device].
func (d *clDevice) Name() string { return "OpenCL" }

// Limits implements [metal.Device].
func (d *clDevice) Limits() metal.Limits {
	return metal.Limits{PageSize: clPage, BufferLength: maxBufferLength, Threads: maxThreads,
		ThreadgroupMemory: maxThreadgroupMemory}
}

// Close implements [metal.Device]. It waits for committed command buffers and frees the memory of all buffers.
func (d *clDevice) Close() error {
	err := clFailed("clFinish", d.cl.Finish(d.queue))
	d.cl.ReleaseCommandQueue(d.queue)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.memory {
		err = errors.Join(err, clUnmap(m))
	}
	d.memory = nil
	return err
}

// clBuffer is memory of the process: kernels get its address.
type clBuffer struct{ bytes []byte }

// NewBuffer implements [metal.Device].
func (d *clDevice) NewBuffer(length int) (metal.Buffer, error) {
	if length < 1 || length > maxBufferLength {
		return nil, fmt.Errorf("buffer of %d bytes: want 1 to %d", length, maxBufferLength)
	}
	m, err := clMap(length)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory = append(d.memory, m)
	return &clBuffer{m[:length:length]}, nil
}

// WrapBuffer implements [metal.Device].
func (d *clDevice) WrapBuffer(pages []byte) (metal.Buffer, error) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(pages)))
	if len(pages) == 0 || len(pages)%clPage != 0 || at%clPage != 0 {
		return nil, fmt.Errorf("buffer around %d bytes at %#x: want whole pages of %d", len(pages), at, clPage)
	}
	return &clBuffer{pages}, nil
}

// Bytes implements [metal.Buffer].
func (b *clBuffer) Bytes() []byte { return b.bytes }

// Close implements [metal.Buffer]. Command buffers may still use the memory: the device frees it.
func (b *clBuffer) Close() {}
