package mtl

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// SetPipeline implements [metal.Commands].
func (c *commands) SetPipeline(p metal.Pipeline) {
	if !c.open("SetPipeline") {
		return
	}
	mine, ok := p.(*pipeline)
	if !ok || mine == nil || mine.d != c.d || mine.pipeline == 0 {
		c.failf("SetPipeline with a %T that is closed or of another device", p)
		return
	}
	if mine != c.pipeline {
		c.s.send(c.encoder, selSetComputePipelineState, uintptr(mine.pipeline))
		c.pipeline, c.fresh = mine, 0
	}
}

// SetBuffer implements [metal.Commands].
func (c *commands) SetBuffer(index int, b metal.Buffer, offset int) {
	if !c.open("SetBuffer") || !c.checkIndex(index) {
		return
	}
	mine, ok := b.(*buffer)
	if !ok || mine == nil || mine.d != c.d || mine.buffer == 0 {
		c.failf("[[buffer(%d)]] is set to a %T that is closed or of another device", index, b)
		return
	}
	if offset < 0 || offset >= len(mine.bytes) || offset%4 != 0 {
		c.failf("[[buffer(%d)]] is set to begin at byte %d of %d", index, offset, len(mine.bytes))
		return
	}
	now := binding{mine.buffer, offset}
	switch was := c.bound[index]; {
	case was == now:
	case was.buffer == now.buffer:
		c.s.send(c.encoder, selSetBufferOffset, uintptr(offset), uintptr(index))
	default:
		c.s.send(c.encoder, selSetBuffer, uintptr(now.buffer), uintptr(offset), uintptr(index))
	}
	c.bound[index] = now
}

// SetBytes implements [metal.Commands].
func (c *commands) SetBytes(index int, b []byte) {
	if !c.open("SetBytes") || !c.checkIndex(index) {
		return
	}
	if len(b) == 0 || len(b) > maxBytes {
		c.failf("[[buffer(%d)]] is set to %d bytes: 1 to %d are possible", index, len(b), maxBytes)
		return
	}
	copy(c.bytes[:], b)
	c.s.send(c.encoder, selSetBytes, uintptr(unsafe.Pointer(&c.bytes)), uintptr(len(b)), uintptr(index))
	c.bound[index] = binding{}
}

// SetThreadgroupMemory implements [metal.Commands].
func (c *commands) SetThreadgroupMemory(index, length int) {
	if !c.open("SetThreadgroupMemory") || !c.checkIndex(index) {
		return
	}
	if length < 1 || length%16 != 0 || length > c.d.limits.ThreadgroupMemory {
		c.failf("[[threadgroup(%d)]] is given %d bytes: multiples of 16 up to %d are possible",
			index, length, c.d.limits.ThreadgroupMemory)
		return
	}
	if c.memory[index] != length {
		c.s.send(c.encoder, selSetThreadgroupMemoryLength, uintptr(length), uintptr(index))
		c.memory[index] = length
	}
	c.fresh |= 1 << index
}

// Dispatch implements [metal.Commands].
func (c *commands) Dispatch(groups, threads metal.Size) {
	if !c.open("Dispatch") {
		return
	}
	if err := c.checkDispatch(groups, threads); err != nil {
		c.failf("%w", err)
		return
	}
	c.s.sendSizes(c.encoder, selDispatchThreadgroups, sizeOf(groups), sizeOf(threads))
	c.unsynced = true
}

// Barrier implements [metal.Commands].
func (c *commands) Barrier() {
	if c.open("Barrier") && c.unsynced {
		c.s.send(c.encoder, selMemoryBarrierWithScope, mtlBarrierScopeBuffers)
		c.unsynced = false
	}
}

func (c *commands) checkIndex(index int) bool {
	if index < 0 || index >= maxArguments {
		c.failf("there is no argument index %d: 0 to %d are possible", index, maxArguments-1)
		return false
	}
	return true
}

// checkDispatch refuses what Metal would end the process for, or run wrong.
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
	if need := c.threadgroupMemory(); need > c.d.limits.ThreadgroupMemory {
		return fmt.Errorf("%s: Dispatch with %d bytes of threadgroup memory: %d are possible",
			p.name, need, c.d.limits.ThreadgroupMemory)
	}
	return nil
}

// threadgroupMemory returns the bytes that a dispatch needs: those that the kernel declares, and those that were given
// since it was set. Whether it uses any that were given before, only Metal knows.
func (c *commands) threadgroupMemory() int {
	need := (c.pipeline.memory + 15) &^ 15
	for left := c.fresh; left != 0; left &= left - 1 {
		need += c.memory[bits.TrailingZeros32(left)]
	}
	return need
}

func sizeOf(s metal.Size) size {
	return size{width: uintptr(s.X), height: uintptr(s.Y), depth: uintptr(s.Z)}
}
