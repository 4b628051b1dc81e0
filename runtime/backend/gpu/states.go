package gpu

import (
	"slices"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/recurrent"
)

// states holds the recurrent states of a store. Updates and checkpoints are numbers: of a part of the buffers of each
// layer, which grow.
type states struct {
	*recurrent.States[uint32, uint32]
	c                    backend.DeltaConfig
	t                    gguf.Type
	updates, checkpoints numbers
	memory               *stateMemory
	bytes                atomic.Int64 // of memory
}

// stateMemory holds the buffers of updates and checkpoints.
type stateMemory struct{ layers []layerStates }

// layerStates holds those of a layer.
type layerStates struct {
	elements growableBuffer // [updates, UpdateSize] of the type of the store: inputs, keys, errors
	decays   growableBuffer // [updates, ValueHeads]
	states   growableBuffer // [checkpoints, ValueHeads, KeySize, ValueSize]
	inputs   growableBuffer // [checkpoints, Kernel-1, channels] of the type of the store
}

func (m *stateMemory) closeBuffers() {
	for i := range m.layers {
		l := &m.layers[i]
		for _, b := range []*growableBuffer{&l.elements, &l.decays, &l.states, &l.inputs} {
			b.closeBuffer()
		}
	}
}

// numbers hands out numbers from 0, the lowest free one first.
type numbers struct {
	free []uint32 // sorted
	next uint32
	room int // that there is memory for
}

func (n *numbers) take() uint32 {
	if len(n.free) == 0 {
		n.next++
		return n.next - 1
	}
	first := n.free[0]
	n.free = n.free[1:]
	return first
}

func (n *numbers) give(number uint32) {
	i, _ := slices.BinarySearch(n.free, number)
	n.free = slices.Insert(n.free, i, number)
}

// wantedRoom returns how many numbers there should be memory for.
func (n *numbers) wantedRoom() int {
	if int(n.next) <= n.room {
		return n.room
	}
	return max(int(n.next), n.room+n.room/4)
}

func newStates(c backend.KVConfig) *states {
	if c.Delta.Layers == 0 {
		return nil
	}
	s := &states{c: c.Delta, t: c.Type, memory: &stateMemory{make([]layerStates, c.Delta.Layers)}}
	s.States = recurrent.New[uint32, uint32](c, s)
	return s
}

// NewUpdate implements [recurrent.Memory], as do the next three.
func (s *states) NewUpdate() uint32       { return s.updates.take() }
func (s *states) NewCheckpoint() uint32   { return s.checkpoints.take() }
func (s *states) FreeUpdate(n uint32)     { s.updates.give(n) }
func (s *states) FreeCheckpoint(n uint32) { s.checkpoints.give(n) }

// grow allocates memory for all updates and checkpoints that have a number.
func (s *states) grow(d *Device) error {
	updates, checkpoints := s.updates.wantedRoom(), s.checkpoints.wantedRoom()
	if updates == s.updates.room && checkpoints == s.checkpoints.room {
		return nil
	}
	_, size := s.t.Block()
	total := int64(0)
	for i := range s.memory.layers {
		l := &s.memory.layers[i]
		for _, b := range []struct {
			buffer *growableBuffer
			length int
		}{
			{&l.elements, updates * s.c.UpdateSize() * int(size)}, {&l.decays, 4 * updates * s.c.ValueHeads},
			{&l.states, 4 * checkpoints * s.c.StateSize()},
			{&l.inputs, checkpoints * (s.c.Kernel - 1) * s.c.Channels() * int(size)},
		} {
			if err := b.buffer.extendTo(d, b.length); err != nil {
				return err
			}
			total += int64(len(b.buffer.Bytes()))
		}
	}
	s.updates.room, s.checkpoints.room = updates, checkpoints
	s.bytes.Store(total)
	return nil
}

// Replay implements [backend.DeltaKV].
func (s *kv) Replay(rows []backend.Row) []backend.Row {
	return recurrent.Replay(rows, func(backend.Row) *recurrent.States[uint32, uint32] { return s.states.States })
}

// Trim implements [backend.DeltaKV].
func (s *kv) Trim(checkpoints, updates int) { s.states.Trim(checkpoints, updates) }

// Resume implements [backend.DeltaKV].
func (s *kv) Resume(see []backend.Span, written func(slot int32) bool) int {
	return s.states.Resume(see, written)
}

// ReadState implements [backend.DeltaKV].
func (s *kv) ReadState(n int, b []byte) error {
	steps, base, updates := s.states.Saved(n)
	if err := s.d.addChunks(s, steps); err != nil {
		return err
	}
	s.states.eachSaved(base, updates, func(stored []byte) { b = b[copy(b, stored):] })
	return nil
}

// WriteState implements [backend.DeltaKV].
func (s *kv) WriteState(tokens []int32, b []byte) error {
	base, updates := s.states.Restore(tokens)
	if err := s.states.grow(s.d); err != nil {
		return err
	}
	s.states.eachSaved(base, updates, func(stored []byte) { b = b[copy(stored, b):] })
	return nil
}

// eachSaved calls f with the memory of a checkpoint, if there is one, and of updates, of all layers: states and inputs,
// then decays and elements.
func (s *states) eachSaved(base *recurrent.Checkpoint[uint32], updates []*recurrent.Update[uint32], f func(b []byte)) {
	_, size := s.t.Block()
	part := func(b growableBuffer, number uint32, length int) { f(b.Bytes()[int(number)*length:][:length]) }
	if base != nil {
		for _, l := range s.memory.layers {
			part(l.states, base.Memory, 4*s.c.StateSize())
		}
		for _, l := range s.memory.layers {
			part(l.inputs, base.Memory, (s.c.Kernel-1)*s.c.Channels()*int(size))
		}
	}
	for _, u := range updates {
		for _, l := range s.memory.layers {
			part(l.decays, u.Memory, 4*s.c.ValueHeads)
		}
		for _, l := range s.memory.layers {
			part(l.elements, u.Memory, s.c.UpdateSize()*int(size))
		}
	}
}
