//go:build linux && (amd64 || arm64)

package mtl

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// planted is the target of a planted fault: a device, and messages that bypass all checks of this package.
type planted struct {
	*scope
	f     *fake
	b     *bench
	queue id
}

// begun returns a command buffer with an encoder that has waited for the device's fence.
func (p *planted) begun() (commands, encoder id) {
	commands = id(p.send(p.queue, selCommandBuffer))
	encoder = id(p.send(commands, selComputeCommandEncoder, 1))
	p.send(encoder, selWaitForFence, uintptr(p.b.fence))
	return commands, encoder
}

// scale encodes everything that the kernel scale needs.
func (p *planted) scale(encoder id) {
	p.send(encoder, selSetComputePipelineState, uintptr(p.b.pipeline.(*pipeline).pipeline))
	p.send(encoder, selSetBuffer, uintptr(p.b.x.(*buffer).buffer), 0, 0)
	p.send(encoder, selSetBuffer, uintptr(p.b.out.(*buffer).buffer), 0, 1)
	p.send(encoder, selSetBuffer, uintptr(p.b.x.(*buffer).buffer), 0, 2)
}

// dispatch encodes a small dispatch.
func (p *planted) dispatch(encoder id) {
	p.sendSizes(encoder, selDispatchThreadgroups,
		size{width: 1, height: 1, depth: 1}, size{width: 32, height: 1, depth: 1})
}

// commit ends the encoder and commits.
func (p *planted) commit(commands, encoder id) {
	p.send(encoder, selEndEncoding)
	p.send(commands, selCommit)
}

