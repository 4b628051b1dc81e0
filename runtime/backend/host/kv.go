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
	// scores sets dst[g·scoreStride+j] = Σᵢ q[i,g]·K[j,i] for [cpu.Queries] queries and the visible slots j, in their order, with the
	// keys of one head. What lies between is overwritten, and block too.
	scores(dst, block, q []float32, head int, see []backend.Span)
	// mix adds Σⱼ p[g·scoreStride+j]·V[j,i] to acc [cpu.Queries, Dh], by the order of the visible slots.
	mix(acc, p []float32, head int, see []backend.Span)
	// key and value are element i of a head, for the reference.
	key(slot int32, head, i int) float32
	value(slot int32, head, i int) float32
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
	for i := range s.layers {
		switch c.Type {
		case gguf.F16:
			s.layers[i] = newRows(c, rowOps[uint16]{cpu.ToF16, cpu.ScoresF16, cpu.MixF16, gguf.F16ToF32})
		case gguf.F32:
			s.layers[i] = newRows(c, rowOps[float32]{toF32, cpu.ScoresF32, cpu.MixF32, func(v float32) float32 { return v }})
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

// rows is the layer over elements of one type. Each head has its keys and values in one run of memory, which attention reads from first to
// last: values as rows [KVHeads, slots, Dh], keys by blocks of slots, transposed, as [cpu.ScoresF16] takes them: [KVHeads, slots/16, Dh, 16].
type rows[E uint16 | float32] struct {
	rowOps[E]
	heads, size int // Dh
	k, v        []E
	run         int // elements of a head, of either
}

// rowOps are the operations on elements of one type.
type rowOps[E uint16 | float32] struct {
	put    func(dst []E, src []float32)
	scored func(dst []float32, stride int, q []float32, k []E, step, blocks int)
	mixed  func(acc, p []float32, stride, n int, v []E, step int)
	wide   func(E) float32
}

func newRows[E uint16 | float32](c backend.KVConfig, ops rowOps[E]) *rows[E] {
	whole := (c.Slots + cpu.KeyBlock - 1) / cpu.KeyBlock * cpu.KeyBlock
	r := &rows[E]{rowOps: ops, heads: c.KVHeads, size: c.HeadSize, run: whole * c.HeadSize}
	r.k, r.v = make([]E, c.KVHeads*r.run), make([]E, c.KVHeads*r.run)
	return r
}

func toF32(dst, src []float32) { copy(dst, src) }

// values returns the values of a head in a slot.
func (r *rows[E]) values(slot int32, head int) []E {
	at := head*r.run + int(slot)*r.size
	return r.v[at : at+r.size]
}

// column returns where the key of a head in a slot begins in k; its elements follow each [cpu.KeyBlock] places.
func (r *rows[E]) column(slot int32, head int) int {
	return head*r.run + int(slot)/cpu.KeyBlock*cpu.KeyBlock*r.size + int(slot)%cpu.KeyBlock
}

func (r *rows[E]) store(slot int32, k, v []float32) {
	for h := range r.heads {
		row, at := r.values(slot, h), r.column(slot, h)
		r.put(row, k[h*r.size:(h+1)*r.size]) // the key passes through the place of the value
		for i, e := range row {
			r.k[at+i*cpu.KeyBlock] = e
		}
		r.put(row, v[h*r.size:(h+1)*r.size])
	}
}

func (r *rows[E]) key(slot int32, head, i int) float32 {
	return r.wide(r.k[r.column(slot, head)+i*cpu.KeyBlock])
}

func (r *rows[E]) value(slot int32, head, i int) float32 { return r.wide(r.values(slot, head)[i]) }

func (r *rows[E]) scores(dst, block, q []float32, head int, see []backend.Span) {
	step := cpu.KeyBlock * r.size
	for _, s := range see {
		n, lead := int(s.To-s.From), int(s.From)%cpu.KeyBlock
		keys := r.k[head*r.run+int(s.From)/cpu.KeyBlock*step:]
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

func (r *rows[E]) mix(acc, p []float32, head int, see []backend.Span) {
	for _, s := range see {
		n := int(s.To - s.From)
		r.mixed(acc, p, scoreStride, n, r.v[head*r.run+int(s.From)*r.size:], r.size)
		p = p[n:]
	}
}

func (r *rows[E]) copy(dst, src int32) {
	for h := range r.heads {
		copy(r.values(dst, h), r.values(src, h))
		to, from := r.column(dst, h), r.column(src, h)
		for i := 0; i < r.size*cpu.KeyBlock; i += cpu.KeyBlock {
			r.k[to+i] = r.k[from+i]
		}
	}
}

func (r *rows[E]) swap(a, b int32) {
	for h := range r.heads {
		x, y := r.values(a, h), r.values(b, h)
		for i := range x {
			x[i], y[i] = y[i], x[i]
		}
		i, j := r.column(a, h), r.column(b, h)
		for range r.size {
			r.k[i], r.k[j] = r.k[j], r.k[i]
			i, j = i+cpu.KeyBlock, j+cpu.KeyBlock
		}
	}
}
