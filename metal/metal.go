// Package metal is Metal as this program uses it: a device with shared memory, kernels compiled from source, and
// command buffers that run them. It holds interfaces and errors only. metal/mtl is Apple's Metal, metal/soft runs the
// same kernels on any processor with every rule checked.
//
// Names are Apple's. What Apple leaves to the caller is left to the caller here as well: dispatches of one command
// buffer may run at the same time and in any order unless a barrier stands between them.
package metal

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers ask for.
var (
	ErrNoDevice = errors.New("no Metal device")
	ErrClosed   = errors.New("the Metal object is closed")
)

// CompileError is source that the compiler refuses, or a function that a library does not have.
type CompileError struct {
	Function string // empty for a whole library
	Log      string // the compiler's own words, with file and line
}

// Error implements error.
func (e *CompileError) Error() string {
	if e.Function == "" {
		return "compile Metal source: " + e.Log
	}
	return fmt.Sprintf("Metal function %s: %s", e.Function, e.Log)
}

// Device makes buffers, libraries and command buffers. Its methods may be called from any goroutine.
type Device interface {
	// Name is Apple's name of the device, such as "Apple M1", or says what stands in for one.
	Name() string
	Limits() Limits
	// NewBuffer makes length zeroed bytes that the CPU and kernels share.
	NewBuffer(length int) (Buffer, error)
	// WrapBuffer makes a buffer of memory that exists, without a copy. It begins on a page, is a whole number of pages
	// ([Limits.PageSize]), and stays until the buffer is closed. Kernels only read it.
	WrapBuffer(pages []byte) (Buffer, error)
	// NewLibrary compiles source in the Metal language with safe (IEEE) arithmetic. Errors are a [*CompileError].
	NewLibrary(source string) (Library, error)
	// NewCommands begins a command buffer. From here to Commit or Discard it belongs to one goroutine.
	NewCommands() (Commands, error)
	// Close frees the device. Everything it made is closed before.
	Close() error
}

// Limits of a device.
type Limits struct {
	PageSize          int // bytes
	BufferLength      int // most bytes of one buffer
	Threads           int // most threads of a threadgroup; a pipeline may allow fewer
	ThreadgroupMemory int // most bytes of a threadgroup's memory, static and dynamic together
}

// Buffer is memory that the CPU and kernels share. The CPU may touch what a kernel writes, and write what it reads,
// only while no command buffer that uses it is committed and not waited for.
type Buffer interface {
	Bytes() []byte
	Close()
}

// Binding is a buffer from an offset on.
type Binding struct {
	Buffer Buffer
	Offset int // a multiple of 4
}

// Library is compiled source.
type Library interface {
	// NewPipeline makes the kernel called function ready to run, with the given function constants. It may be called
	// from several goroutines at once. Errors are a [*CompileError].
	NewPipeline(function string, constants ...Constant) (Pipeline, error)
	Close()
}

// Constant is the value of [[function_constant(Index)]]: a bool, int32, uint32 or float32.
type Constant struct {
	Index int
	Value any
}

// Pipeline is a kernel that is ready to run.
type Pipeline interface {
	Name() string
	Threads() int           // most threads of a threadgroup
	SIMDWidth() int         // threads of a simdgroup
	ThreadgroupMemory() int // bytes that the kernel declares itself
	Close()
}

// Size is a number of threadgroups, or of threads, along x, y and z. All three are at least 1.
type Size struct{ X, Y, Z int }

// Commands is a command buffer with one concurrent compute encoder. Command buffers run in the order of their Commit:
// each sees all that those before it wrote. What is set stays set for the dispatches that follow. The first error
// sticks and comes out of Wait.
type Commands interface {
	SetPipeline(p Pipeline)
	// SetBuffer binds b from offset on to [[buffer(index)]]. The offset is a multiple of 4.
	SetBuffer(index int, b Buffer, offset int)
	// SetBuffers binds each of bindings as SetBuffer does, to consecutive indices from first on, in a single call to
	// the device.
	SetBuffers(first int, bindings []Binding)
	// SetThreadgroupMemory gives [[threadgroup(index)]] length bytes, a multiple of 16. What was given before the
	// pipeline was set may be taken back: a kernel that needs it is given it anew.
	SetThreadgroupMemory(index, length int)
	// Dispatch runs groups threadgroups of threads threads each.
	Dispatch(groups, threads Size)
	// Barrier lets the dispatches after it begin when those before it are done and what they wrote can be read.
	Barrier()
	// Commit hands the command buffer to the device. It does not wait.
	Commit()
	// Discard drops a command buffer that is not committed.
	Discard()
	// Wait returns when the committed command buffer has run. It is called once.
	Wait() (Timing, error)
}

// Timing says when a device ran a command buffer, on a clock of its own.
type Timing struct{ Start, End time.Duration }
