package backend

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pilotfish-ai/pilotfish/gguf"
)

// TestAppendSlot: slots in a row are one span.
func TestAppendSlot(t *testing.T) {
	var see []Span
	for _, slot := range []int32{0, 1, 4, 5, 3, 4} {
		see = AppendSlot(see, slot)
	}
	assert.Equal(t, []Span{{0, 2}, {4, 6}, {3, 5}}, see)
}

// TestWantOf: a row has its own wishes, or those of all.
func TestWantOf(t *testing.T) {
	w := Want{K: 3, Logits: true, Hidden: true}
	assert.Equal(t, WantRow{3, true, true}, w.Of(1))
	w.Each = []WantRow{{K: 1}, {K: 2, Hidden: true}}
	assert.Equal(t, w.Each[1], w.Of(1))
}

// TestKVConfig: the bytes include keys and values of every head in every slot and layer. The first pair of a head
// rotates by one radian per position, the last one slowest, almost by 1/base.
func TestKVConfig(t *testing.T) {
	c := KVConfig{Layers: 3, Slots: 5, Heads: 14, KVHeads: 2, HeadSize: 8, RopeBase: 10000, Type: gguf.F16}
	assert.EqualValues(t, 2*3*5*2*8*2, c.Bytes())
	c.Type = gguf.F32
	assert.EqualValues(t, 2*3*5*2*8*4, c.Bytes())
	assert.EqualValues(t, c.Bytes(), 3*c.LayerBytes(5))
	assert.InDeltaSlice(t, []float64{1, 0.1, 0.01, 0.001}, c.Frequencies(), 1e-12)
	large := KVConfig{Layers: 80, Slots: math.MaxInt32, KVHeads: 8, HeadSize: 128, Type: gguf.F16}
	assert.EqualValues(t, 2*80*int64(math.MaxInt32)*8*128*2, large.Bytes())
}
