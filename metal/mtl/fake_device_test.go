//go:build linux && (amd64 || arm64)

package mtl

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// fakePage is the page size of the fake's system: that of Apple's processors.
const fakePage = 16384

// fakeLimits are the limits that a device and its pipelines report.
type fakeLimits struct {
	buffer, memory       int
	most                 size
	threads, width, uses int // of a pipeline; uses is static threadgroup memory
}

// fakeBuffer is the state of an MTLBuffer.
type fakeBuffer struct {
	gpu     metal.Buffer
	wrapped bool // read-only for kernels
	tracked bool
}

// limitsOf returns the limits of the device and of a pipeline, if there is one.
func (f *fake) limitsOf(p metal.Pipeline) fakeLimits {
	g := f.gpu.Limits()
	l := fakeLimits{
		buffer: g.BufferLength, memory: g.ThreadgroupMemory, most: size{width: 1024, height: 1024, depth: 1024},
	}
	if p != nil {
		l.threads, l.width, l.uses = p.Threads(), p.SIMDWidth(), p.ThreadgroupMemory()
	}
	if f.limits != nil {
		f.limits(&l)
	}
	return l
}

func fakeDeviceMethods() map[string]map[string]method {
	return map[string]map[string]method{
		"MTLDevice": {
			"name": func(f *fake, self *object, c *fakeCall) {
				c.value = f.autorelease(f.newString(cmp.Or(f.name, "Fake of "+f.gpu.Name()))).address
			},
			"maxBufferLength": func(f *fake, self *object, c *fakeCall) {
				c.value = uintptr(f.limitsOf(nil).buffer)
			},
			"maxThreadgroupMemoryLength": func(f *fake, self *object, c *fakeCall) {
				c.value = uintptr(f.limitsOf(nil).memory)
			},
			"maxThreadsPerThreadgroup": func(f *fake, self *object, c *fakeCall) {
				c.returnSize(f, f.limitsOf(nil).most)
			},
			"newCommandQueue": func(f *fake, self *object, c *fakeCall) {
				c.value = f.newObject("MTLCommandQueue", nil).address
			},
			"supportsFamily:": func(f *fake, self *object, c *fakeCall) {
				c.value = 0xabcdef00
				if slices.Contains(f.families, c.arg(0)) {
					c.value++
				}
			},
			"newResidencySetWithDescriptor:error:": newResidencySet,
			"newFence": func(f *fake, self *object, c *fakeCall) {
				c.value = f.newObject("MTLFence", nil).address
			},
			"newLibraryWithSource:options:error:":        newLibrary,
			"newComputePipelineStateWithFunction:error:": newPipelineState,
			"newBufferWithLength:options:": func(f *fake, self *object, c *fakeCall) {
				if f.checkOptions(c.arg(1)) {
					b, err := f.gpu.NewBuffer(int(c.arg(0)))
					c.value = f.newBuffer(b, err, &fakeBuffer{tracked: c.arg(1)&0x100 == 0})
				}
			},
			"newBufferWithBytesNoCopy:length:options:deallocator:": func(f *fake, self *object, c *fakeCall) {
				start, length := c.arg(0), int(c.arg(1))
				if c.arg(3) != 0 {
					f.fault("newBufferWithBytesNoCopy: the deallocator is no block")
					return
				}
				if f.checkOptions(c.arg(2)) {
					b, err := f.gpu.WrapBuffer(unsafe.Slice((*byte)(cPointer(start)), length))
					c.value = f.newBuffer(b, err, &fakeBuffer{wrapped: true, tracked: c.arg(2)&0x100 == 0})
				}
			},
		},
		"MTLBuffer": {"contents": func(f *fake, self *object, c *fakeCall) {
			c.value = uintptr(unsafe.Pointer(&self.value.(*fakeBuffer).gpu.Bytes()[0]))
		}},
	}
}

// checkOptions reports whether the CPU shares a buffer of these options.
func (f *fake) checkOptions(options uintptr) bool {
	if options&^0x100 != 0 {
		f.fault("buffer options %#x: the CPU does not share it", options)
		return false
	}
	return true
}

func (f *fake) newBuffer(b metal.Buffer, err error, value *fakeBuffer) uintptr {
	if err != nil {
		f.fault("a buffer: %v", err)
		return 0
	}
	value.gpu = b
	o := f.newObject("MTLBuffer", value)
	o.dealloc = b.Close
	return o.address
}
