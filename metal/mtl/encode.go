package mtl

import (
	"fmt"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

func (c *commands) SetPipeline(p metal.Pipeline) {
	if !c.acceptsCommands("SetPipeline") {
		return
	}
	mine, ok := p.(*pipeline)
	if !ok || mine == nil || mine.d != c.d || mine.pipeline == 0 {
		c.recordErrorf("SetPipeline with a %T that is closed or of another device", p)
		return
	}
	if mine != c.pipeline {
		c.s.send(c.encoder, selSetComputePipelineState, uintptr(mine.pipeline))
		c.pipeline, c.wanted = mine, [maxArguments]int{}
	}
}

// SetBuffers implements [metal.Commands]. It sends one message for the range from the first changed binding to the
// last.
func (c *commands) SetBuffers(first int, bindings []metal.Binding) {
	if len(bindings) == 0 || !c.acceptsCommands("SetBuffers") || !c.checkIndex(first) ||
		!c.checkIndex(first+len(bindings)-1) {
		return
	}
	from, to := 0, 0 // range of indices with changes
	for i, b := range bindings {
		now, ok := c.resolveBinding(first+i, b)
		if !ok {
			return
		}
		c.buffers[first+i], c.offsets[first+i] = now.buffer, uintptr(now.offset)
		if c.bound[first+i] != now {
			if to == 0 {
				from = first + i
			}
			to = first + i + 1
		}
	}
	if to == from+1 {
		c.bindBuffer(from, binding{c.buffers[from], int(c.offsets[from])})
	} else if to > from {
		c.s.send(c.encoder, selSetBuffers, uintptr(unsafe.Pointer(&c.buffers[from])),
			uintptr(unsafe.Pointer(&c.offsets[from])), uintptr(from), uintptr(to-from))
		for i := from; i < to; i++ {
			c.bound[i] = binding{c.buffers[i], int(c.offsets[i])}
		}
	}
}

func (c *commands) resolveBinding(index int, b metal.Binding) (binding, bool) {
	mine, ok := b.Buffer.(*buffer)
	if !ok || mine == nil || mine.d != c.d || mine.buffer == 0 {
		c.recordErrorf("[[buffer(%d)]] is set to a %T that is closed or of another device", index, b.Buffer)
		return binding{}, false
	}
	if b.Offset < 0 || b.Offset >= len(mine.bytes) || b.Offset%4 != 0 {
		c.recordErrorf("[[buffer(%d)]] is set to begin at byte %d of %d", index, b.Offset, len(mine.bytes))
		return binding{}, false
	}
	return binding{mine.buffer, b.Offset}, true
}

func (c *commands) bindBuffer(index int, now binding) {
	if c.bound[index].buffer == now.buffer {
		c.s.send(c.encoder, selSetBufferOffset, uintptr(now.offset), uintptr(index))
	} else {
		c.s.send(c.encoder, selSetBuffer, uintptr(now.buffer), uintptr(now.offset), uintptr(index))
	}
	c.bound[index] = now
}

func (c *commands) SetThreadgroupMemory(index, length int) {
	if !c.acceptsCommands("SetThreadgroupMemory") || !c.checkIndex(index) {
		return
	}
	if length < 1 || length%minMemory != 0 || length > c.d.limits.ThreadgroupMemory {
		c.recordErrorf("[[threadgroup(%d)]] is given %d bytes: multiples of 16 up to %d are possible",
			index, length, c.d.limits.ThreadgroupMemory)
		return
	}
	c.wanted[index] = length
	if was := c.memory[index]; was < length || was > length+memorySlack {
		c.setMemory(index, length)
	}
}

func (c *commands) Dispatch(groups, threads metal.Size) {
	if !c.acceptsCommands("Dispatch") {
		return
	}
	if err := c.checkDispatch(groups, threads); err != nil {
		c.recordErrorf("%w", err)
		return
	}
	c.s.sendSizes(c.encoder, selDispatchThreadgroups, sizeOf(groups), sizeOf(threads))
	c.unsynced = true
}

func (c *commands) Barrier() {
	if c.acceptsCommands("Barrier") && c.unsynced {
		c.s.send(c.encoder, selMemoryBarrierWithScope, mtlBarrierScopeBuffers)
		c.unsynced = false
	}
}

func (c *commands) checkIndex(index int) bool {
	if index < 0 || index >= maxArguments {
		c.recordErrorf("there is no argument index %d: 0 to %d are possible", index, maxArguments-1)
		return false
	}
	return true
}

// checkDispatch refuses dispatches for which Metal would end the process, or which it would run incorrectly.
func (c *commands) checkDispatch(groups, threads metal.Size) error {
	p := c.pipeline
	if p == nil {
		return fmt.Errorf("Dispatch without a pipeline")
	}
	if min(groups.X, groups.Y, groups.Z, threads.X, threads.Y, threads.Z) < 1 {
		return fmt.Errorf("%s: Dispatch of %v threadgroups of %v threads", p.name, groups, threads)
	}
	t, most := sizeOf(threads), c.d.most
	if t.width > most.width || t.height > most.height || t.depth > most.depth ||
		threads.X*threads.Y*threads.Z > p.threads {
		return fmt.Errorf("%s: Dispatch of threadgroups of %v threads: "+
			"at most %d are possible, and %d, %d and %d along each axis",
			p.name, threads, p.threads, most.width, most.height, most.depth)
	}
	if c.threadgroupMemory() > c.d.limits.ThreadgroupMemory {
		c.shrinkMemory()
	}
	if need := c.threadgroupMemory(); need > c.d.limits.ThreadgroupMemory {
		return fmt.Errorf("%s: Dispatch with %d bytes of threadgroup memory: %d are possible",
			p.name, need, c.d.limits.ThreadgroupMemory)
	}
	return nil
}

// minMemory is the minimum length of threadgroup memory; every length is a multiple of it. If a kernel needs up to
// memorySlack bytes less than the current length, and there is room, the length is not changed: the difference is too
// small for another threadgroup on a core.
const minMemory, memorySlack = 16, 1024

func (c *commands) setMemory(index, length int) {
	c.s.send(c.encoder, selSetThreadgroupMemoryLength, uintptr(length), uintptr(index))
	c.memory[index] = length
}

// threadgroupMemory returns the bytes that Metal counts for a dispatch: those that the kernel declares, and the current
// length for each index, whether it was set for this kernel or for one before it.
func (c *commands) threadgroupMemory() int {
	need := (c.pipeline.memory + minMemory - 1) / minMemory * minMemory
	for _, n := range c.memory {
		need += n
	}
	return need
}

func (c *commands) shrinkMemory() {
	for i, n := range c.memory {
		if wanted := max(c.wanted[i], minMemory); n > wanted {
			c.setMemory(i, wanted)
		}
	}
}

func sizeOf(s metal.Size) size {
	return size{width: uintptr(s.X), height: uintptr(s.Y), depth: uintptr(s.Z)}
}
