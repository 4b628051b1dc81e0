package host

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// states holds the recurrent states of a store, as [backend.DeltaConfig] describes: updates by the slot of their token,
// and checkpoints by the slot of the last token of a chunk. A slot that is written again loses both.
type states struct {
	c           backend.DeltaConfig
	t           gguf.Type
	rule        deltaRule
	slots       []slotState
	clock       uint64 // counts uses, and names updates
	updates     stateMemory[*update]
	checkpoints stateMemory[*checkpoint]
	windows     []window // by layer
	loaded      []uint64 // names of the updates in the windows
	passing     passing
}

// slotState is what a slot has of recurrent layers.
type slotState struct {
	known      bool // the token is
	token      int32
	update     *update
	checkpoint *checkpoint // the state after the token
}

// update holds what a token adds to the states of all layers: [backend.DeltaConfig.UpdateSize] elements and
// [backend.DeltaConfig].ValueHeads decays of each.
type update struct {
	held
	name     uint64
	elements elements
	decays   []float32 // log a(j) of the rule: of all tokens of the chunk, up to this one
}

// checkpoint holds the states of all layers between two chunks, and the last inputs of the convolution, oldest first.
type checkpoint struct {
	held
	states []float32 // [layers, value heads, KeySize, ValueSize]
	inputs elements  // [layers, Kernel-1, channels]
}

// held counts the slots that hold an object, and says when it was used last.
type held struct {
	slots int
	index int    // among those that slots hold
	used  uint64 // by the clock of the store
	chunk int    // of its position
}

func (h *held) hold() *held { return h }

// window holds the updates of a chunk in one layer, for the next token of the same text: keys [key heads, KeySize,
// chunk], errors [value heads, chunk, ValueSize], and decays [value heads, chunk].
type window struct{ keys, errors, decays []float32 }

func newStates(c backend.KVConfig, rule deltaRule) *states {
	if c.Delta.Layers == 0 {
		return nil
	}
	s := &states{c: c.Delta, t: c.Type, rule: rule, slots: make([]slotState, c.Slots)}
	s.updates.most, s.checkpoints.most = s.c.Updates(c.Slots), s.c.Checkpoints(c.Slots)
	s.updates.spare, s.checkpoints.spare = backend.DeltaChunk, 1
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
	return int64(s.updates.made.Load())*s.c.UpdateBytes(s.t) + int64(s.checkpoints.made.Load())*s.c.CheckpointBytes(s.t)
}

func (s *states) newUpdate(pos int) *update {
	u, ok := s.updates.reuse()
	if !ok {
		u = &update{
			elements: newElements(s.t, s.c.Layers*s.c.UpdateSize()),
			decays:   make([]float32, s.c.Layers*s.c.ValueHeads),
		}
	}
	s.clock++
	u.name, u.held = s.clock, held{used: s.clock, chunk: pos / backend.DeltaChunk}
	return u
}

func (s *states) newCheckpoint(pos int) *checkpoint {
	p, ok := s.checkpoints.reuse()
	if !ok {
		p = &checkpoint{
			states: make([]float32, s.c.Layers*s.c.StateSize()),
			inputs: newElements(s.t, s.c.Layers*(s.c.Kernel-1)*s.c.Channels()),
		}
	}
	s.clock++
	p.held = held{used: s.clock, chunk: pos / backend.DeltaChunk}
	return p
}

