package host

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// TestMoves stores, copies and swaps slots at random: every element of every key and value, of each head in each layer,
// is where a plain list of slots has it.
func TestMoves(t *testing.T) {
	d := devices(t, Options{Threads: 1})[0]
	for _, kind := range []gguf.Type{gguf.F16, gguf.F32} {
		for _, c := range []backend.KVConfig{
			{Layers: 3, Slots: 37, Heads: 6, KVHeads: 3, HeadSize: 10},
			{Layers: 1, Slots: 16, Heads: 1, KVHeads: 1, HeadSize: 2},
			{Layers: 2, Slots: 1, Heads: 2, KVHeads: 2, HeadSize: 4},
			{Layers: 2, Slots: backend.KVChunk + 21, Heads: 2, KVHeads: 2, HeadSize: 4},
		} {
			c.Type, c.RopeBase = kind, 1000
			made, err := d.NewKV(c)
			require.NoError(t, err)
			require.Equal(t, c, made.Config())
			s, r := made.(*kv), rand.New(rand.NewPCG(1, uint64(c.Slots)))
			width := c.KVHeads * c.HeadSize
			type slot struct{ k, v [][]float32 } // by layer
			model := make([]slot, c.Slots)
			row := func() []float32 {
				f := make([]float32, width)
				for i := range f {
					f[i] = float32(r.IntN(4096) - 2048) // all types represent it exactly
				}
				return f
			}
			fill := func(at int32) {
				model[at] = slot{}
				for _, l := range s.layers {
					k, v := row(), row()
					l.storeRow(at, k, v)
					model[at].k, model[at].v = append(model[at].k, k), append(model[at].v, v)
				}
			}
			assert.Zero(t, made.Bytes())
			s.allocateSlots(0, int32(c.Slots))
			assert.Equal(t, c.Bytes(), made.Bytes())
			for at := range int32(c.Slots) {
				fill(at)
			}
			for range 60 {
				a, b := r.Int32N(int32(c.Slots)), r.Int32N(int32(c.Slots))
				switch r.IntN(3) {
				case 0:
					made.Copy(a, b)
					model[a] = model[b]
				case 1:
					made.Swap(a, b)
					model[a], model[b] = model[b], model[a]
				default:
					fill(a)
				}
				for at, want := range model {
					for i, l := range s.layers {
						for j := range width {
							h, e := j/c.HeadSize, j%c.HeadSize
							k, v := l.keyElement(int32(at), h, e), l.valueElement(int32(at), h, e)
							if k != want.k[i][j] || v != want.v[i][j] {
								t.Fatalf("%v, slot %d of %d, layer %d, head %d, element %d", kind, at, c.Slots, i, h, e)
							}
						}
					}
				}
			}
		}
	}
}

// TestReadBack: slots that are read from one store and written to another have the same bits; slots after them do not
// change.
func TestReadBack(t *testing.T) {
	d := devices(t, Options{Threads: 1})[0]
	for _, kind := range []gguf.Type{gguf.F16, gguf.F32} {
		c := backend.KVConfig{Layers: 2, Slots: backend.KVChunk + 21, Heads: 6, KVHeads: 3, HeadSize: 10, Type: kind,
			RopeBase: 1000}
		made := func(seed uint64) backend.KV {
			store, err := d.NewKV(c)
			require.NoError(t, err)
			store.(*kv).allocateSlots(0, int32(c.Slots))
			r := rand.New(rand.NewPCG(seed, 2))
			for _, l := range store.(*kv).layers {
				for at := range int32(c.Slots) {
					k, v := make([]float32, 30), make([]float32, 30)
					for i := range k {
						k[i], v[i] = r.Float32(), r.Float32()
					}
					l.storeRow(at, k, v)
				}
			}
			return store
		}
		from, to, before := made(1).(*kv), made(2).(*kv), made(2).(*kv)
		const n = backend.KVChunk + 5
		for layer := range c.Layers {
			b := make([]byte, c.LayerBytes(n))
			from.Read(layer, n, b)
			to.Write(layer, n, b)
			if first := b[:c.LayerBytes(1)/2]; kind == gguf.F32 {
				assert.Equal(t, from.layers[layer].keyElement(0, 0, 0),
					math.Float32frombits(binary.LittleEndian.Uint32(first)),
					"the key of the first slot comes first")
			}
		}
		for layer := range c.Layers {
			for at := range int32(c.Slots) {
				want := from.layers[layer]
				if at >= n {
					want = before.layers[layer]
				}
				for h := range c.KVHeads {
					for i := range c.HeadSize {
						require.Equal(t, want.keyElement(at, h, i), to.layers[layer].keyElement(at, h, i))
						require.Equal(t, want.valueElement(at, h, i), to.layers[layer].valueElement(at, h, i))
					}
				}
			}
		}
		all, last := make([]byte, c.LayerBytes(c.Slots)), int32(c.Slots-1)
		for _, use := range []func(s backend.KV){ // of slots without memory yet, which are zero
			func(s backend.KV) { s.Copy(0, last) }, func(s backend.KV) { s.Copy(last, 0) },
			func(s backend.KV) { s.Swap(0, last) }, func(s backend.KV) { s.Swap(last, 0) },
			func(s backend.KV) { s.Write(0, c.Slots, all) }, func(backend.KV) {},
		} {
			fresh, err := d.NewKV(c)
			require.NoError(t, err)
			use(fresh)
			got := slices.Repeat([]byte{1}, len(all))
			fresh.Read(0, c.Slots, got)
			assert.Equal(t, all, got)
		}
	}
}
