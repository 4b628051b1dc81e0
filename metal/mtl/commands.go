package mtl

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// maxArguments are the indices of [[buffer]] and [[threadgroup]], the same on every GPU.
const maxArguments = 31

// commands is an MTLCommandBuffer with its one MTLComputeCommandEncoder. It remembers what is set, and does not tell
// Metal twice.
type commands struct {
	d        *Device
	s        *scope // nil when encoding is over
	buffer   id     // 0 when Wait is over, or there is nothing to wait for
	encoder  id
	pipeline *pipeline
	bound    [maxArguments]binding
	memory   [maxArguments]int // dynamic threadgroup memory, as set in the encoder
	wanted   [maxArguments]int // of it, what the pipeline asks for
	number   uint64            // of lifetime
	unsynced bool              // no barrier follows the last dispatch
	err      error             // the first

	// Of SetBuffers, in memory that does not move.
	buffers [maxArguments]id
	offsets [maxArguments]uintptr
}

// binding is what a [[buffer]] index stands for: a buffer from offset on; 0 is nothing yet.
type binding struct {
	buffer id
	offset int
}

// NewCommands implements [metal.Device]. It blocks while 64 command buffers are begun and not done, as Metal does.
func (d *Device) NewCommands() (metal.Commands, error) {
	s, err := d.scope()
	if err != nil {
		return nil, err
	}
	c := &commands{d: d, s: s}
	if c.buffer = id(s.send(d.queue, selCommandBuffer)); c.buffer != 0 {
		s.send(c.buffer, selRetain) // to Wait, beyond the pool of s
		c.encoder = id(s.send(c.buffer, selComputeCommandEncoder, mtlDispatchTypeConcurrent))
	}
	if c.encoder == 0 {
		s.release(c.buffer)
		s.end()
		return nil, errors.New("no Metal command buffer: out of memory")
	}
	c.number = d.lifetime.begin()
	s.pin.Pin(c)
	s.send(c.encoder, selWaitForFence, uintptr(d.fence))
	return c, nil
}

// open reports whether the command buffer takes commands.
func (c *commands) open(what string) bool {
	if c.s == nil {
		c.failf("%s after Commit or Discard", what)
	}
	return c.err == nil
}

func (c *commands) failf(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("Metal command buffer: "+format, args...)
	}
}

// Commit implements [metal.Commands].
func (c *commands) Commit() {
	if c.s == nil {
		c.failf("Commit after Commit or Discard")
		return
	}
	c.endEncoding(c.err == nil)
}

// Discard implements [metal.Commands].
func (c *commands) Discard() {
	if c.s != nil {
		c.endEncoding(false)
	}
}

// endEncoding ends the encoder, as even one that is dropped must be, and commits or drops the command buffer.
func (c *commands) endEncoding(commit bool) {
	s := c.s
	c.s = nil
	s.send(c.encoder, selUpdateFence, uintptr(c.d.fence))
	s.send(c.encoder, selEndEncoding)
	c.encoder = 0
	if commit {
		c.d.residency.commit(s)
		s.send(c.buffer, selCommit)
	} else {
		s.release(c.buffer)
		c.buffer = 0
		c.d.lifetime.end(s, c.number)
	}
	s.end()
}
