package host

import (
	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/recurrent"
)

// states holds the recurrent states of a store, and windows.
type states struct {
	*recurrent.States[*update, *checkpoint]
	c       backend.DeltaConfig
	t       gguf.Type
	rule    deltaRule
	windows []window // by layer
	loaded  []uint64 // names of the updates in the windows
}

// update holds what a token adds to the states of all layers: [backend.DeltaConfig.UpdateSize] elements and
// [backend.DeltaConfig].ValueHeads decays of each.
type update struct {
	elements elements
	decays   []float32 // log a(j) of the rule: of all tokens of the chunk, up to this one
}

// checkpoint holds the states of all layers between two chunks, and the last inputs of the convolution, oldest first.
type checkpoint struct {
	states []float32 // [layers, value heads, KeySize, ValueSize]
	inputs elements  // [layers, Kernel-1, channels]
}

// window holds the updates of a chunk in one layer, for the next token of the same text: keys [key heads, KeySize,
// chunk], errors [value heads, chunk, ValueSize], and decays [value heads, chunk].
type window struct{ keys, errors, decays []float32 }

func newStates(c backend.KVConfig, rule deltaRule) *states {
	if c.Delta.Layers == 0 {
		return nil
	}
	s := &states{c: c.Delta, t: c.Type, rule: rule}
	s.States = recurrent.New[*update, *checkpoint](c, s)
	s.windows = make([]window, s.c.Layers)
	for i := range s.windows {
		s.windows[i] = window{
			keys:   make([]float32, s.c.KeyHeads*s.c.KeySize*backend.DeltaChunk),
			errors: make([]float32, s.c.ValueWidth()*backend.DeltaChunk),
			decays: make([]float32, s.c.ValueHeads*backend.DeltaChunk),
		}
	}
	return s
}

// Bytes returns the memory of updates and checkpoints.
func (s *states) bytes() int64 {
	if s == nil {
		return 0
	}
	updates, checkpoints := s.Made()
	return updates*s.c.UpdateBytes(s.t) + checkpoints*s.c.CheckpointBytes(s.t)
}

// NewUpdate implements [recurrent.Memory], as do the next three.
func (s *states) NewUpdate() *update {
	return &update{
		elements: newElements(s.t, s.c.Layers*s.c.UpdateSize()), decays: make([]float32, s.c.Layers*s.c.ValueHeads),
	}
}

func (s *states) NewCheckpoint() *checkpoint {
	return &checkpoint{
		states: make([]float32, s.c.Layers*s.c.StateSize()),
		inputs: newElements(s.t, s.c.Layers*(s.c.Kernel-1)*s.c.Channels()),
	}
}

func (s *states) FreeUpdate(*update) {}

func (s *states) FreeCheckpoint(*checkpoint) {}

func (s *states) copySlot(dst, src int32) {
	if s != nil {
		s.Copy(dst, src)
	}
}

func (s *states) swapSlots(a, b int32) {
	if s != nil {
		s.Swap(a, b)
	}
}

// Replay implements [backend.DeltaKV].
func (k *kv) Replay(rows []backend.Row) []backend.Row {
	return recurrent.Replay(rows, func(r backend.Row) *recurrent.States[*update, *checkpoint] {
		return r.KVOf(k).(*kv).states.States
	})
}

// Trim implements [backend.DeltaKV].
func (k *kv) Trim(checkpoints, updates int) { k.states.Trim(checkpoints, updates) }

// Resume implements [backend.DeltaKV].
func (k *kv) Resume(see []backend.Span, written func(slot int32) bool) int {
	return k.states.Resume(see, written)
}

// ReadState implements [backend.DeltaKV].
func (k *kv) ReadState(n int, b []byte) error {
	steps, base, updates := k.states.Saved(n)
	k.states.addChunks(k.states.deltaSteps(nil, steps))
	b = b[:0]
	if base != nil {
		b = base.Memory.inputs.encode(appendLittleEndian(b, base.Memory.states))
	}
	for _, u := range updates {
		b = u.Memory.elements.encode(appendLittleEndian(b, u.Memory.decays))
	}
	return nil
}

// WriteState implements [backend.DeltaKV].
func (k *kv) WriteState(tokens []int32, b []byte) error {
	base, updates := k.states.Restore(tokens)
	if base != nil {
		b = base.Memory.inputs.decode(decodeLittleEndian(b, base.Memory.states))
	}
	for _, u := range updates {
		b = u.Memory.elements.decode(decodeLittleEndian(b, u.Memory.decays))
	}
	return nil
}

// addChunks computes the states of steps at the end of chunks, outside a pass.
func (s *states) addChunks(steps []deltaStep) {
	var ws deltaSpace
	ws.resize(s.c)
	for layer := range s.c.Layers {
		for head := range s.c.KeyHeads {
			w := newDeltaHead(&ws, &delta{c: s.c}, layer, head, s.rule)
			for i := range steps {
				w.compute(&steps[i], nil)
			}
		}
	}
}
