// Package metal is Metal as this program uses it: a device with shared memory, kernels compiled from source, and
// command buffers that run them. It contains interfaces and errors only. metal/mtl is Apple's Metal; metal/soft runs
// the same kernels on any processor and checks every rule.
//
// Names are Apple's. What Apple requires of the caller is required here as well: dispatches of one command buffer may
// run at the same time and in any order unless there is a barrier between them.
package metal

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers compare with.
var (
	ErrNoDevice = errors.New("no Metal device")
	ErrClosed   = errors.New("the Metal object is closed")
	ErrFault    = errors.New("the GPU failed") // it may run the same commands in another command buffer
)

// CompileError is source that the compiler refuses, or a function that a library does not have.
type CompileError struct {
	Function string // empty for a whole library
	Log      string // the compiler's messages, with file and line
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
	// Name returns Apple's name of the device, such as "Apple M1", or the name of a substitute.
	Name() string
	Limits() Limits
	// NewBuffer allocates length zeroed bytes that the CPU and kernels share.
	NewBuffer(length int) (Buffer, error)
	// WrapBuffer makes a buffer of existing memory, without a copy. The memory begins on a page, is a whole number of
	// pages ([Limits.PageSize]), and must stay valid until the buffer is closed. Kernels only read it.
	WrapBuffer(pages []byte) (Buffer, error)
	// NewLibrary compiles source in the Metal language with safe (IEEE) arithmetic. Its errors are a [*CompileError].
	NewLibrary(source string) (Library, error)
	// NewCommands begins a command buffer. Until Commit or Discard, one goroutine may use it.
	NewCommands() (Commands, error)
	// Close frees the device. All its objects must be closed before.
	Close() error
}

// Limits of a device.
type Limits struct {
	PageSize          int // bytes
	BufferLength      int // maximum bytes of one buffer
	Threads           int // maximum threads of a threadgroup; a pipeline may allow fewer
	ThreadgroupMemory int // maximum bytes of a threadgroup's memory, static and dynamic together
}

// Buffer is memory that the CPU and kernels share. The CPU may access memory that a kernel writes, and write memory
// that a kernel reads, only while no command buffer with the buffer is committed and not waited for.
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
	// NewPipeline compiles the kernel called function, with the given function constants. Several goroutines may call
	// it at once. Its errors are a [*CompileError].
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
	Threads() int           // maximum threads of a threadgroup
	SIMDWidth() int         // threads of a simdgroup
	ThreadgroupMemory() int // bytes that the kernel declares itself
	Close()
}

// Size is a number of threadgroups, or of threads, along x, y and z. All three are at least 1.
type Size struct{ X, Y, Z int }

// Commands is a command buffer with one concurrent compute encoder. Command buffers run in the order of their Commit:
// each sees the writes of those before it. Settings stay in effect for the dispatches that follow. The first error
// sticks, and Wait returns it.
type Commands interface {
	SetPipeline(p Pipeline)
	// SetBuffers binds each of bindings, from its offset on, to [[buffer(index)]], with consecutive indices from first
	// on. Offsets are multiples of 4.
	SetBuffers(first int, bindings []Binding)
	// SetThreadgroupMemory sets the size of [[threadgroup(index)]] to length bytes, a multiple of 16. Setting a
	// pipeline may reset the size: set it again for a kernel that needs it.
	SetThreadgroupMemory(index, length int)
	// Dispatch runs groups threadgroups of threads threads each.
	Dispatch(groups, threads Size)
	// Barrier delays the dispatches after it until those before it have ended and their writes are visible.
	Barrier()
	// Commit submits the command buffer to the device. It does not wait.
	Commit()
	// Discard drops an uncommitted command buffer.
	Discard()
	// Wait waits until the committed command buffer has run. It must be called once. If the GPU fails in a command
	// buffer the error is [ErrFault]. Those committed after it may fail, too: wait for all before the next NewCommands.
	Wait() (Timing, error)
}

// Timing is the time when a device ran a command buffer, on the device's clock.
type Timing struct{ Start, End time.Duration }
