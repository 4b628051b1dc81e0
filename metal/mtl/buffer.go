package mtl

import (
	"fmt"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// buffer is an MTLBuffer.
type buffer struct {
	d      *Device
	buffer id // 0 when closed
	bytes  []byte
}

// bufferOptions are the options of every buffer: shared with the CPU, and without hazard tracking by Metal.
const bufferOptions = mtlResourceStorageModeShared | mtlResourceHazardTrackingModeUntracked

// NewBuffer implements [metal.Device].
func (d *Device) NewBuffer(length int) (metal.Buffer, error) {
	if err := d.checkBufferLength(length); err != nil {
		return nil, err
	}
	s, err := d.openScope()
	if err != nil {
		return nil, err
	}
	defer s.closeScope()
	b := id(s.send(d.device, selNewBufferWithLength, uintptr(length), bufferOptions))
	if b == 0 {
		return nil, fmt.Errorf("no Metal buffer of %d bytes: out of memory", length)
	}
	contents := s.send(b, selContents)
	if contents == 0 {
		s.releaseObject(b)
		return nil, fmt.Errorf("a Metal buffer of %d bytes is not shared with the CPU", length)
	}
	d.residency.addBuffer(s, b)
	return &buffer{d, b, unsafe.Slice((*byte)(cPointer(contents)), length)}, nil
}

// WrapBuffer implements [metal.Device].
func (d *Device) WrapBuffer(pages []byte) (metal.Buffer, error) {
	if err := d.checkBufferLength(len(pages)); err != nil {
		return nil, err
	}
	start, page := uintptr(unsafe.Pointer(&pages[0])), uintptr(d.limits.PageSize)
	if start%page != 0 || uintptr(len(pages))%page != 0 {
		return nil, fmt.Errorf("%d bytes at %#x are no whole pages of %d bytes: Metal can only copy them",
			len(pages), start, page)
	}
	s, err := d.openScope()
	if err != nil {
		return nil, err
	}
	defer s.closeScope()
	b := id(s.send(d.device, selNewBufferWithBytesNoCopy, start, uintptr(len(pages)), bufferOptions, 0))
	if b == 0 {
		return nil, fmt.Errorf("no Metal buffer of the %d bytes at %#x: the system does not share them",
			len(pages), start)
	}
	d.residency.addBuffer(s, b)
	return &buffer{d, b, pages}, nil
}

func (d *Device) checkBufferLength(length int) error {
	if length < 1 || length > d.limits.BufferLength {
		return fmt.Errorf("a Metal buffer has 1 to %d bytes, not %d", d.limits.BufferLength, length)
	}
	return nil
}

func (b *buffer) Bytes() []byte { return b.bytes }

// Close implements [metal.Buffer]. If a command buffer still uses the buffer, it is released after that has run; the
// memory of a wrapped buffer belongs to the caller.
func (b *buffer) Close() {
	d := b.d
	d.releaseWhenUnused(&b.buffer, func(s *scope, o id) {
		d.residency.removeBuffer(s, o)
		s.releaseObject(o)
	})
	b.bytes = nil
}

// releaseWhenUnused releases an object, once, when no command buffer can use it any more.
func (d *Device) releaseWhenUnused(o *id, release func(s *scope, o id)) {
	gone := *o
	if gone == 0 {
		return
	}
	*o = 0
	s := d.objc.openScope()
	defer s.closeScope()
	d.lifetime.releaseLater(s, func(s *scope) { release(s, gone) })
}
