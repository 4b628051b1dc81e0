package host

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/kernels/cpu/vector"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// kv is the KV store in memory. It allocates memory for [backend.KVChunk] slots at a time, when the first of them is
// used.
type kv struct {
	c             backend.KVConfig
	groups        []headGroup
	layers        []layer
	chunk         int             // slots of a chunk
	taken         []bool          // by chunk
	slots         atomic.Int64    // of the allocated chunks
	allocateChunk func(chunk int) // allocates a chunk in every layer
	states        *states         // of recurrent layers; nil if there are none
}

// layer holds the keys and values of one layer: *layerOf[uint16] (F16) or *layerOf[float32] (F32).
type layer interface {
	// storeRow writes the key and value row [KVHeads·HeadSize] of a slot.
	storeRow(slot int32, k, v []float32)
	// computeScores sets dst[g·scoreStride+j] = Σᵢ q[i,g]·K[j,i] for the first queries of [vector.Queries] and the
	// visible slots j, in their order, with the keys of one head. It overwrites the rest of dst, and block.
	computeScores(dst, block, q []float32, queries, head int, see []backend.Span)
	// mixValues adds Σⱼ p[g·scoreStride+j]·V[j,i] to acc [vector.Queries, Dh] for the first queries, in the order of
	// the visible slots.
	mixValues(acc, p []float32, queries, head int, see []backend.Span)
	// keyElement and valueElement are element i of a head, for the reference.
	keyElement(slot int32, head, i int) float32
	valueElement(slot int32, head, i int) float32
	copySlot(dst, src int32)
	swapSlots(a, b int32)
	// readSlots and writeSlots are those of [backend.KV] for the layer.
	readSlots(n int, b []byte)
	writeSlots(n int, b []byte)
}

// NewKV implements [backend.Device].
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
	}
	s := &kv{c: c, groups: headGroups(c), layers: make([]layer, c.Layers), states: newStates(c, d.ops.delta)}
	s.chunk = min(backend.KVChunk, keyBlockCount(c.Slots)*vector.KeyBlock)
	s.taken = make([]bool, (c.Slots+s.chunk-1)/s.chunk)
	switch c.Type {
	case gguf.F16:
		s.allocateChunk = newLayers(s, elemOps[uint16]{
			put: vector.ToF16, scored: vector.ScoresF16, mixed: vector.MixF16,
			scoredPair: vector.PairScoresF16, mixedPair: vector.PairMixF16, wide: gguf.F16ToF32,
		})
	case gguf.F32:
		same := func(v float32) float32 { return v }
		s.allocateChunk = newLayers(s, elemOps[float32]{
			put: toF32, scored: vector.ScoresF32, mixed: vector.MixF32,
			scoredPair: vector.ScoresF32, mixedPair: vector.PairMixF32, wide: same,
		})
	default:
		return nil, fmt.Errorf("kv: type %v; F16 or F32 is possible", c.Type)
	}
	return s, nil
}

func (s *kv) Config() backend.KVConfig { return s.c }

func (s *kv) Bytes() int64 {
	c := s.c
	c.Slots, c.Delta = min(c.Slots, int(s.slots.Load())), backend.DeltaConfig{}
	return c.Bytes() + s.states.bytes()
}

// allocateSlots allocates memory for the slots [from, to).
func (s *kv) allocateSlots(from, to int32) {
	for i := int(from) / s.chunk; i*s.chunk < int(to); i++ {
		if !s.taken[i] {
			s.allocateChunk(i)
			s.taken[i] = true
			s.slots.Add(int64(s.chunk))
		}
	}
}

func (s *kv) Copy(dst, src int32) {
	s.allocateSlots(dst, dst+1)
	s.allocateSlots(src, src+1)
	for _, l := range s.layers {
		l.copySlot(dst, src)
	}
	s.states.copySlot(dst, src)
}