// plants are faults that this package must not commit, each with the fault that the fake reports.
var plants = []struct {
	want string
	do   func(p *planted)
}{
	// Objects.
	{"-[MTLDevice release:]: unrecognized selector", func(p *planted) { p.raw(p.b.device, "release:") }},
	{"-[MTLBuffer commit]: unrecognized selector", func(p *planted) { p.send(p.b.x.(*buffer).buffer, selCommit) }},
	{"a selector that is not registered", func(p *planted) { callC(p.msgSend, []uintptr{uintptr(p.b.device), 12}) }},
	{"release is sent to nil", func(p *planted) { p.send(0, selRelease) }},
	{"release is sent to 0x123, which is no object", func(p *planted) { p.send(0x123, selRelease) }},
	{"release is sent to a released MTLFence", func(p *planted) {
		fence := id(p.send(p.b.device, selNewFence))
		p.send(fence, selRelease)
		p.send(fence, selRelease)
	}},
	{"setLanguageVersion: is sent to a MTLCompileOptions before init", func(p *planted) {
		p.send(id(p.send(p.classes[classCompileOptions], selAlloc)), selSetLanguageVersion, 1)
	}},
	{"unrecognized selector", func(p *planted) { // from a newer system
		p.f.without["setMathMode:"] = true
		p.send(p.make(classCompileOptions), selSetMathMode, 0)
	}},
	{"a large result through the wrong entry point", func(p *planted) {
		p.send(p.b.device, selMaxThreadsPerThreadgroup)
	}},

	// Pools.
	{"a MTLCommandBuffer is autoreleased without a pool", func(p *planted) {
		p.popAll()
		p.send(p.queue, selCommandBuffer)
	}},
	{"a NSString is autoreleased without a pool", func(p *planted) {
		p.popAll()
		p.send(p.b.device, selDeviceName)
	}},
	{"a pool is popped that is not the top one", func(p *planted) {
		below := callC(p.poolPush, nil)
		callC(p.poolPush, nil)
		callC(p.poolPop, []uintptr{below})
	}},
	{"setBuffer:offset:atIndex: is sent to a released MTLComputeCommandEncoder", func(p *planted) {
		inner := callC(p.poolPush, nil)
		_, encoder := p.begun()
		p.send(encoder, selEndEncoding)
		callC(p.poolPop, []uintptr{inner})
		p.send(encoder, selSetBuffer, uintptr(p.b.x.(*buffer).buffer), 0, 0)
	}},
	{"NSString is released once too often", func(p *planted) {
		inner := callC(p.poolPush, nil)
		p.send(p.string("x"), selRelease)
		callC(p.poolPop, []uintptr{inner})
	}},

	// Buffers.
	{"no whole pages", func(p *planted) {
		p.send(p.b.device, selNewBufferWithBytesNoCopy, 4096, fakePage, bufferOptions, 0)
	}},
	{"no whole pages", func(p *planted) {
		p.send(p.b.device, selNewBufferWithBytesNoCopy, fakePage, fakePage+4, bufferOptions, 0)
	}},
	{"the deallocator is no block", func(p *planted) {
		p.send(p.b.device, selNewBufferWithBytesNoCopy, fakePage, fakePage, bufferOptions, 1)
	}},
	{"a buffer of 0 bytes", func(p *planted) { p.send(p.b.device, selNewBufferWithLength, 0, bufferOptions) }},
	{"a buffer of 1073741825 bytes", func(p *planted) {
		p.send(p.b.device, selNewBufferWithLength, 1<<30+1, bufferOptions)
	}},
	{"the CPU does not share it", func(p *planted) { p.send(p.b.device, selNewBufferWithLength, 4, 0x20) }},

	// Compiling.
	{"instead of Metal 3.1", func(p *planted) {
		p.send(p.b.device, selNewLibraryWithSource,
			uintptr(p.string("scale")), uintptr(p.make(classCompileOptions)), p.errorWord())
	}},
	{"the compile options is nil", func(p *planted) {
		p.send(p.b.device, selNewLibraryWithSource, uintptr(p.string("scale")), 0, p.errorWord())
	}},
	{"there is no place for an error", func(p *planted) {
		p.send(p.b.device, selNewLibraryWithSource, uintptr(p.string("?")), uintptr(p.compileOptions()), 0)
	}},
	{"the function is a MTLFence instead of a MTLFunction", func(p *planted) {
		p.send(p.b.device, selNewComputePipelineState, uintptr(p.b.fence), p.errorWord())
	}},
	{"a function constant of type 7", func(p *planted) {
		p.send(p.make(classFunctionConstantValues), selSetConstantValue, uintptr(unsafe.Pointer(&p.err)), 7, 0)
	}},

	// Encoding.
	{"an encoder of dispatch type 0", func(p *planted) {
		p.send(id(p.send(id(p.send(p.queue, selCommandBuffer)), selComputeCommandEncoder, 0)), selEndEncoding)
	}},
	{"a second encoder", func(p *planted) {
		c, e := p.begun()
		p.send(e, selEndEncoding)
		p.send(id(p.send(c, selComputeCommandEncoder, 1)), selEndEncoding)
	}},
	{"setComputePipelineState: after endEncoding", func(p *planted) {
		_, e := p.begun()
		p.send(e, selEndEncoding)
		p.send(e, selSetComputePipelineState, uintptr(p.b.pipeline.(*pipeline).pipeline))
	}},
	{"endEncoding after endEncoding", func(p *planted) {
		_, e := p.begun()
		p.send(e, selEndEncoding)
		p.send(e, selEndEncoding)
	}},
	{"an encoder is released without endEncoding", func(p *planted) {
		inner := callC(p.poolPush, nil)
		p.begun()
		callC(p.poolPop, []uintptr{inner})
	}},
	{"a dispatch without a pipeline", func(p *planted) { _, e := p.begun(); p.dispatch(e); p.send(e, selEndEncoding) }},
	{"the pipeline is nil", func(p *planted) { p.encode(selSetComputePipelineState, 0) }},
	{"the pipeline is a MTLFence", func(p *planted) { p.encode(selSetComputePipelineState, uintptr(p.b.fence)) }},
	{"the buffer is nil", func(p *planted) { p.encode(selSetBuffer, 0, 0, 0) }},
	{"the buffer is a released MTLBuffer", func(p *planted) {
		gone := id(p.send(p.b.device, selNewBufferWithLength, 4, bufferOptions))
		p.release(gone)
		p.encode(selSetBuffer, uintptr(gone), 0, 0)
	}},
	{"a buffer of 256 bytes is bound from byte 256 on", func(p *planted) {
		p.encode(selSetBuffer, uintptr(p.b.x.(*buffer).buffer), 256, 0)
	}},
	{"a buffer of 256 bytes is bound from byte 2 on", func(p *planted) {
		p.encode(selSetBuffer, uintptr(p.b.x.(*buffer).buffer), 2, 0)
	}},
	{"no buffer is bound to index 7", func(p *planted) { p.encode(selSetBufferOffset, 0, 7) }},
	{"argument index 31", func(p *planted) { p.encode(selSetBuffer, uintptr(p.b.x.(*buffer).buffer), 0, 31) }},
	{"argument index 31", func(p *planted) { p.encode(selSetThreadgroupMemoryLength, 16, 31) }},
	{"24 bytes is no multiple of 16", func(p *planted) { p.encode(selSetThreadgroupMemoryLength, 24, 0) }},
	{"36864 bytes of threadgroup memory", func(p *planted) {
		_, e := p.begun()
		p.scale(e)
		p.send(e, selSetThreadgroupMemoryLength, 32768, 0)
		p.dispatch(e)
		p.send(e, selEndEncoding)
	}},
	{"36864 bytes of threadgroup memory", func(p *planted) { // half of it was set for an earlier kernel
		_, e := p.begun()
		p.scale(e)
		p.send(e, selSetThreadgroupMemoryLength, 16384, 0)
		p.dispatch(e)
		p.send(e, selSetComputePipelineState, uintptr(p.b.pipeline.(*pipeline).pipeline))
		p.send(e, selSetThreadgroupMemoryLength, 16384, 1)
		p.dispatch(e)
		p.send(e, selEndEncoding)
	}},
	{"setBuffers: 2 from 30 on", func(p *planted) { p.together(30, 2) }},
	{"setBuffers: 0 from 3 on", func(p *planted) { p.together(3, 0) }},
	{"the buffer is nil", func(p *planted) { p.together(3, 1) }},

	// Types of arguments.
	{"word 1 of the arguments of setBuffer:offset:atIndex: is 0x100 instead of a @", func(p *planted) {
		p.encode(selSetBuffer, 256, uintptr(p.b.x.(*buffer).buffer), 0)
	}},
	{"instead of a Q", func(p *planted) { p.encode(selSetThreadgroupMemoryLength, uintptr(p.b.fence), 0) }},
	{"instead of a Q", func(p *planted) { p.encode(selSetBufferOffset, uintptr(unsafe.Pointer(&p.err)), 0) }},
	{"instead of a ^v", func(p *planted) {
		p.send(p.b.device, selNewBufferWithBytesNoCopy, uintptr(p.b.fence), fakePage, bufferOptions, 0)
	}},
	{"instead of a :", func(p *planted) { p.send(p.b.device, selRespondsToSelector, 5) }},
	{"instead of a B", func(p *planted) { p.send(p.make(classCompileOptions), selSetFastMathEnabled, 2) }},

	{"threads: 512 are possible", func(p *planted) { p.sized(1, 513) }},
	{"a dispatch of {0 1 1} threadgroups", func(p *planted) { p.sized(0, 1) }},
	{"a barrier of scope 2", func(p *planted) { p.encode(selMemoryBarrierWithScope, 2) }},

	// Command buffers.
	{"commit before endEncoding", func(p *planted) {
		c, e := p.begun()
		p.send(c, selCommit)
		p.send(e, selEndEncoding)
	}},
	{"commit of a command buffer that is committed", func(p *planted) {
		c, e := p.begun()
		p.commit(c, e)
		p.send(c, selCommit)
	}},
	{"an encoder for a command buffer that is committed", func(p *planted) {
		c, e := p.begun()
		p.commit(c, e)
		p.send(id(p.send(c, selComputeCommandEncoder, 1)), selEndEncoding)
	}},
	{"waitUntilCompleted before commit", func(p *planted) {
		c, e := p.begun()
		p.send(c, selWaitUntilCompleted)
		p.send(e, selEndEncoding)
	}},

	{"a MTLBuffer is released while a command buffer uses it", func(p *planted) {
		gone, c, e := p.extra()
		p.commit(c, e)
		p.send(p.b.residency.set, selRemoveAllocation, uintptr(gone))
		p.release(gone)
	}},
	{"commit of a command buffer that uses a released MTLBuffer", func(p *planted) {
		gone, c, e := p.extra()
		p.b.residency.remove(p.scope, gone)
		p.release(gone)
		p.commit(c, e)
	}},

	// Residency.
	{"a MTLBuffer is released that a residency set has", func(p *planted) {
		gone, _, e := p.extra()
		p.send(e, selEndEncoding)
		p.release(gone)
	}},
	{"a buffer that the set does not have", func(p *planted) {
		p.send(p.b.residency.set, selRemoveAllocation, uintptr(p.b.x.(*buffer).buffer))
		p.send(p.b.residency.set, selRemoveAllocation, uintptr(p.b.x.(*buffer).buffer))
	}},
	{"uses a buffer that is not resident", func(p *planted) {
		p.send(p.b.residency.set, selRemoveAllocation, uintptr(p.b.x.(*buffer).buffer))
		p.send(p.b.residency.set, selCommit)
		c, e := p.begun()
		p.scale(e)
		p.dispatch(e)
		p.commit(c, e)
	}},

	// Fences.
	{"with no fence between", func(p *planted) { p.pair(true, false, p.b.fence) }},
	{"with no fence between", func(p *planted) { p.pair(false, true, p.b.fence) }},
	{"with no fence between", func(p *planted) { p.pair(true, true, id(p.send(p.b.device, selNewFence))) }},
	{"waitForFence after updateFence", func(p *planted) {
		_, e := p.begun()
		p.send(e, selUpdateFence, uintptr(p.b.fence))
		p.send(e, selWaitForFence, uintptr(p.b.fence))
		p.send(e, selEndEncoding)
	}},
	{"waitForFence after a dispatch", func(p *planted) {
		_, e := p.begun()
		p.scale(e)
		p.dispatch(e)
		p.send(e, selWaitForFence, uintptr(p.b.fence))
		p.send(e, selEndEncoding)
	}},
	{"a dispatch after updateFence", func(p *planted) {
		_, e := p.begun()
		p.scale(e)
		p.send(e, selUpdateFence, uintptr(p.b.fence))
		p.dispatch(e)
		p.send(e, selEndEncoding)
	}},
	{"the fence is a MTLCommandQueue", func(p *planted) { p.encode(selWaitForFence, uintptr(p.queue)) }},
}

