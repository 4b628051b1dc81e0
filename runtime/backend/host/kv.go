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
	teams  []team
	layers []layer
}

// layer holds the keys and values of one layer: *rows[uint16] (F16) or *rows[float32] (F32).
type layer interface {
	// store writes the key and value row [KVHeads·HeadSize] of a slot.
	store(slot int32, k, v []float32)
	// scores sets dst[g·scoreStride+j] = Σᵢ q[i,g]·K[j,i] for [cpu.Queries] queries and the visible slots j, in their order, where
	// the keys are those of one head that begins at column off of a row. What lies between is overwritten, and block too.
	scores(dst, block, q []float32, off int, see []backend.Span)
	// mix adds Σⱼ p[g·scoreStride+j]·V[j,i] to acc [cpu.Queries, Dh], by the order of the visible slots.
	mix(acc, p []float32, off int, see []backend.Span)
	// key and value are one element, for the reference.
	key(slot int32, column int) float32
	value(slot int32, column int) float32
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
	s := &kv{c: c, teams: teamsOf(c), layers: make([]layer, c.Layers)}
	width := c.KVHeads * c.HeadSize
	for i := range s.layers {
		switch c.Type {
		case gguf.F16:
			s.layers[i] = newRows(c.Slots, width, rowOps[uint16]{cpu.ToF16, cpu.ScoresF16, cpu.MixF16, gguf.F16ToF32})
		case gguf.F32:
			s.layers[i] = newRows(c.Slots, width, rowOps[float32]{toF32, cpu.ScoresF32, cpu.MixF32, func(v float32) float32 { return v }})
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

// rows is the layer over elements of one type. Values lie as rows [slots, width]; keys by blocks of slots, transposed, as
// [cpu.ScoresF16] takes them: [slots/16, width, 16].
type rows[E uint16 | float32] struct {
	rowOps[E]
	width int // elements of a row
	k, v  []E
}

// rowOps are the operations on elements of one type.
type rowOps[E uint16 | float32] struct {
	put    func(dst []E, src []float32)
	scored func(dst []float32, stride int, q []float32, k []E, step, blocks int)
	mixed  func(acc, p []float32, stride, n int, v []E, step int)
	wide   func(E) float32
}

func newRows[E uint16 | float32](slots, width int, ops rowOps[E]) *rows[E] {
	whole := (slots + cpu.KeyBlock - 1) / cpu.KeyBlock * cpu.KeyBlock
	return &rows[E]{rowOps: ops, width: width, k: make([]E, whole*width), v: make([]E, slots*width)}
}

func toF32(dst, src []float32) { copy(dst, src) }

// row returns the values of a slot.
func (r *rows[E]) row(slot int32) []E { return r.v[int(slot)*r.width : (int(slot)+1)*r.width] }

// column returns where the key of a slot begins in k; its elements follow each [cpu.KeyBlock] places.
func (r *rows[E]) column(slot int32) int {
	return int(slot)/cpu.KeyBlock*cpu.KeyBlock*r.width + int(slot)%cpu.KeyBlock
}

func (r *rows[E]) store(slot int32, k, v []float32) {
	row, at := r.row(slot), r.column(slot)
	r.put(row, k) // the key passes through the place of the value
	for i, e := range row {
		r.k[at+i*cpu.KeyBlock] = e
	}
	r.put(row, v)
}

func (r *rows[E]) key(slot int32, column int) float32 {
	return r.wide(r.k[r.column(slot)+column*cpu.KeyBlock])
}

func (r *rows[E]) value(slot int32, column int) float32 { return r.wide(r.row(slot)[column]) }

func (r *rows[E]) scores(dst, block, q []float32, off int, see []backend.Span) {
	step := cpu.KeyBlock * r.width
	for _, s := range see {
		n, lead := int(s.To-s.From), int(s.From)%cpu.KeyBlock
		keys := r.k[int(s.From)/cpu.KeyBlock*step+off*cpu.KeyBlock:]
		blocks := (lead + n + cpu.KeyBlock - 1) / cpu.KeyBlock
		if lead == 0 { // what the last block holds beyond s gives way to the next span
			r.scored(dst, scoreStride, q, keys, step, blocks)
		} else {
			r.scored(block, scoreStride, q, keys, step, blocks)
			for g := range cpu.Queries {
				copy(dst[g*scoreStride:][:n], block[g*scoreStride+lead:])
			}
		}
		dst = dst[n:]
	}
}

func (r *rows[E]) mix(acc, p []float32, off int, see []backend.Span) {
	for _, s := range see {
		n := int(s.To - s.From)
		r.mixed(acc, p, scoreStride, n, r.v[int(s.From)*r.width+off:], r.width)
		p = p[n:]
	}
}

func (r *rows[E]) copy(dst, src int32) {
	copy(r.row(dst), r.row(src))
	to, from := r.column(dst), r.column(src)
	for i := 0; i < r.width*cpu.KeyBlock; i += cpu.KeyBlock {
		r.k[to+i] = r.k[from+i]
	}
}

func (r *rows[E]) swap(a, b int32) {
	x, y := r.row(a), r.row(b)
	for i := range x {
		x[i], y[i] = y[i], x[i]
	}
	i, j := r.column(a), r.column(b)
	for range r.width {
		r.k[i], r.k[j] = r.k[j], r.k[i]
		i, j = i+cpu.KeyBlock, j+cpu.KeyBlock
	}
}
