// Package record is a Metal device without a GPU: it records the commands that it is given and runs nothing, so that
// the GPU work of a pass can be counted. A buffer uses no physical memory until it is touched.
package record

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// Dispatch is one run of a kernel, as it was encoded.
type Dispatch struct {
	Kernel          string
	Groups, Threads metal.Size
	Memory          int    // bytes of threadgroup memory, as set since the pipeline was set
	Args            []byte // the first bytes of its last buffer, at most 256: its arguments
	Level           int    // barriers before it
}

// Device is a [metal.Device] that runs nothing. One goroutine may use it at a time, except for making pipelines.
type Device struct {
	dispatches []Dispatch // of the command buffers committed since Take
}

// Open makes a device.
func Open() *Device { return new(Device) }

// Take returns the dispatches committed since the last call of Take, in order.
func (d *Device) Take() []Dispatch {
	taken := d.dispatches
	d.dispatches = nil
	return taken
}

// Name implements [metal.Device].
func (d *Device) Name() string { return "record" }

// Limits returns the limits of Apple's GPUs, except that the page size is the system's.
func (d *Device) Limits() metal.Limits {
	return metal.Limits{
		PageSize: os.Getpagesize(), BufferLength: 1 << 40, Threads: 1024, ThreadgroupMemory: 32768,
	}
}

// Close implements [metal.Device].
func (d *Device) Close() error { return nil }

type buffer struct{ bytes []byte }

func (b *buffer) Bytes() []byte { return b.bytes }

func (b *buffer) Close() {}

// NewBuffer implements [metal.Device].
func (d *Device) NewBuffer(length int) (metal.Buffer, error) {
	if length < 1 {
		return nil, fmt.Errorf("a buffer of %d bytes", length)
	}
	words := make([]uint64, (length+7)/8) // aligned for whatever lies in it
	return &buffer{unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), length)}, nil
}

// WrapBuffer implements [metal.Device].
func (d *Device) WrapBuffer(pages []byte) (metal.Buffer, error) { return &buffer{pages}, nil }

// library is a library of any source.
type library struct{ device *Device }

// NewLibrary implements [metal.Device].
func (d *Device) NewLibrary(string) (metal.Library, error) { return library{d}, nil }

func (l library) Close() {}

// NewPipeline implements [metal.Library]. It accepts every function.
func (l library) NewPipeline(function string, _ ...metal.Constant) (metal.Pipeline, error) {
	return &pipeline{function}, nil
}

// pipeline is the name of a kernel.
type pipeline struct{ name string }

func (p *pipeline) Name() string { return p.name }

func (p *pipeline) Threads() int { return 1024 }

func (p *pipeline) SIMDWidth() int { return 32 }

// ThreadgroupMemory implements [metal.Pipeline]. The kernels declare little.
func (p *pipeline) ThreadgroupMemory() int { return 64 }

func (p *pipeline) Close() {}

const (
	indices = 31 // of [[threadgroup]]
	maxArgs = 256
)

// commands is a command buffer.
type commands struct {
	device     *Device
	kernel     string
	last       int // index of the last buffer
	args       metal.Binding
	memory     [indices]int
	level      int
	open       bool // the level has a dispatch
	dispatches []Dispatch
}

// NewCommands implements [metal.Device].
func (d *Device) NewCommands() (metal.Commands, error) { return &commands{device: d}, nil }

func (c *commands) SetPipeline(p metal.Pipeline) { c.kernel, c.memory = p.Name(), [indices]int{} }

// SetBuffers implements [metal.Commands]. Its bindings count as all buffers of the next dispatch.
func (c *commands) SetBuffers(first int, bindings []metal.Binding) {
	c.last = 0
	for i, b := range bindings {
		if first+i >= c.last {
			c.last, c.args = first+i, b
		}
	}
}

func (c *commands) SetThreadgroupMemory(index, length int) { c.memory[index] = length }

func (c *commands) Dispatch(groups, threads metal.Size) {
	memory := 0
	for _, n := range c.memory {
		memory += n
	}
	var args []byte
	if c.args.Buffer != nil {
		args = c.args.Buffer.Bytes()[c.args.Offset:]
		args = slices.Clone(args[:min(len(args), maxArgs)])
	}
	c.dispatches = append(c.dispatches, Dispatch{
		Kernel: c.kernel, Groups: groups, Threads: threads, Memory: memory, Args: args, Level: c.level,
	})
	c.open = true
}

func (c *commands) Barrier() {
	if c.open {
		c.level++
		c.open = false
	}
}

func (c *commands) Commit() { c.device.dispatches = append(c.device.dispatches, c.dispatches...) }

func (c *commands) Discard() {}

// Wait implements [metal.Commands]. The results of kernels are zero.
func (c *commands) Wait() (metal.Timing, error) { return metal.Timing{}, nil }
