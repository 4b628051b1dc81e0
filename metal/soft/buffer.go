package soft

import (
	"fmt"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/metal"
)

// maxBufferLength limits buffers so that the shadow of a buffer, twelve bytes for each of its bytes, fits into the
// address space.
const maxBufferLength = 64 << 30

// buffer is memory for kernels. refs counts its owner and the command buffers that use it: the last release frees it.
type buffer struct {
	device  *Device
	bytes   []byte
	memory  pages // empty if the bytes are the caller's
	wrapped bool
	closed  bool
	refs    int
	shadow  *shadow // in Check
}

// NewBuffer implements metal.Device.
func (d *Device) NewBuffer(length int) (metal.Buffer, error) {
	if length < 1 || length > maxBufferLength {
		return nil, fmt.Errorf("buffer of %d bytes: want 1 to %d", length, maxBufferLength)
	}
	m, err := mapPages(length)
	if err != nil {
		return nil, err
	}
	b, err := d.addBuffer(&buffer{device: d, bytes: m.used, memory: m})
	if err != nil {
		m.unmapPages()
		return nil, err
	}
	if d.options.PoisonBuffers {
		if err := b.fillPoison(); err != nil {
			b.Close()
			return nil, err
		}
	}
	return b, nil
}

// WrapBuffer implements metal.Device. In Check, a write of a kernel to the memory is a fault. In other variants it may
// end the process if the memory is mapped read-only.
func (d *Device) WrapBuffer(memory []byte) (metal.Buffer, error) {
	page := d.options.PageSize
	if len(memory) == 0 || len(memory)%page != 0 || addressOf(memory)%uint64(page) != 0 {
		return nil, fmt.Errorf("buffer around %d bytes at %#x: want whole pages of %d",
			len(memory), addressOf(memory), page)
	}
	return d.addBuffer(&buffer{device: d, bytes: memory, wrapped: true})
}

func (d *Device) addBuffer(b *buffer) (*buffer, error) {
	if d.options.Variant == Check {
		var err error
		if b.shadow, err = newShadow(len(b.bytes), b.wrapped); err != nil {
			return nil, err
		}
	}
	b.refs = 1
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		b.shadow.freePages()
		return nil, metal.ErrClosed
	}
	d.buffers[b] = true
	return b, nil
}

// Bytes implements metal.Buffer.
func (b *buffer) Bytes() []byte { return b.bytes }

// Close implements metal.Buffer. Command buffers that use the buffer may still run.
func (b *buffer) Close() {
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.releaseReference()
	}
}

// releaseReference requires the device's mutex.
func (b *buffer) releaseReference() {
	if b.refs--; b.refs == 0 {
		delete(b.device.buffers, b)
		b.freePages()
	}
}

func (b *buffer) freePages() {
	b.memory.unmapPages()
	b.shadow.freePages()
	b.bytes = nil
}

// pages is memory outside Go's heap, for buffers and all other memory that the runtime accesses.
type pages struct {
	all  []byte // as it was mapped
	used []byte // the requested part
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