// setSlot replaces what a slot has.
func (s *states) setSlot(slot int32, to slotState) {
	from := s.slots[slot]
	s.slots[slot] = to
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

func (s *states) copySlot(dst, src int32) {
	if s != nil {
		s.setSlot(dst, s.slots[src])
	}
}

func (s *states) swapSlots(a, b int32) {
	if s != nil {
		s.slots[a], s.slots[b] = s.slots[b], s.slots[a]
	}
}

// trim drops what is more than the store keeps: updates that were not used for long, and checkpoints likewise, those at
// multiples of a higher power of two later, so that a long text has some everywhere.
func (s *states) trim() {
	updates := s.updates.excess(func(h *held) uint64 { return s.clock - h.used })
	checkpoints := s.checkpoints.excess(func(h *held) uint64 {
		return (s.clock - h.used) >> min(bits.TrailingZeros(uint(h.chunk)), 16)
	})
	if updates == nil && checkpoints == nil {
		return
	}
	for slot, at := range s.slots {
		if updates[at.update] {
			at.update = nil
		}
		if checkpoints[at.checkpoint] {
			at.checkpoint = nil
		}
		if at != s.slots[slot] {
			s.setSlot(int32(slot), at)
		}
	}
}

// has reports whether a slot has an update.
func (s *states) has(slot int32) bool { return s.slots[slot].update != nil }

// resume returns the largest number of tokens, of the first n of a path, after which a row can be evaluated. written
// are slots with updates to come.
func (s *states) resume(see []backend.Span, n int, written func(slot int32) bool) int {
	for first := n / backend.DeltaChunk * backend.DeltaChunk; ; first -= backend.DeltaChunk {
		if s.reaches(see, first, written) {
			until := first
			for until < min(n, first+backend.DeltaChunk) {
				if slot := slotAt(see, until); !s.has(slot) && !written(slot) {
					break
				}
				until++
			}
			return until
		}
	}
}

// reaches reports whether the state before a chunk that begins at first is there or can be computed.
func (s *states) reaches(see []backend.Span, first int, written func(slot int32) bool) bool {
	for ; first > 0; first -= backend.DeltaChunk {
		if slot := slotAt(see, first-1); s.slots[slot].checkpoint != nil && !written(slot) {
			return true
		}
		for i := first - backend.DeltaChunk; i < first; i++ {
			if slot := slotAt(see, i); !s.has(slot) && !written(slot) {
				return false
			}
		}
	}
	return true
}

// slotAt returns the slot of the token at a position of the path see.
func slotAt(see []backend.Span, pos int) int32 {
	for _, s := range see {
		if n := int(s.To - s.From); pos < n {
			return s.From + int32(pos)
		}
		pos -= int(s.To - s.From)
	}
	panic("host: a position beyond the visible slots")
}

// Replay implements [backend.DeltaKV].
func (k *kv) Replay(rows []backend.Row) []backend.Row {
	written := map[*states]map[int32]bool{}
	for _, r := range rows {
		s := r.KVOf(k).(*kv).states
		if written[s] == nil {
			written[s] = map[int32]bool{}
		}
		at := written[s]
		if n := s.resume(r.See, int(r.Pos), func(slot int32) bool { return at[slot] }); n < int(r.Pos) {
			return s.replayRows(r, n)
		}
		at[r.Slot] = true
	}
	return nil
}

// replayRows returns the rows of the path of r from position n on, without r.
func (s *states) replayRows(r backend.Row, n int) []backend.Row {
	rows := make([]backend.Row, 0, int(r.Pos)-n)
	for pos := n; pos < int(r.Pos); pos++ {
		slot := slotAt(r.See, pos)
		if !s.slots[slot].known {
			panic(fmt.Sprintf("host: a row at position %d sees slot %d, which no row has written", r.Pos, slot))
		}
		rows = append(rows, backend.Row{
			Token: s.slots[slot].token, Pos: int32(pos), Slot: slot, See: appendVisible(nil, r.See, 0, pos+1), KV: r.KV,
		})
	}
	return rows
}

// Trim implements [backend.DeltaKV].
func (k *kv) Trim(checkpoints, updates int) {
	s := k.states
	s.checkpoints.most, s.updates.most = checkpoints, updates
	s.trim()
}

// Resume implements [backend.DeltaKV].
func (k *kv) Resume(n int) int {
	return k.states.resume([]backend.Span{{From: 0, To: int32(n)}}, n, func(int32) bool { return false })
}

// ReadState implements [backend.DeltaKV].
func (k *kv) ReadState(n int, b []byte) {
	s, first := k.states, n/chunkTokens*chunkTokens
	see := []backend.Span{{From: 0, To: int32(n)}}
	steps, base := s.planCheckpoint(nil, see, first)
	s.addChunks(steps)
	b = b[:0]
	if base != nil {
		b = base.inputs.encode(appendLittleEndian(b, base.states))
	}
	for _, u := range s.updatesOf(see, first, n) {
		b = u.elements.encode(appendLittleEndian(b, u.decays))
	}
}

// WriteState implements [backend.DeltaKV].
func (k *kv) WriteState(tokens []int32, b []byte) {
	s, first := k.states, len(tokens)/chunkTokens*chunkTokens
	for slot, token := range tokens {
		at := slotState{known: true, token: token}
		if slot == first-1 {
			at.checkpoint = s.newCheckpoint(first)
			b = at.checkpoint.inputs.decode(decodeLittleEndian(b, at.checkpoint.states))
		}
		if slot >= first {
			at.update = s.newUpdate(slot)
			b = at.update.elements.decode(decodeLittleEndian(b, at.update.decays))
		}
		s.setSlot(int32(slot), at)
	}
}

// addChunks computes the states of steps at the end of chunks, outside a pass.
func (s *states) addChunks(steps []deltaStep) {
	var ws deltaSpace
	ws.resize(s.c)
	for layer := range s.c.Layers {
		for head := range s.c.KeyHeads {
			w := newDeltaHead(&ws, &delta{c: s.c}, layer, head, s.rule)
			for i := range steps {
				w.compute(&steps[i], nil, 0)
			}
		}
	}
}

// stateMemory counts and reuses objects.
type stateMemory[T interface {
	comparable
	hold() *held
}] struct {
	most  int // that are kept after a pass
	spare int // that are kept in any case
	made  atomic.Int64
	live  []T // that slots hold
	free  []T
}

func (m *stateMemory[T]) reuse() (t T, ok bool) {
	n := len(m.free)
	if n == 0 {
		m.made.Add(1)
		return t, false
	}
	t = m.free[n-1]
	m.free = m.free[:n-1]
	return t, true
}

// take begins the use by a slot.
func (m *stateMemory[T]) take(t T) {
	h := t.hold()
	if h.slots++; h.slots == 1 {
		h.index = len(m.live)
		m.live = append(m.live, t)
	}
}

// give ends the use by a slot. The memory of an object that no slot holds is kept, if there is not much of it.
func (m *stateMemory[T]) give(t T) {
	h := t.hold()
	if h.slots--; h.slots > 0 {
		return
	}
	last := m.live[len(m.live)-1]
	m.live[h.index], last.hold().index = last, h.index
	m.live = m.live[:len(m.live)-1]
	if len(m.free) < m.spare || len(m.free)+len(m.live) < m.most {
		m.free = append(m.free, t)
	} else {
		m.made.Add(-1)
	}
}

// excess returns, if there are too many objects, those of the greatest age: some more than necessary, so that it is not
// needed after each pass.
func (m *stateMemory[T]) excess(age func(h *held) uint64) map[T]bool {
	if len(m.live) <= m.most {
		return nil
	}
	byAge := slices.Clone(m.live)
	slices.SortStableFunc(byAge, func(a, b T) int { return cmp.Compare(age(b.hold()), age(a.hold())) })
	drop := map[T]bool{}
	for _, t := range byAge[:len(byAge)-m.most+m.most/8] {
		drop[t] = true
	}
	return drop
}