func (s *kv) Swap(a, b int32) {
	s.allocateSlots(a, a+1)
	s.allocateSlots(b, b+1)
	for _, l := range s.layers {
		l.swapSlots(a, b)
	}
	s.states.swapSlots(a, b)
}

func (s *kv) Read(layer, n int, b []byte) {
	s.allocateSlots(0, int32(n))
	s.layers[layer].readSlots(n, b[:s.c.LayerBytes(n)])
}

func (s *kv) Write(layer, n int, b []byte) {
	s.allocateSlots(0, int32(n))
	s.layers[layer].writeSlots(n, b[:s.c.LayerBytes(n)])
}

// layerOf is a layer with elements of one type, in chunks of slots. In a chunk each head has its keys and values
// contiguous in memory, which attention reads from first to last: values as [KVHeads, chunk, Dh], keys in blocks of
// slots, transposed, as [vector.ScoresF16] takes them: [KVHeads, chunk/16, Dh, 16].
type layerOf[E uint16 | float32] struct {
	elemOps[E]
	heads, size int // Dh
	chunk       int // slots of a chunk
	k, v        [][]E
	run         int // elements of a head in a chunk, of either
}

// elemOps are the operations on elements of one type.
type elemOps[E uint16 | float32] struct {
	put                func(dst []E, src []float32)
	scored, scoredPair func(dst []float32, stride int, q []float32, k []E, step, blocks int) // of all or two queries
	mixed, mixedPair   func(acc, p []float32, stride, n int, v []E, step int)
	wide               func(E) float32
}

// newLayers makes the layers of s, and returns the function that allocates a chunk.
func newLayers[E uint16 | float32](s *kv, ops elemOps[E]) (allocateChunk func(chunk int)) {
	all := make([]*layerOf[E], s.c.Layers)
	for i := range all {
		all[i] = &layerOf[E]{
			elemOps: ops, heads: s.c.KVHeads, size: s.c.HeadSize, chunk: s.chunk, run: s.chunk * s.c.HeadSize,
		}
		all[i].k, all[i].v = make([][]E, len(s.taken)), make([][]E, len(s.taken))
		s.layers[i] = all[i]
	}
	each := s.c.KVHeads * s.chunk * s.c.HeadSize
	return func(chunk int) {
		memory := make([]E, 2*len(all)*each)
		for i, r := range all {
			at := 2 * i * each
			r.k[chunk], r.v[chunk] = memory[at:at+each:at+each], memory[at+each:at+2*each:at+2*each]
		}
	}
}

func keyBlockCount(slots int) int { return (slots + vector.KeyBlock - 1) / vector.KeyBlock }

func toF32(dst, src []float32) { copy(dst, src) }

func (r *layerOf[E]) slotValues(slot int32, head int) []E {
	at := head*r.run + int(slot)%r.chunk*r.size
	return r.v[int(slot)/r.chunk][at : at+r.size]
}

// keyColumn returns the chunk of a slot, and the index in its k at which the key of a head begins; the elements of the
// key are [vector.KeyBlock] apart.
func (r *layerOf[E]) keyColumn(slot int32, head int) (k []E, at int) {
	in := int(slot) % r.chunk
	return r.k[int(slot)/r.chunk], head*r.run + in/vector.KeyBlock*vector.KeyBlock*r.size + in%vector.KeyBlock
}

func (r *layerOf[E]) storeRow(slot int32, k, v []float32) {
	for h := range r.heads {
		row := r.slotValues(slot, h)
		to, at := r.keyColumn(slot, h)
		r.put(row, k[h*r.size:(h+1)*r.size]) // the key uses the place of the value as a buffer
		for i, e := range row {
			to[at+i*vector.KeyBlock] = e
		}
		r.put(row, v[h*r.size:(h+1)*r.size])
	}
}

func (r *layerOf[E]) keyElement(slot int32, head, i int) float32 {
	k, at := r.keyColumn(slot, head)
	return r.wide(k[at+i*vector.KeyBlock])
}

