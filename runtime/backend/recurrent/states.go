// Package recurrent says which recurrent states the slots of a KV store have, and plans what a pass computes of them.
// backend/host and backend/gpu use it; package backend describes updates, checkpoints and chunks. What a backend holds
// for an update is of type U, and for a checkpoint of type C.
package recurrent

import (
	"math/bits"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Memory makes and frees what a backend holds for updates and checkpoints.
type Memory[U, C any] interface {
	NewUpdate() U
	NewCheckpoint() C
	FreeUpdate(U)
	FreeCheckpoint(C)
}

// States holds the recurrent states of a store: updates by the slot of their token, and checkpoints by the slot of the
// last token of a chunk. A slot that is written again loses both.
type States[U, C any] struct {
	taps        int // of the convolution, before the current token
	memory      Memory[U, C]
	slots       []slot[U, C]
	clock       uint64 // counts uses, and names updates
	updates     pool[*Update[U]]
	checkpoints pool[*Checkpoint[C]]
	passing     passing // the rows that are planned
}

// slot is what a slot has of recurrent layers.
type slot[U, C any] struct {
	known      bool // the token is
	token      int32
	update     *Update[U]
	checkpoint *Checkpoint[C] // the state after the token
}

// Update is what a token adds to the states of all layers.
type Update[U any] struct {
	held
	Name   uint64 // differs from that of all others of the store
	Memory U
}

// Checkpoint is the states of all layers between two chunks, and the last inputs of the convolution.
type Checkpoint[C any] struct {
	held
	Memory C
}

// New returns the states of an empty store.
func New[U, C any](c backend.KVConfig, memory Memory[U, C]) *States[U, C] {
	s := &States[U, C]{taps: c.Delta.Kernel - 1, memory: memory, slots: make([]slot[U, C], c.Slots)}
	s.updates.free = func(u *Update[U]) { memory.FreeUpdate(u.Memory) }
	s.checkpoints.free = func(p *Checkpoint[C]) { memory.FreeCheckpoint(p.Memory) }
	s.updates.most, s.checkpoints.most = c.Delta.Updates(c.Slots), c.Delta.Checkpoints(c.Slots)
	s.updates.least, s.checkpoints.least = backend.DeltaChunk, 1
	s.Pass(0, 0)
	return s
}

// Made returns how many updates and checkpoints have memory. It may be called while a pass runs.
func (s *States[U, C]) Made() (updates, checkpoints int64) {
	return s.updates.made.Load(), s.checkpoints.made.Load()
}

func (s *States[U, C]) newUpdate(pos int) *Update[U] {
	u := new(Update[U]) // the steps of a pass may still have that of the same memory
	if old, ok := s.updates.reuse(); ok {
		u.Memory = old.Memory
	} else {
		u.Memory = s.memory.NewUpdate()
	}
	s.clock++
	u.Name, u.held = s.clock, held{used: s.clock, chunk: pos / backend.DeltaChunk}
	return u
}

func (s *States[U, C]) newCheckpoint(pos int) *Checkpoint[C] {
	p := new(Checkpoint[C])
	if old, ok := s.checkpoints.reuse(); ok {
		p.Memory = old.Memory
	} else {
		p.Memory = s.memory.NewCheckpoint()
	}
	s.clock++
	p.held = held{used: s.clock, chunk: pos / backend.DeltaChunk}
	return p
}

// set replaces what a slot has.
func (s *States[U, C]) set(at int32, to slot[U, C]) {
	from := s.slots[at]
	s.slots[at] = to
	if to.update != nil {
		s.updates.take(to.update)
	}
	if to.checkpoint != nil {
		s.checkpoints.take(to.checkpoint)
	}
	if from.update != nil {
		s.updates.give(from.update)
	}
	if from.checkpoint != nil {
		s.checkpoints.give(from.checkpoint)
	}
}

// Copy gives slot dst what slot src has.
func (s *States[U, C]) Copy(dst, src int32) { s.set(dst, s.slots[src]) }

// Swap exchanges what two slots have.
func (s *States[U, C]) Swap(a, b int32) { s.slots[a], s.slots[b] = s.slots[b], s.slots[a] }

// Trim drops what is more than these numbers: updates that were not used for long, and checkpoints likewise, those at
// multiples of a higher power of two later, so that a long text has some everywhere.
func (s *States[U, C]) Trim(checkpoints, updates int) {
	s.checkpoints.most, s.updates.most = checkpoints, updates
	oldUpdates := s.updates.excess(func(h *held) uint64 { return s.clock - h.used })
	oldCheckpoints := s.checkpoints.excess(func(h *held) uint64 {
		return (s.clock - h.used) >> min(bits.TrailingZeros(uint(h.chunk)), 16)
	})
	if oldUpdates == nil && oldCheckpoints == nil {
		return
	}
	for i, at := range s.slots {
		if oldUpdates[at.update] {
			at.update = nil
		}
		if oldCheckpoints[at.checkpoint] {
			at.checkpoint = nil
		}
		if at != s.slots[i] {
			s.set(int32(i), at)
		}
	}
}

// Saved returns what [backend.DeltaKV].ReadState copies for the first n slots: the checkpoint before their last chunk,
// nil if there is none, and the updates after it. If the checkpoint is not there yet, the steps compute it.
func (s *States[U, C]) Saved(n int) (steps []Step[U, C], base *Checkpoint[C], updates []*Update[U]) {
	see, first := []backend.Span{{From: 0, To: int32(n)}}, n/backend.DeltaChunk*backend.DeltaChunk
	steps, base = s.planCheckpoint(nil, see, first)
	return steps, base, s.updatesOf(see, first, n)
}

// Restore makes what [backend.DeltaKV].WriteState fills for the first slots, in the order of Saved.
func (s *States[U, C]) Restore(tokens []int32) (base *Checkpoint[C], updates []*Update[U]) {
	first := len(tokens) / backend.DeltaChunk * backend.DeltaChunk
	for i, token := range tokens {
		at := slot[U, C]{known: true, token: token}
		if i == first-1 {
			at.checkpoint = s.newCheckpoint(first)
			base = at.checkpoint
		}
		if i >= first {
			at.update = s.newUpdate(i)
			updates = append(updates, at.update)
		}
		s.set(int32(i), at)
	}
	return base, updates
}
