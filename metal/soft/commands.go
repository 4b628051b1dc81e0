package soft

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/metal/soft/translate"
)

// Errors of encoding.
var (
	errForeign   = errors.New("not an object of this device")
	errCommitted = errors.New("the command buffer is committed already")
	errDiscarded = errors.New("the command buffer was discarded")
	errUnwaited  = errors.New("the command buffer was not committed")
)

// argument is the binding of a buffer index: a buffer from an offset on.
type argument struct {
	buffer *buffer // nil if not bound
	offset int
}

// dispatch is one encoded dispatch.
type dispatch struct {
	pipeline  *pipeline
	arguments []argument // one for each parameter of the pipeline; not bound if the parameter is not a buffer
	memory    [translate.MaxBuffers]int
	groups    metal.Size
	threads   metal.Size
}

// commands is a command buffer. Its owner encodes commands; after Commit it belongs to the device's queue until done is
// closed.
type commands struct {
	device    *Device
	pipeline  *pipeline
	arguments [translate.MaxBuffers]argument
	memory    [translate.MaxBuffers]int
	levels    [][]dispatch // between barriers
	held      []*buffer    // that must not be freed before the end
	state     state
	err       error
	done      chan struct{}
	timing    metal.Timing
}

// NewCommands implements metal.Device.
func (d *Device) NewCommands() (metal.Commands, error) {
	if d.isClosed() {
		return nil, metal.ErrClosed
	}
	return &commands{device: d, levels: make([][]dispatch, 1), done: make(chan struct{})}, nil
}

// recordError keeps the first error.
func (c *commands) recordError(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

func (c *commands) acceptsCommands(what string) bool {
	switch c.state {
	case encoding:
		return c.err == nil
	case discarded:
		c.recordError("%s: %w", what, errDiscarded)
	case committed: // it belongs to the queue: setting the error would be a data race
		c.device.mu.Lock()
		defer c.device.mu.Unlock()
		c.recordError("%s: %w", what, errCommitted)
	}
	return false
}

// SetPipeline implements metal.Commands.
func (c *commands) SetPipeline(p metal.Pipeline) {
	if !c.acceptsCommands("set pipeline") {
		return
	}
	own, ok := p.(*pipeline)
	switch {
	case !ok || own == nil || own.device != c.device:
		c.recordError("set pipeline: %w", errForeign)
	case own.isClosed():
		c.recordError("set pipeline %s: %w", own.Name(), metal.ErrClosed)
	default:
		c.pipeline = own
	}
}

func (p *pipeline) isClosed() bool {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	return p.closed
}

func (c *commands) setBuffer(index int, b metal.Buffer, offset int) {
	if !c.acceptsCommands("set buffer") || !c.checkArgumentIndex("set buffer", index) {
		return
	}
	own, ok := b.(*buffer)
	if !ok || own == nil || own.device != c.device {
		c.recordError("set buffer %d: %w", index, errForeign)
		return
	}
	if !c.retainBuffer(own) {
		c.recordError("set buffer %d: %w", index, metal.ErrClosed)
		return
	}
	if offset < 0 || offset%4 != 0 || offset >= len(own.bytes) {
		c.recordError("set buffer %d: offset %d of a buffer of %d bytes: want a multiple of 4 inside it",
			index, offset, len(own.bytes))
		return
	}
	c.arguments[index] = argument{buffer: own, offset: offset}
}

// SetBuffers implements metal.Commands.
func (c *commands) SetBuffers(first int, bindings []metal.Binding) {
	for i, b := range bindings {
		c.setBuffer(first+i, b.Buffer, b.Offset)
	}
}

// retainBuffer retains a buffer until the command buffer is done. It reports whether the buffer is open.
func (c *commands) retainBuffer(b *buffer) bool {
	if slices.Contains(c.held, b) {
		return true
	}
	c.device.mu.Lock()
	defer c.device.mu.Unlock()
	if b.closed || c.device.closed {
		return false
	}
	b.refs++
	c.held = append(c.held, b)
	return true
}

func (c *commands) checkArgumentIndex(what string, i int) bool {
	if i < 0 || i >= translate.MaxBuffers {
		c.recordError("%s: index %d: want 0 to %d", what, i, translate.MaxBuffers-1)
		return false
	}
	return true
}

// SetThreadgroupMemory implements metal.Commands.
func (c *commands) SetThreadgroupMemory(index, length int) {
	if !c.acceptsCommands("set threadgroup memory") || !c.checkArgumentIndex("set threadgroup memory", index) {
		return
	}
	if length <= 0 || length%16 != 0 || length > maxThreadgroupMemory {
		c.recordError("set threadgroup memory %d: %d bytes: want a multiple of 16 up to %d",
			index, length, maxThreadgroupMemory)
		return
	}
	c.memory[index] = length
}

// Dispatch implements metal.Commands.
func (c *commands) Dispatch(groups, threads metal.Size) {
	if !c.acceptsCommands("dispatch") {
		return
	}
	if c.pipeline == nil {
		c.recordError("dispatch: no pipeline is set")
		return
	}
	d := dispatch{pipeline: c.pipeline, groups: groups, threads: threads}
	if err := c.resolveArguments(&d); err != nil {
		c.recordError("dispatch of %s: %w", c.pipeline.Name(), err)
		return
	}
	last := len(c.levels) - 1
	c.levels[last] = append(c.levels[last], d)
}

func (c *commands) resolveArguments(d *dispatch) error {
	p := d.pipeline
	if err := checkSizes(d.groups, d.threads, p.Threads()); err != nil {
		return err
	}
	d.arguments = make([]argument, len(p.Params))
	memory := p.memory
	for i, a := range p.Params {
		switch {
		case !p.hasParameter(a):
		case a.Kind == "buffer":
			if d.arguments[i] = c.arguments[a.Index]; d.arguments[i].buffer == nil {
				return fmt.Errorf("buffer %d (%s) is not bound", a.Index, a.Name)
			}
		case a.Kind == "threadgroup":
			if d.memory[a.Index] = c.memory[a.Index]; d.memory[a.Index] == 0 {
				return fmt.Errorf("threadgroup memory %d (%s) has no length", a.Index, a.Name)
			}
			memory = (memory+15)/16*16 + d.memory[a.Index]
		}
	}
	if memory > maxThreadgroupMemory {
		return fmt.Errorf("%d bytes of threadgroup memory, more than %d", memory, maxThreadgroupMemory)
	}
	return nil
}

func checkSizes(groups, threads metal.Size, limit int) error {
	for _, n := range [...]int{groups.X, groups.Y, groups.Z, threads.X, threads.Y, threads.Z} {
		if n < 1 || n > 1<<30 {
			return fmt.Errorf("%v threadgroups of %v threads: each number must be at least 1 and at most %d",
				groups, threads, 1<<30)
		}
	}
	if threads.X > limit || threads.Y > limit || threads.Z > limit || threads.X*threads.Y*threads.Z > limit {
		return fmt.Errorf("threadgroups of %v threads: the pipeline allows %d", threads, limit)
	}
	if n := groups.X * groups.Y; n > 1<<30 || n*groups.Z > 1<<30 {
		return fmt.Errorf("%v threadgroups: more than %d in all", groups, 1<<30)
	}
	return nil
}

// Barrier implements metal.Commands.
func (c *commands) Barrier() {
	if c.acceptsCommands("barrier") && len(c.levels[len(c.levels)-1]) > 0 {
		c.levels = append(c.levels, nil)
	}
}
