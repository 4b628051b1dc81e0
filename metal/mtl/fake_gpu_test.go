//go:build linux && (amd64 || arm64)

package mtl

import (
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// goGPU is a device with kernels that are Go functions, run once for a whole dispatch. Its source code is a list of
// their names. The fake uses it in tests of the host code.
type goGPU struct{ clock time.Duration }

// goKernels are the kernels of goGPU.
var goKernels = map[string]func(*goCommands, []metal.Constant) error{
	"scale": func(c *goCommands, k []metal.Constant) error { // out[i] = x[i]·factor + bias
		x, out := c.floats(0), c.floats(1)
		if x == nil || out == nil || len(c.args[2]) != 4 {
			return fmt.Errorf("an argument of scale is not bound")
		}
		bias := *(*float32)(unsafe.Pointer(&c.args[2][0]))
		factor := float32(1)
		for _, k := range k {
			switch v := k.Value.(type) {
			case float32:
				factor *= v
			case int32:
				factor *= float32(v)
			case uint32:
				factor *= float32(v)
			case bool:
				if v {
					factor = -factor
				}
			}
		}
		for i := range min(len(x), len(out), c.count) {
			out[i] = x[i]*factor + bias
		}
		return nil
	},
	"crash": func(c *goCommands, k []metal.Constant) error { return fmt.Errorf("page fault") },
}

func (g *goGPU) Name() string { return "Go" }

func (g *goGPU) Limits() metal.Limits {
	return metal.Limits{PageSize: fakePage, BufferLength: 1 << 30, Threads: 1024, ThreadgroupMemory: 32768}
}

func (g *goGPU) Close() error { return nil }

// goBuffer is plain memory.
type goBuffer struct{ bytes []byte }

func (b *goBuffer) Bytes() []byte { return b.bytes }
func (b *goBuffer) Close()        {}

func (g *goGPU) NewBuffer(length int) (metal.Buffer, error) {
	words := make([]uint64, (length+7)/8)
	return &goBuffer{unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), length)}, nil
}

func (g *goGPU) WrapBuffer(pages []byte) (metal.Buffer, error) { return &goBuffer{pages}, nil }

// goLibrary is a list of names.
type goLibrary []string

func (g *goGPU) NewLibrary(source string) (metal.Library, error) {
	names := strings.Fields(source)
	for _, n := range names {
		if goKernels[n] == nil {
			return nil, &metal.CompileError{Log: "program_source:1:1: error: unknown word " + n}
		}
	}
	return goLibrary(names), nil
}

func (l goLibrary) Close() {}

// goPipeline is a kernel with its constants.
type goPipeline struct {
	name      string
	constants []metal.Constant
}

func (l goLibrary) NewPipeline(function string, constants ...metal.Constant) (metal.Pipeline, error) {
	for _, n := range l {
		if n == function {
			return &goPipeline{n, constants}, nil
		}
	}
	return nil, &metal.CompileError{Function: function, Log: "function " + function + " is not in the library"}
}

func (p *goPipeline) Name() string           { return p.name }
func (p *goPipeline) Threads() int           { return 512 }
func (p *goPipeline) SIMDWidth() int         { return 32 }
func (p *goPipeline) ThreadgroupMemory() int { return 4096 }
func (p *goPipeline) Close()                 {}

// goCommands runs its commands immediately.
type goCommands struct {
	gpu      *goGPU
	pipeline *goPipeline
	args     [31][]byte
	count    int          // threads of the dispatch
	timing   metal.Timing // of the last dispatch
	err      error
}

func (g *goGPU) NewCommands() (metal.Commands, error) { return &goCommands{gpu: g}, nil }

func (c *goCommands) floats(index int) []float32 {
	b := c.args[index]
	if b == nil {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func (c *goCommands) SetPipeline(p metal.Pipeline) { c.pipeline = p.(*goPipeline) }
func (c *goCommands) SetBuffers(first int, bindings []metal.Binding) {
	for i, b := range bindings {
		c.args[first+i] = b.Buffer.Bytes()[b.Offset:]
	}
}
func (c *goCommands) SetThreadgroupMemory(index, length int) {}
func (c *goCommands) Barrier()                               {}
func (c *goCommands) Commit()                                {}
func (c *goCommands) Discard()                               {}
func (c *goCommands) Dispatch(groups metal.Size, size metal.Size) {
	c.count = groups.X * groups.Y * groups.Z * size.X * size.Y * size.Z
	if err := goKernels[c.pipeline.name](c, c.pipeline.constants); err != nil && c.err == nil {
		c.err = err
	}
	c.timing.Start = c.gpu.clock
	c.gpu.clock += time.Millisecond
	c.timing.End = c.gpu.clock
}

func (c *goCommands) Wait() (metal.Timing, error) {
	return c.timing, c.err
}
