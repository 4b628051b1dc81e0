package host

import (
	"fmt"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// kv is the KV store in memory. The operating system gives pages of it when slots are first written.
type kv struct {
	c      backend.KVConfig
	layers []layer
}

// layer holds the keys and values of one layer. It is one of *rows[uint16] (F16), *rows[float32] (F32) and exactRows.
type layer interface {
	// store writes the key and value row [KVHeads·HeadSize] of a slot.
	store(slot int32, k, v []float32)
	// scores sets dst[i] = q·K for the i-th visible slot, where q and the keys are those of one head that begins at
	// column off of a row.
	scores(dst, q []float32, off int, see []backend.Span)
	// mix sets a = Σ p[i]·V over the visible slots, in their order.
	mix(a, p []float32, off int, see []backend.Span)
	copy(dst, src int32)
	swap(a, b int32)
}

// NewKV implements [backend.Device].
func (d *Device) NewKV(c backend.KVConfig) (backend.KV, error) {
	switch {
	case c.Layers <= 0 || c.Slots <= 0 || c.KVHeads <= 0:
		return nil, fmt.Errorf("kv: %d layers, %d slots, %d heads: all must be positive", c.Layers, c.Slots, c.KVHeads)
	case c.HeadSize <= 0 || c.HeadSize%2 != 0:
		return nil, fmt.Errorf("kv: head size %d is not even and positive", c.HeadSize)
	case c.Heads <= 0 || c.Heads%c.KVHeads != 0:
		return nil, fmt.Errorf("kv: %d query heads are no multiple of %d key and value heads", c.Heads, c.KVHeads)
	}
	s := &kv{c: c, layers: make([]layer, c.Layers)}
	width := c.KVHeads * c.HeadSize
	for i := range s.layers {
		switch c.Type {
		case gguf.F16:
			s.layers[i] = newRows(c.Slots, width, cpu.ToF16, cpu.DotsF16, cpu.AxpysF16)
		case gguf.F32:
			r := newRows(c.Slots, width, toF32, cpu.DotsF32, cpu.AxpysF32)
			s.layers[i] = r
			if d.exact {
				s.layers[i] = exactRows{r}
			}
		default:
			return nil, fmt.Errorf("kv: type %v; F16 or F32 is possible", c.Type)
		}
	}
	return s, nil
}

// Config implements [backend.KV].
func (s *kv) Config() backend.KVConfig { return s.c }

// Copy implements [backend.KV].
func (s *kv) Copy(dst, src int32) {
	for _, l := range s.layers {
		l.copy(dst, src)
	}
}

// Swap implements [backend.KV].
func (s *kv) Swap(a, b int32) {
	for _, l := range s.layers {
		l.swap(a, b)
	}
}

// rows is the layer over elements of one type and the three operations on them.
type rows[E uint16 | float32] struct {
	width int // elements of a row
	k, v  []E // [Slots, width]
	put   func(dst []E, src []float32)
	dots  func(dst, x []float32, k []E, stride int)
	axpys func(acc, p []float32, v []E, stride int)
}

func newRows[E uint16 | float32](slots, width int, put func([]E, []float32), dots func(dst, x []float32, k []E, stride int), axpys func(acc, p []float32, v []E, stride int)) *rows[E] {
	return &rows[E]{width: width, k: make([]E, slots*width), v: make([]E, slots*width), put: put, dots: dots, axpys: axpys}
}

func toF32(dst, src []float32) { copy(dst, src) }

func (r *rows[E]) at(slot int32) (lo, hi int) { return int(slot) * r.width, (int(slot) + 1) * r.width }

func (r *rows[E]) store(slot int32, k, v []float32) {
	lo, hi := r.at(slot)
	r.put(r.k[lo:hi], k)
	r.put(r.v[lo:hi], v)
}

func (r *rows[E]) scores(dst, q []float32, off int, see []backend.Span) {
	for _, s := range see {
		n := int(s.To - s.From)
		r.dots(dst[:n], q, r.k[int(s.From)*r.width+off:], r.width)
		dst = dst[n:]
	}
}

func (r *rows[E]) mix(a, p []float32, off int, see []backend.Span) {
	clear(a)
	for _, s := range see {
		n := int(s.To - s.From)
		r.axpys(a, p[:n], r.v[int(s.From)*r.width+off:], r.width)
		p = p[n:]
	}
}

func (r *rows[E]) copy(dst, src int32) {
	to, _ := r.at(dst)
	lo, hi := r.at(src)
	copy(r.k[to:], r.k[lo:hi])
	copy(r.v[to:], r.v[lo:hi])
}

func (r *rows[E]) swap(a, b int32) {
	i, end := r.at(a)
	j, _ := r.at(b)
	for ; i < end; i, j = i+1, j+1 {
		r.k[i], r.k[j] = r.k[j], r.k[i]
		r.v[i], r.v[j] = r.v[j], r.v[i]
	}
}
