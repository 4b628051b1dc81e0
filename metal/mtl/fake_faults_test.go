//go:build linux && (amd64 || arm64)

package mtl

import (
	"strings"
	"testing"

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
	p.send(encoder, selWaitForFence, uintptr(p.b.queues.now.fence))
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
	{"-[MTLBuffer commit]: unrecognized selector", func(p *planted) { p.send(p.b.x.(*buffer).buffer, selCommit) }},
	{"release is sent to a released MTLFence", func(p *planted) {
		fence := id(p.send(p.b.device, selNewFence))
		p.send(fence, selRelease)
		p.send(fence, selRelease)
	}},
	{"NSString is released once too often", func(p *planted) {
		inner := callC(p.poolPush, nil)
		p.send(p.nsString("x"), selRelease)
		callC(p.poolPop, []uintptr{inner})
	}},
	{"a NSString is autoreleased without a pool", func(p *planted) {
		callC(p.poolPop, []uintptr{p.pool.token})
		p.send(p.b.device, selDeviceName)
	}},
	{"a large result through the wrong entry point", func(p *planted) {
		p.send(p.b.device, selMaxThreadsPerThreadgroup)
	}},
	{"word 1 of the arguments of setBuffer:offset:atIndex: is 0x100 instead of a @", func(p *planted) {
		p.encode(selSetBuffer, 256, uintptr(p.b.x.(*buffer).buffer), 0)
	}},
	{"there is no place for an error", func(p *planted) {
		options, _ := p.newCompileOptions()
		p.send(p.b.device, selNewLibraryWithSource, uintptr(p.nsString("?")), uintptr(options), 0)
	}},
	{"instead of Metal 3.1", func(p *planted) {
		p.send(p.b.device, selNewLibraryWithSource,
			uintptr(p.nsString("scale")), uintptr(p.newObject(classCompileOptions)), p.errorWord())
	}},
	{"an encoder is released without endEncoding", func(p *planted) {
		inner := callC(p.poolPush, nil)
		p.begun()
		callC(p.poolPop, []uintptr{inner})
	}},
	{"commit before endEncoding", func(p *planted) {
		c, e := p.begun()
		p.send(c, selCommit)
		p.send(e, selEndEncoding)
	}},
	{"a MTLBuffer is released while a command buffer uses it", func(p *planted) {
		gone, c, e := p.extra()
		p.commit(c, e)
		p.send(p.b.residency.set, selRemoveAllocation, uintptr(gone))
		p.releaseObject(gone)
	}},
	{"a MTLBuffer is released that a residency set has", func(p *planted) {
		gone, _, e := p.extra()
		p.send(e, selEndEncoding)
		p.releaseObject(gone)
	}},
	{"uses a buffer that is not resident", func(p *planted) {
		p.send(p.b.residency.set, selRemoveAllocation, uintptr(p.b.x.(*buffer).buffer))
		p.send(p.b.residency.set, selCommit)
		c, e := p.begun()
		p.scale(e)
		p.dispatch(e)
		p.commit(c, e)
	}},
	{"with no fence between", func(p *planted) {
		for range 2 { // neither waits for the other
			c, e := p.begun()
			p.scale(e)
			p.dispatch(e)
			p.commit(c, e)
		}
	}},
}

// encode sends one message to an encoder.
func (p *planted) encode(sel selector, args ...uintptr) {
	_, e := p.begun()
	p.send(e, sel, args...)
	p.send(e, selEndEncoding)
}

// extra returns a resident buffer, and a command buffer that uses it.
func (p *planted) extra() (made, commands, encoder id) {
	made = id(p.send(p.b.device, selNewBufferWithLength, 256, bufferOptions))
	p.b.residency.addBuffer(p.scope, made)
	p.b.residency.commitChanges(p.scope)
	commands, encoder = p.begun()
	p.scale(encoder)
	p.send(encoder, selSetBuffer, uintptr(made), 0, 1)
	p.dispatch(encoder)
	return made, commands, encoder
}

// TestFakeFindsFaults: the fake reports each fault, and only that one.
func TestFakeFindsFaults(t *testing.T) {
	buildFake(t)
	for _, plant := range plants {
		t.Run(strings.ReplaceAll(plant.want, "/", " "), func(t *testing.T) {
			f := newFake(t, &goGPU{})
			b := newBench(t, f)
			require.Empty(t, f.takeFaults())
			p := &planted{b.objc.openScope(), f, b, b.queues.now.queue}
			b.residency.commitChanges(p.scope)
			plant.do(p)
			faults := f.takeFaults()
			if assert.Len(t, faults, 1) {
				assert.Contains(t, faults[0], plant.want)
			}
			p.closeScope()
			f.abandon()
		})
	}
}

// TestFakeCounts: leaked objects are reported, and so is a fault that no test expects.
func TestFakeCounts(t *testing.T) {
	f := newFake(t, &goGPU{})
	d := f.open(t)
	b, err := d.NewBuffer(4)
	require.NoError(t, err)
	assert.Equal(t, []string{"MTLBuffer with 1 references", "MTLCommandQueue with 1 references",
		"MTLDevice with 1 references", "MTLFence with 1 references", "MTLResidencySet with 1 references"}, f.left())
	s := d.objc.openScope()
	assert.Len(t, f.left(), 6)
	assert.Contains(t, strings.Join(f.left(), "\n"), "an autorelease pool of thread")
	s.closeScope()
	b.Close()
	assert.Len(t, f.left(), 4)
}