// raw sends a message with a selector that is not in the table.
func (p *planted) raw(to id, name string) {
	p.f.mu.Lock()
	sel := p.f.registerName(name)
	p.f.mu.Unlock()
	callC(p.msgSend, []uintptr{uintptr(to), sel})
}

// popAll pops the pool that a scope keeps open.
func (p *planted) popAll() {
	callC(p.poolPop, []uintptr{p.pool.token})
}

// encode sends one message to an encoder.
func (p *planted) encode(sel selector, args ...uintptr) {
	_, e := p.begun()
	p.send(e, sel, args...)
	p.send(e, selEndEncoding)
}

// nowhere is an argument of setBuffers without buffers, in memory that does not move.
var nowhere [31]uintptr

// together binds n buffers that are nil.
func (p *planted) together(first, n uintptr) {
	address := uintptr(unsafe.Pointer(&nowhere))
	p.encode(selSetBuffers, address, address, first, n)
}

// extra returns a resident buffer, and a command buffer that uses it.
func (p *planted) extra() (made, commands, encoder id) {
	made = id(p.send(p.b.device, selNewBufferWithLength, 256, bufferOptions))
	p.b.residency.add(p.scope, made)
	p.b.residency.commit(p.scope)
	commands, encoder = p.begun()
	p.scale(encoder)
	p.send(encoder, selSetBuffer, uintptr(made), 0, 1)
	p.dispatch(encoder)
	return made, commands, encoder
}

