// Package mtl is Apple's Metal, called from Go without cgo: a [metal.Device] whose every message goes through
// objc_msgSend with selectors looked up once. Nothing in it but the loading of libraries depends on the system it is
// built for, so that its tests run the same code on Linux against an Objective-C runtime of their own.
//
// Buffers are shared with the CPU and untracked: Metal orders nothing by itself. Dispatches of a command buffer are
// ordered by [metal.Commands.Barrier], the command buffers of the device by a fence that each waits for and updates.
package mtl

import (
	"cmp"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// Options say where Metal is. The zero value means the system's.
type Options struct {
	Libraries []string // paths of dynamic libraries with the Objective-C runtime, Foundation, Metal and the C library
}

// Device is Apple's default GPU.
type Device struct {
	objc   *objc
	device id
	queue  id
	fence  id // orders the command buffers
	name   string
	limits metal.Limits
	most   size // threads of a threadgroup along each axis
	closed atomic.Bool
}

// Open opens the system's default GPU. Where there is none the error is [metal.ErrNoDevice].
func Open(o Options) (*Device, error) {
	paths := o.Libraries
	if len(paths) == 0 {
		paths = systemLibraries()
	}
	if !foreign || len(paths) == 0 {
		return nil, fmt.Errorf("%w: Metal is a part of macOS, and this is %s/%s",
			metal.ErrNoDevice, runtime.GOOS, runtime.GOARCH)
	}
	runtimeOf, err := openObjC(paths)
	if err != nil {
		return nil, fmt.Errorf("%w: load Metal: %w", metal.ErrNoDevice, err)
	}
	return newDevice(runtimeOf)
}

// systemLibraries returns where macOS keeps Metal. A program without windows finds its default device only with
// CoreGraphics loaded.
func systemLibraries() []string {
	if runtime.GOOS != "darwin" {
		return nil
	}
	return []string{
		"/usr/lib/libSystem.B.dylib",
		"/usr/lib/libobjc.A.dylib",
		"/System/Library/Frameworks/Foundation.framework/Foundation",
		"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
		"/System/Library/Frameworks/Metal.framework/Metal",
	}
}

func newDevice(o *objc) (*Device, error) {
	s := o.begin()
	defer s.end()
	d := &Device{objc: o, device: id(callC(o.createSystemDevice, nil))}
	if d.device == 0 {
		return nil, fmt.Errorf("%w: the system has no GPU that runs Metal", metal.ErrNoDevice)
	}
	d.queue = id(s.send(d.device, selNewCommandQueue))
	d.fence = id(s.send(d.device, selNewFence))
	if d.queue == 0 || d.fence == 0 {
		d.release(s)
		return nil, fmt.Errorf("%w: the GPU gives no command queue", metal.ErrNoDevice)
	}
	d.name = s.text(id(s.send(d.device, selDeviceName)))
	d.most = s.size(d.device, selMaxThreadsPerThreadgroup)
	d.limits = metal.Limits{
		PageSize:          o.pageSize,
		BufferLength:      int(s.send(d.device, selMaxBufferLength)),
		Threads:           int(d.most.width),
		ThreadgroupMemory: int(s.send(d.device, selMaxThreadgroupMemoryLength)),
	}
	if l := d.limits; min(l.PageSize, l.BufferLength, l.Threads, l.ThreadgroupMemory) <= 0 {
		d.release(s)
		return nil, fmt.Errorf("%w: %s has limits that make no sense: %+v", metal.ErrNoDevice, d.name, l)
	}
	return d, nil
}

// Name implements [metal.Device].
func (d *Device) Name() string { return cmp.Or(d.name, "a GPU without a name") }

// Limits implements [metal.Device].
func (d *Device) Limits() metal.Limits { return d.limits }

// Close implements [metal.Device].
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	s := d.objc.begin()
	defer s.end()
	d.release(s)
	return nil
}

func (d *Device) release(s *scope) {
	s.release(d.fence)
	s.release(d.queue)
	s.release(d.device)
}

// scope begins a stretch of messages to an open device.
func (d *Device) scope() (*scope, error) {
	if d.closed.Load() {
		return nil, metal.ErrClosed
	}
	return d.objc.begin(), nil
}
