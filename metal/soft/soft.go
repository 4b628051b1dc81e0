// Package soft is a Metal device in software: it compiles .metal source with clang and runs it on the processor, and
// checks Metal's rules. With it, kernels can be tested without a GPU, and the whole program can run with --backend
// soft.
//
// The path of a kernel from source to execution:
//
//	.metal source
//	     │  NewLibrary                   package translate: clang, parser, C++, clang, lld
//	  shared library, with the runtime
//	     │  loadModule                   module.go, module_linux.go
//	  library: kernels and the arguments that they need
//	     │  NewPipeline                  library.go: a kernel with values of its function constants
//	  pipeline
//	     │  SetPipeline, SetBuffer,      commands.go: checked against the declaration of the kernel
//	     │  Dispatch, Barrier
//	  command buffer
//	     │  Commit                       queue.go: command buffers run one after the other
//	     │                               execute.go: between barriers, dispatches in an order that the seed decides
//	  dispatch
//	     │  threadgroups by OS threads   worker.go, translate/msl/runtime.cpp: a thread is a fibre; simdgroups meet at
//	     │                               their operations, threadgroups at barriers, in an order that the seed decides
//	     │  loads and stores             shadow.go, translate/msl/check.cpp, in the variant Check
//	  Wait: nil or a [*Fault]            fault.go: with file and line; counts.go has the bytes
//
// Package translate is the half that makes the library, and can be read alone; this package is the half that runs it.
// It uses of a library the path, the description, the six functions that it exports (EXPORT in
// translate/msl/runtime.cpp), and the structs that both sides share (translate/msl/runtime.h).
//
// In the variant Check, the compiler reports each access to shadow memory. It finds races, missing barriers, accesses
// out of bounds and uninitialised reads, what UBSan finds, and counts bytes. Wait returns what is found as a [*Fault].
// The variant Fast finds less: there a wild access, or a division of integers by zero, may end the process. No variant
// stops a kernel that never ends.
//
// Limits. It does not show whether Apple's compiler accepts the source, nor the accuracy of its fast arithmetic, its
// register use and its speed. It refuses some code that Metal accepts: operations of a simdgroup by some of its threads
// only, structs copied out of device memory as a whole, and functions that differ only in the address space of a
// parameter. It runs on Linux, amd64 and arm64, and needs clang-19 and lld-19 at run time.
package soft

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// Variant says how kernels are compiled, and so what is checked as they run.
type Variant = translate.Variant

// The variants, as package translate explains them.
const (
	Fast  = translate.Fast
	Check = translate.Check
)

// Limits of the device, Apple's.
const (
	maxThreadgroupMemory = 32768 // bytes of a threadgroup
	simdWidth            = 32    // threads of a simdgroup
)

// Options of a device. The zero value is good for running a model.
type Options struct {
	Variant       Variant // empty means Fast
	Seed          uint64  // for the order of dispatches, threadgroups and threads; 0 means by their numbers
	Threads       int     // OS threads; 0 means one for each processor. Check uses one
	Cache         string  // folder of compiled code; empty means pilotfish/soft in the user's cache folder
	Clang         string  // the compiler; empty means clang-19, or clang if it is version 19
	PoisonBuffers bool    // new buffers count as not written. They hold NaN instead of zero
	PageSize      int     // that WrapBuffer requires; 0 means the system's. Apple's is 16384
}

// Device is a Metal device in software.
type Device struct {
	options  Options
	compiler *translate.Compiler
	begin    time.Time

	mu      sync.Mutex
	idle    sync.Cond // all committed command buffers have run
	queue   []*commands
	running bool
	closed  bool
	buffers map[*buffer]bool
	modules map[string]*module // by path

	execution // used by the goroutine that runs the queue
}

// Open makes a device. It fails with [metal.ErrNoDevice] if there is no compiler, or if the system is not supported.
func Open(o Options) (*Device, error) {
	if o.Variant == "" {
		o.Variant = Fast
	}
	if o.Variant != Fast && o.Variant != Check {
		return nil, fmt.Errorf("software Metal device: there is no variant %q", o.Variant)
	}
	if o.Threads < 0 || o.PageSize < 0 {
		return nil, fmt.Errorf("software Metal device: %d threads, pages of %d bytes", o.Threads, o.PageSize)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Variant == Check {
		o.Threads = 1
	}
	if o.PageSize == 0 {
		o.PageSize = os.Getpagesize()
	}
	if err := checkPlatform(); err != nil {
		return nil, err
	}
	c, err := translate.NewCompiler(translate.Options{Cache: o.Cache, Clang: o.Clang})
	if err != nil {
		return nil, err
	}
	d := &Device{options: o, compiler: c, begin: time.Now(), buffers: map[*buffer]bool{}, modules: map[string]*module{}}
	d.idle.L = &d.mu
	if err := d.execution.initExecution(o); err != nil {
		return nil, err
	}
	return d, nil
}

// Name returns a name with the variant.
func (d *Device) Name() string { return "software Metal (" + string(d.options.Variant) + ")" }

// Limits returns Apple's limits, except that the page size is the system's unless the options set it.
func (d *Device) Limits() metal.Limits {
	return metal.Limits{
		PageSize: d.options.PageSize, BufferLength: maxBufferLength,
		Threads: translate.MaxThreads, ThreadgroupMemory: maxThreadgroupMemory,
	}
}

// NewLibrary compiles source, or uses the cached result. Messages follow #line directives.
func (d *Device) NewLibrary(source string) (metal.Library, error) {
	if d.isClosed() {
		return nil, metal.ErrClosed
	}
	path, err := d.compiler.Build(source, d.options.Variant)
	if err != nil {
		return nil, err
	}
	m, err := d.cachedModule(path)
	if err != nil {
		return nil, err
	}
	return &library{device: d, module: m}, nil
}

// cachedModule returns the compiled library at path, in memory until the device is closed.
func (d *Device) cachedModule(path string) (m *module, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed { // while the library was compiled
		return nil, metal.ErrClosed
	}
	if m = d.modules[path]; m == nil {
		if m, err = loadModule(path); err == nil {
			d.modules[path] = m
		}
	}
	return m, err
}

func (d *Device) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// Close waits for committed command buffers and frees the device, with all open buffers.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return metal.ErrClosed
	}
	d.closed = true
	for d.running {
		d.idle.Wait()
	}
	for b := range d.buffers {
		b.freePages()
	}
	clear(d.buffers)
	var err error
	for _, m := range d.modules {
		err = errors.Join(err, m.unloadModule())
	}
	d.execution.freeExecution()
	return err
}