// sized dispatches groups threadgroups of threads threads.
func (p *planted) sized(groups, threads uintptr) {
	_, e := p.begun()
	p.scale(e)
	p.sendSizes(e, selDispatchThreadgroups,
		size{width: groups, height: 1, depth: 1}, size{width: threads, height: 1, depth: 1})
	p.send(e, selEndEncoding)
}

// pair commits two command buffers that use the same buffers. The first may update the device's fence; the second may
// wait for the given fence.
func (p *planted) pair(update, wait bool, fence id) {
	first, e := p.begun()
	p.scale(e)
	p.dispatch(e)
	if update {
		p.send(e, selUpdateFence, uintptr(p.b.fence))
	}
	p.commit(first, e)

	second := id(p.send(p.queue, selCommandBuffer))
	e = id(p.send(second, selComputeCommandEncoder, 1))
	if wait {
		p.send(e, selWaitForFence, uintptr(fence))
	}
	p.scale(e)
	p.dispatch(e)
	p.commit(second, e)
	p.send(first, selWaitUntilCompleted)
	p.send(second, selWaitUntilCompleted)
}

// TestFakeFindsFaults: the fake reports each fault, and only that one.
func TestFakeFindsFaults(t *testing.T) {
	buildFake(t)
	for _, plant := range plants {
		t.Run(strings.ReplaceAll(plant.want, "/", " "), func(t *testing.T) {
			f := newFake(t, &goGPU{})
			b := newBench(t, f)
			require.Empty(t, f.takeFaults())
			p := &planted{b.objc.begin(), f, b, b.queue}
			b.residency.commit(p.scope)
			plant.do(p)
			faults := f.takeFaults()
			if assert.Len(t, faults, 1) {
				assert.Contains(t, faults[0], plant.want)
			}
			p.end()
			f.abandon()
		})
	}
}

