// Package mtl is Apple's Metal, called from Go without cgo: a [metal.Device] that sends every message through
// objc_msgSend, with selectors looked up once. Only the loading of libraries depends on the operating system, so that
// its tests run the same code on Linux against an Objective-C runtime of their own.
//
// Buffers are shared with the CPU and untracked: Metal orders nothing by itself. Dispatches of a command buffer are
// ordered by [metal.Commands.Barrier], the command buffers of a queue by a fence that each waits for and updates.
package mtl

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// Options say where Metal is found. The zero value means the system's Metal.
type Options struct {
	Libraries []string // paths of dynamic libraries with the Objective-C runtime, Foundation, Metal and the C library
}

// Device is Apple's default GPU.
type Device struct {
	objc   *objc
	device id
	queues queues
	name   string
	limits metal.Limits
	most   size // maximum threads of a threadgroup along each axis
	closed atomic.Bool

	residency *residency
	lifetime  lifetime
}

// Open opens the system's default GPU. If there is none the error is [metal.ErrNoDevice].
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

// systemLibraries returns the paths of Metal on macOS. A program without windows finds its default device only if
// CoreGraphics is loaded.
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
	s := o.openScope()
	defer s.closeScope()
	d := &Device{objc: o, device: id(callC(o.createSystemDevice, nil))}
	if d.device == 0 {
		return nil, fmt.Errorf("%w: the system has no GPU that runs Metal", metal.ErrNoDevice)
	}
	d.name = s.goString(id(s.send(d.device, selDeviceName)))
	if !s.sendForBool(d.device, selSupportsFamily, mtlGPUFamilyApple7) {
		d.releaseObjects(s)
		return nil, fmt.Errorf("%w: %s", metal.ErrNoDevice, unsupportedReason(d.Name()))
	}
	var err error
	if d.queues.now, err = d.newQueue(s); err != nil {
		d.releaseObjects(s)
		return nil, fmt.Errorf("%w: %w", metal.ErrNoDevice, err)
	}
	d.residency = newResidency(s, d.device)
	d.residency.addQueue(s, d.queues.now.queue)
	d.most = s.sendForSize(d.device, selMaxThreadsPerThreadgroup)
	d.limits = metal.Limits{
		PageSize:          o.pageSize,
		BufferLength:      int(s.send(d.device, selMaxBufferLength)),
		Threads:           int(d.most.width),
		ThreadgroupMemory: int(s.send(d.device, selMaxThreadgroupMemoryLength)),
	}
	if l := d.limits; min(l.PageSize, l.BufferLength, l.Threads, l.ThreadgroupMemory) <= 0 {
		d.releaseObjects(s)
		return nil, fmt.Errorf("%w: %s has limits that make no sense: %+v", metal.ErrNoDevice, d.name, l)
	}
	return d, nil
}

// unsupportedReason returns the reason why the kernels do not run on a GPU outside the family Apple7, which began with
// M1 and A14. By Apple's Metal Feature Set Tables, SIMD-scoped matrix multiply operations exist from that family on,
// and not on Intel's and AMD's GPUs.
func unsupportedReason(name string) string {
	why := "it is older than the M1, or not Apple's"
	if strings.Contains(name, "Paravirtual") {
		why = "a virtual machine's GPU lacks much of what the machine beneath has"
	}
	return fmt.Sprintf("%s does not multiply matrices in simdgroups (simdgroup_matrix, GPU family Apple7): %s",
		name, why)
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
	s := d.objc.openScope()
	defer s.closeScope()
	d.releaseObjects(s)
	return nil
}

func (d *Device) releaseObjects(s *scope) {
	d.lifetime.releaseAll(s)
	if d.residency != nil {
		d.residency.releaseSet(s)
	}
	d.queues.now.release(s)
	s.releaseObject(d.device)
}

func (d *Device) openScope() (*scope, error) {
	if d.closed.Load() {
		return nil, metal.ErrClosed
	}
	return d.objc.openScope(), nil
}