func (r *layerOf[E]) valueElement(slot int32, head, i int) float32 {
	return r.wide(r.slotValues(slot, head)[i])
}

// spanInChunk returns the chunk in which a span begins, the span's first slot in that chunk, and the number of the
// span's slots in it.
func (r *layerOf[E]) spanInChunk(s backend.Span) (chunk, first, n int) {
	first = int(s.From) % r.chunk
	return int(s.From) / r.chunk, first, min(int(s.To-s.From), r.chunk-first)
}

func (r *layerOf[E]) computeScores(dst, block, q []float32, queries, head int, see []backend.Span) {
	scored := r.scored
	if queries <= 2 {
		scored = r.scoredPair
	}
	step := vector.KeyBlock * r.size
	for _, s := range see {
		for s.From < s.To {
			chunk, first, n := r.spanInChunk(s)
			lead := first % vector.KeyBlock
			keys := r.k[chunk][head*r.run+first/vector.KeyBlock*step:]
			if lead == 0 { // the next span overwrites the scores after s in the last block
				scored(dst, scoreStride, q, keys, step, keyBlockCount(n))
			} else {
				scored(block, scoreStride, q, keys, step, keyBlockCount(lead+n))
				for g := range vector.Queries {
					copy(dst[g*scoreStride:][:n], block[g*scoreStride+lead:])
				}
			}
			dst = dst[n:]
			s.From += int32(n)
		}
	}
}

func (r *layerOf[E]) mixValues(acc, p []float32, queries, head int, see []backend.Span) {
	mixed := r.mixed
	if queries <= 2 {
		mixed = r.mixedPair
	}
	for _, s := range see {
		for s.From < s.To {
			chunk, first, n := r.spanInChunk(s)
			mixed(acc, p, scoreStride, n, r.v[chunk][head*r.run+first*r.size:], r.size)
			p = p[n:]
			s.From += int32(n)
		}
	}
}

func (r *layerOf[E]) copySlot(dst, src int32) {
	for h := range r.heads {
		copy(r.slotValues(dst, h), r.slotValues(src, h))
		to, i := r.keyColumn(dst, h)
		from, j := r.keyColumn(src, h)
		for e := 0; e < r.size*vector.KeyBlock; e += vector.KeyBlock {
			to[i+e] = from[j+e]
		}
	}
}

func (r *layerOf[E]) swapSlots(a, b int32) {
	for h := range r.heads {
		x, y := r.slotValues(a, h), r.slotValues(b, h)
		for i := range x {
			x[i], y[i] = y[i], x[i]
		}
		k, i := r.keyColumn(a, h)
		l, j := r.keyColumn(b, h)
		for range r.size {
			k[i], l[j] = l[j], k[i]
			i, j = i+vector.KeyBlock, j+vector.KeyBlock
		}
	}
}

func (r *layerOf[E]) readSlots(n int, b []byte) {
	row := make([]E, 2*r.heads*r.size)
	step := len(b) / max(n, 1)
	for slot := range int32(n) {
		for h := range r.heads {
			k, at := r.keyColumn(slot, h)
			for i := range r.size {
				row[h*r.size+i] = k[at+i*vector.KeyBlock]
			}
			copy(row[(r.heads+h)*r.size:], r.slotValues(slot, h))
		}
		_, _ = binary.Encode(b[int(slot)*step:], binary.LittleEndian, row) // b is long enough
	}
}

func (r *layerOf[E]) writeSlots(n int, b []byte) {
	row := make([]E, 2*r.heads*r.size)
	step := len(b) / max(n, 1)
	for slot := range int32(n) {
		_, _ = binary.Decode(b[int(slot)*step:], binary.LittleEndian, row)
		for h := range r.heads {
			k, at := r.keyColumn(slot, h)
			for i := range r.size {
				k[at+i*vector.KeyBlock] = row[h*r.size+i]
			}
			copy(r.slotValues(slot, h), row[(r.heads+h)*r.size:])
		}
	}
}
