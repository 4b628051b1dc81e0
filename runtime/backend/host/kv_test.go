package host

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// slotModel is a KV store beside a plain list of its slots.
type slotModel struct {
	t *testing.T
	r *rand.Rand
	*kv
	slots []slotRows
}

// slotRows holds the keys and values of a slot, by layer.
type slotRows struct{ k, v [][]float32 }

// newSlotModel returns a store with random keys and values in all slots.
func newSlotModel(t *testing.T, d *Device, c backend.KVConfig) *slotModel {
	made, err := d.NewKV(c)
	require.NoError(t, err)
	require.Equal(t, c, made.Config())
	m := &slotModel{t: t, kv: made.(*kv), slots: make([]slotRows, c.Slots)}
	m.r = rand.New(rand.NewPCG(1, uint64(c.Slots)))
	assert.Zero(t, made.Bytes())
	m.allocateSlots(0, int32(c.Slots))
	assert.Equal(t, c.Bytes(), made.Bytes())
	for at := range int32(c.Slots) {
		m.fill(at)
	}
	return m
}

// fill stores other keys and values in a slot.
func (m *slotModel) fill(at int32) {
	row := func() []float32 {
		f := make([]float32, m.c.KVHeads*m.c.HeadSize)
		for i := range f {
			f[i] = float32(m.r.IntN(4096) - 2048) // all types represent it exactly
		}
		return f
	}
	m.slots[at] = slotRows{}
	for _, l := range m.layers {
		k, v := row(), row()
		l.storeRow(at, k, v)
		m.slots[at].k, m.slots[at].v = append(m.slots[at].k, k), append(m.slots[at].v, v)
	}
}

// change copies a slot, swaps two, or fills one.
func (m *slotModel) change() {
	a, b := m.r.Int32N(int32(m.c.Slots)), m.r.Int32N(int32(m.c.Slots))
	switch m.r.IntN(3) {
	case 0:
		m.Copy(a, b)
		m.slots[a] = m.slots[b]
	case 1:
		m.Swap(a, b)
		m.slots[a], m.slots[b] = m.slots[b], m.slots[a]
	default:
		m.fill(a)
	}
}

// check compares all elements with the list.
func (m *slotModel) check() {
	for at, want := range m.slots {
		for i, l := range m.layers {
			for j := range m.c.KVHeads * m.c.HeadSize {
				h, e := j/m.c.HeadSize, j%m.c.HeadSize
				k, v := l.keyElement(int32(at), h, e), l.valueElement(int32(at), h, e)
				if k != want.k[i][j] || v != want.v[i][j] {
					m.t.Fatalf("slot %d, layer %d, head %d, element %d", at, i, h, e)
				}
			}
		}
	}
}

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
			t.Run(fmt.Sprintf("%v, %d slots", kind, c.Slots), func(t *testing.T) {
				c.Type, c.RopeBase = kind, 1000
				m := newSlotModel(t, d, c)
				for range 60 {
					m.change()
					m.check()
				}
			})
		}
	}
}

// filledKV returns a store with random keys and values in all slots.
func filledKV(t *testing.T, d *Device, c backend.KVConfig, seed uint64) *kv {
	made, err := d.NewKV(c)
	require.NoError(t, err)
	store, r := made.(*kv), rand.New(rand.NewPCG(seed, 2))
	store.allocateSlots(0, int32(c.Slots))
	for _, l := range store.layers {
		for at := range int32(c.Slots) {
			k, v := make([]float32, c.KVHeads*c.HeadSize), make([]float32, c.KVHeads*c.HeadSize)
			for i := range k {
				k[i], v[i] = r.Float32(), r.Float32()
			}
			l.storeRow(at, k, v)
		}
	}
	return store
}

// readBackConfig returns the shape of a store with more than one chunk of slots.
func readBackConfig(kind gguf.Type) backend.KVConfig {
	return backend.KVConfig{Layers: 2, Slots: backend.KVChunk + 21, Heads: 6, KVHeads: 3, HeadSize: 10, Type: kind,
		RopeBase: 1000}
}

// TestReadBack: slots that are read from one store and written to another have the same bits; slots after them do not
// change.
func TestReadBack(t *testing.T) {
	d := devices(t, Options{Threads: 1})[0]
	for _, kind := range []gguf.Type{gguf.F16, gguf.F32} {
		t.Run(kind.String(), func(t *testing.T) {
			c := readBackConfig(kind)
			from, to, before := filledKV(t, d, c, 1), filledKV(t, d, c, 2), filledKV(t, d, c, 2)
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
		})
	}
}

// TestReadUnallocated: slots without memory yet are zero.
func TestReadUnallocated(t *testing.T) {
	d := devices(t, Options{Threads: 1})[0]
	for _, kind := range []gguf.Type{gguf.F16, gguf.F32} {
		c := readBackConfig(kind)
		all, last := make([]byte, c.LayerBytes(c.Slots)), int32(c.Slots-1)
		for name, use := range map[string]func(s backend.KV){
			"unused":        func(backend.KV) {},
			"copy to last":  func(s backend.KV) { s.Copy(last, 0) },
			"copy to first": func(s backend.KV) { s.Copy(0, last) },
			"swap first":    func(s backend.KV) { s.Swap(0, last) },
			"swap last":     func(s backend.KV) { s.Swap(last, 0) },
			"write":         func(s backend.KV) { s.Write(0, c.Slots, all) },
		} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				fresh, err := d.NewKV(c)
				require.NoError(t, err)
				use(fresh)
				got := slices.Repeat([]byte{1}, len(all))
				fresh.Read(0, c.Slots, got)
				assert.Equal(t, all, got)
			})
		}
	}
}
