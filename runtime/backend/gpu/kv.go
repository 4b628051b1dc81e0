package gpu

import (
	"fmt"
	"math"
	"runtime"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// kv is a KV store: one buffer per layer, with keys [KVHeads, Slots, room] and then values of the same shape. A head is
// padded with zeros to room elements, a multiple of 8.
type kv struct {
	d      *Device
	c      backend.KVConfig
	room   int
	plan   attendPlan
	rowLen int            // bytes of one head in one slot
	layers []metal.Buffer // one per layer
	states *states        // of recurrent layers; nil if there are none
}

// memory holds the buffers of a store.
type memory struct {
	buffers []metal.Buffer
	states  *stateMemory
}

func (m *memory) closeBuffers() {
	for _, b := range m.buffers {
		b.Close()
	}
	if m.states != nil {
		m.states.closeBuffers()
	}
}

// NewKV implements [backend.Device]. The memory is given back when the store is no longer
// referenced, or with the device.
func (d *Device) NewKV(c backend.KVConfig) (backend.KV, error) {
	switch {
	case c.Layers <= 0 || c.Slots <= 0 || c.KVHeads <= 0:
		return nil, fmt.Errorf("kv: %d layers, %d slots, %d heads: all must be positive", c.Layers, c.Slots, c.KVHeads)
	case c.HeadSize <= 0 || c.HeadSize%2 != 0:
		return nil, fmt.Errorf("kv: head size %d is not even and positive", c.HeadSize)
	case c.RotatedSize()%2 != 0 || c.RotatedSize() > c.HeadSize:
		return nil, fmt.Errorf("kv: %d rotated elements of a head of %d: an even number, at most all, is possible",
			c.Rotated, c.HeadSize)
	case c.Heads <= 0 || c.Heads%c.KVHeads != 0:
		return nil, fmt.Errorf("kv: %d query heads are no multiple of %d key and value heads", c.Heads, c.KVHeads)
	case c.Type != gguf.F16 && c.Type != gguf.F32:
		return nil, fmt.Errorf("kv: type %v; F16 or F32 is possible", c.Type)
	}
	_, size := c.Type.Block()
	s := &kv{d: d, c: c, room: ceilDiv(c.HeadSize, 8) * 8}
	s.rowLen = s.room * size
	if s.room > maxHead {
		return nil, fmt.Errorf("kv: head size %d; the kernels take at most %d", c.HeadSize, maxHead)
	}
	s.plan = planAttend(c.Heads/c.KVHeads, s.room)
	if c.Slots > d.limits.BufferLength/(2*c.KVHeads*s.rowLen) {
		return nil, fmt.Errorf("kv: %d slots do not fit into a buffer of the device", c.Slots)
	}
	d.closeReleasedMemory()
	d.stores[storeKey{c.Type == gguf.F32, s.plan.heads, s.plan.room}] = true
	d.preparePipelines()
	m := new(memory)
	for range c.Layers {
		b, err := d.metal.NewBuffer(2 * c.KVHeads * c.Slots * s.rowLen)
		if err != nil {
			m.closeBuffers()
			return nil, err
		}
		if s.room > c.HeadSize {
			clear(b.Bytes())
		}
		m.buffers = append(m.buffers, b)
	}
	if s.states = newStates(c); s.states != nil {
		m.states = s.states.memory
	}
	s.layers, d.alive[m] = m.buffers, true
	runtime.AddCleanup(s, d.releaseMemory, m)
	return s, nil
}

// releaseMemory queues the memory of a KV store that is no longer referenced. The goroutine that uses the device closes
// it later.
func (d *Device) releaseMemory(m *memory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = append(d.dead, m)
}

func (d *Device) closeReleasedMemory() {
	d.waitForPasses(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.dead {
		if d.alive[m] {
			m.closeBuffers()
			delete(d.alive, m)
		}
	}
	d.dead = nil
}

func (s *kv) Config() backend.KVConfig { return s.c }

// Bytes implements [backend.KV]. The memory of slots is allocated at the beginning: the kernels address a slot by its
// number. That of recurrent states grows.
func (s *kv) Bytes() int64 {
	c := s.c
	c.Delta = backend.DeltaConfig{}
	if s.states == nil {
		return c.Bytes()
	}
	return c.Bytes() + s.states.bytes.Load()
}

// forEachHead waits until no pass is in flight, and then calls f with the bytes of the slots a and b, for the keys and
// values of each head in each layer.
func (s *kv) forEachHead(a, b int32, f func(a, b []byte)) {
	s.d.waitForPasses(nil)
	for _, l := range s.layers {
		all := l.Bytes()
		for h := range 2 * s.c.KVHeads {
			at := func(slot int32) []byte {
				i := (h*s.c.Slots + int(slot)) * s.rowLen
				return all[i : i+s.rowLen]
			}
			f(at(a), at(b))
		}
	}
}

func (s *kv) Copy(dst, src int32) {
	s.forEachHead(dst, src, func(a, b []byte) { copy(a, b) })
	if s.states != nil {
		s.states.Copy(dst, src)
	}
}

func (s *kv) Swap(a, b int32) {
	s.forEachHead(a, b, func(a, b []byte) {
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	})
	if s.states != nil {
		s.states.Swap(a, b)
	}
}

// forEachSlot calls f with the bytes of each head of a layer's slots [0, n), and with its part of b: see
// [backend.KV].Read.
func (s *kv) forEachSlot(layer, n int, b []byte, f func(head, part []byte)) {
	s.d.waitForPasses(nil)
	all, size := s.layers[layer].Bytes(), s.rowLen/s.room*s.c.HeadSize
	for slot := range n {
		for h := range 2 * s.c.KVHeads {
			at := (h*s.c.Slots + slot) * s.rowLen
			f(all[at:at+size], b[:size])
			b = b[size:]
		}
	}
}

func (s *kv) Read(layer, n int, b []byte) {
	s.forEachSlot(layer, n, b, func(head, part []byte) { copy(part, head) })
}

func (s *kv) Write(layer, n int, b []byte) {
	s.forEachSlot(layer, n, b, func(head, part []byte) { copy(head, part) })
}

// queryHeads returns the number of heads of q, with gates.
func (s *kv) queryHeads() int {
	if s.c.Gated {
		return 2 * s.c.Heads
	}
	return s.c.Heads
}

func (s *kv) attentionScale() float32 { return float32(1 / math.Sqrt(float64(s.c.HeadSize))) }

func sumInts(n []int) (total int) {
	for _, v := range n {
		total += v
	}
	return total
}