// TestFakeAllows: the same calls without the fault are valid: a fence that is updated and waited for, a buffer that
// Metal tracks.
func TestFakeAllows(t *testing.T) {
	f := newFake(t, &goGPU{})
	b := newBench(t, f)
	p := &planted{b.objc.begin(), f, b, b.queue}
	defer p.end()
	b.residency.commit(p.scope)
	p.pair(true, true, b.fence)

	out := b.out.(*buffer).buffer
	b.out.(*buffer).buffer = id(p.send(b.device, selNewBufferWithLength, 256, 0)) // tracked
	x := b.x.(*buffer).buffer
	b.x.(*buffer).buffer = id(p.send(b.device, selNewBufferWithLength, 256, 0))
	for _, o := range []metal.Buffer{b.out, b.x} {
		b.residency.add(p.scope, o.(*buffer).buffer)
	}
	b.residency.commit(p.scope)
	p.pair(false, false, b.fence)
	for _, o := range []metal.Buffer{b.out, b.x} {
		b.residency.remove(p.scope, o.(*buffer).buffer)
	}
	p.release(b.out.(*buffer).buffer)
	p.release(b.x.(*buffer).buffer)
	b.out.(*buffer).buffer, b.x.(*buffer).buffer = out, x
}

// TestFakeCounts: leaked objects are reported, and so is a fault that no test expects.
func TestFakeCounts(t *testing.T) {
	f := newFake(t, &goGPU{})
	d := f.open(t)
	b, err := d.NewBuffer(4)
	require.NoError(t, err)
	assert.Equal(t, []string{"MTLBuffer with 1 references", "MTLCommandQueue with 1 references",
		"MTLDevice with 1 references", "MTLFence with 1 references", "MTLResidencySet with 1 references"}, f.left())
	s := d.objc.begin()
	assert.Len(t, f.left(), 6)
	assert.Contains(t, strings.Join(f.left(), "\n"), "an autorelease pool of thread")
	s.end()
	b.Close()
	assert.Len(t, f.left(), 4)
}
