package mtl

import (
	"errors"
	"fmt"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// maxArguments is the number of indices of [[buffer]] and of [[threadgroup]], the same on every GPU.
const maxArguments = 31

// commands is an MTLCommandBuffer with its one MTLComputeCommandEncoder. It caches the current settings, so that Metal
// is not called for unchanged ones.
type commands struct {
	d        *Device
	s        *scope // nil after encoding
	queue    commandQueue
	buffer   id // 0 after Wait, or if there is nothing to wait for
	encoder  id
	pipeline *pipeline
	bound    [maxArguments]binding
	memory   [maxArguments]int // dynamic threadgroup memory, as set in the encoder
	wanted   [maxArguments]int // the part of it that the pipeline needs
	number   uint64            // of lifetime
	unsynced bool              // no barrier follows the last dispatch
	err      error             // the first

	// Of SetBuffers, in memory that does not move.
	buffers [maxArguments]id
	offsets [maxArguments]uintptr
}

// binding is the value of a [[buffer]] index: a buffer from offset on; 0 if not set.
type binding struct {
	buffer id
	offset int
}

// NewCommands implements [metal.Device]. Like Metal, it blocks while 64 command buffers are in progress.
func (d *Device) NewCommands() (metal.Commands, error) {
	s, err := d.openScope()
	if err != nil {
		return nil, err
	}
	made := false
	defer func() {
		if !made { // also after a panic: the pool of s belongs to this thread
			s.closeScope()
		}
	}()
	q, err := d.workingQueue(s)
	if err != nil {
		return nil, err
	}
	c := &commands{d: d, s: s, queue: q}
	if c.buffer = id(s.send(q.queue, selCommandBuffer)); c.buffer != 0 {
		s.send(c.buffer, selRetain) // to Wait, beyond the pool of s
		c.encoder = id(s.send(c.buffer, selComputeCommandEncoder, mtlDispatchTypeConcurrent))
	}
	if c.encoder == 0 {
		s.releaseObject(c.buffer)
		return nil, errors.New("no Metal command buffer: out of memory")
	}
	c.number = d.lifetime.addCommandBuffer()
	s.pin.Pin(c)
	s.send(c.encoder, selWaitForFence, uintptr(q.fence))
	made = true
	return c, nil
}

func (c *commands) acceptsCommands(what string) bool {
	if c.s == nil {
		c.recordErrorf("%s after Commit or Discard", what)
	}
	return c.err == nil
}

func (c *commands) recordErrorf(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("Metal command buffer: "+format, args...)
	}
}

func (c *commands) Commit() {
	if c.s == nil {
		c.recordErrorf("Commit after Commit or Discard")
		return
	}
	c.endEncoding(c.err == nil)
}

func (c *commands) Discard() {
	if c.s != nil {
		c.endEncoding(false)
	}
}

// endEncoding ends the encoder, which is required even if it is dropped, and commits or drops the command buffer.
func (c *commands) endEncoding(commit bool) {
	s := c.s
	c.s = nil
	defer s.closeScope()
	s.send(c.encoder, selUpdateFence, uintptr(c.queue.fence))
	s.send(c.encoder, selEndEncoding)
	c.encoder = 0
	if commit {
		c.d.residency.commitChanges(s)
		s.send(c.buffer, selCommit)
	} else {
		s.releaseObject(c.buffer)
		c.buffer = 0
		c.d.lifetime.removeCommandBuffer(s, c.number)
	}
}
