package host

import (
	"math"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// deltaStep is a part of a pass that each recurrent layer computes: the updates and the outputs of rows of a chunk or,
// with into, the state at the end of it.
type deltaStep struct {
	states *states
	base   *checkpoint // before the chunk; nil at the beginning of a text
	kept   int         // updates of the chunk that the windows hold
	load   []*update   // those after them, which are loaded first
	inputs []convInput // of the tokens before the rows, or of the last tokens of the chunk: oldest first

	row     int       // the first one; the others follow it in the pass and in the text
	updates []*update // of the rows
	into    *checkpoint
}

// known returns the number of updates of the chunk in the windows, without those of the rows.
func (s *deltaStep) known() int { return s.kept + len(s.load) }

// convInput is where a token's input of the convolution is stored: for a layer at layer·stride+first. Before the
// beginning of a text it is zero, and elements nil.
type convInput struct {
	elements      elements
	stride, first int
}

// keptChunks is the number of chunks at the end of a long run of rows that keep the updates of their tokens, and the
// distance, in chunks, of the states that are kept. What a long text would soon drop uses the same memory again, which is
// in the cache.
const keptChunks = 8

// planSteps returns the steps of a pass. The rows have been checked with [kv.Replay].
func (p *pass) planSteps() []deltaStep {
	if p.kv.states == nil {
		return nil
	}
	var steps []deltaStep
	for _, run := range p.groupRows(len(p.rows)) {
		first := p.rows[run.first]
		s := first.KVOf(p.kv).(*kv).states
		s.passing = passing{from: math.MaxInt}
		if to := int(first.Pos) + run.n - 1 - keptChunks*chunkTokens; to > int(first.Pos) && p.areAlone(run) {
			s.passing = passing{int(first.Pos), to / chunkTokens * chunkTokens}
		}
		for i := range run.n {
			steps = s.planRow(steps, p.rows[run.first+i], run.first+i)
		}
	}
	return steps
}

// passing are the positions of a run of rows that are planned, from the first one to before the end of the text whose
// updates need not be kept.
type passing struct{ from, to int }

// areAlone reports whether no other rows of the pass follow those of a run.
func (p *pass) areAlone(run rowRun) bool {
	first := p.rows[run.first]
	for t, r := range p.rows {
		if t >= run.first && t < run.first+run.n || r.KVOf(p.kv) != first.KVOf(p.kv) {
			continue
		}
		for _, span := range r.See {
			if first.Slot >= span.From && first.Slot < span.To {
				return false
			}
		}
	}
	return true
}

func (s *states) planRow(steps []deltaStep, r backend.Row, row int) []deltaStep {
	first := int(r.Pos) / chunkTokens * chunkTokens
	steps, base := s.planCheckpoint(steps, r.See, first)
	path := s.updatesOf(r.See, first, int(r.Pos))
	step := deltaStep{states: s, base: base, row: row}
	step.kept, step.load = s.planWindow(path)
	s.setSlot(r.Slot, slotState{})
	u := s.newUpdate(int(r.Pos))
	s.setSlot(r.Slot, slotState{known: true, token: r.Token, update: u})
	s.loaded = append(s.loaded, u.name)
	if n := len(steps); n > 0 && step.follows(&steps[n-1]) {
		steps[n-1].updates = append(steps[n-1].updates, u)
		return steps
	}
	step.inputs, step.updates = s.inputsBefore(base, path), []*update{u}
	return append(steps, step)
}

// follows reports whether the row of a step is that after those of the step before it, in a chunk of a text.
func (s *deltaStep) follows(before *deltaStep) bool {
	n := len(before.updates)
	return n > 0 && s.states == before.states && len(s.load) == 0 && s.kept == before.known()+n
}

// planCheckpoint returns the state before the chunk that begins at first, with the steps that compute it if there is
// none.
func (s *states) planCheckpoint(steps []deltaStep, see []backend.Span, first int) ([]deltaStep, *checkpoint) {
	if first == 0 {
		return steps, nil
	}
	slot := slotAt(see, first-1)
	at := s.slots[slot].checkpoint
	if at == nil {
		before := first - chunkTokens
		var base *checkpoint
		steps, base = s.planCheckpoint(steps, see, before)
		path := s.updatesOf(see, before, first)
		step := deltaStep{states: s, base: base, inputs: s.inputsBefore(base, path)}
		step.kept, step.load = s.planWindow(path)
		s.dropChunk(see, before)
		at = s.newCheckpoint(first)
		step.into = at
		to := s.slots[slot]
		to.checkpoint = at
		s.setSlot(slot, to)
		steps = append(steps, step)
	}
	s.clock++
	at.used = s.clock
	return steps, at
}

// dropChunk drops what need not be kept when the rows go beyond the chunk that begins at a position, and its steps are
// planned: the state before the chunk, and the updates in it.
func (s *states) dropChunk(see []backend.Span, first int) {
	if p := s.passing; first > p.from && first != p.to && first/chunkTokens%keptChunks != 0 {
		slot := slotAt(see, first-1)
		at := s.slots[slot]
		at.checkpoint = nil
		s.setSlot(slot, at)
	}
	if first < s.passing.from || first >= s.passing.to {
		return
	}
	for pos := first; pos < first+chunkTokens; pos++ {
		slot := slotAt(see, pos)
		at := s.slots[slot]
		at.update = nil
		s.setSlot(slot, at)
	}
}

// updatesOf returns the updates of the positions from first to end of a path.
func (s *states) updatesOf(see []backend.Span, first, end int) []*update {
	path := make([]*update, 0, end-first)
	for _, span := range appendVisible(nil, see, first, end-first) {
		for slot := span.From; slot < span.To; slot++ {
			u := s.slots[slot].update
			s.clock++
			u.used = s.clock
			path = append(path, u)
		}
	}
	return path
}

// inputsBefore returns the inputs of the convolution of the last tokens of a path within a chunk.
func (s *states) inputsBefore(base *checkpoint, path []*update) []convInput {
	taps := s.c.Kernel - 1
	inputs := make([]convInput, taps)
	for i := range inputs {
		at := len(path) - taps + i
		switch {
		case at >= 0:
			inputs[i] = convInput{path[at].elements, s.c.UpdateSize(), 0}
		case base != nil:
			inputs[i] = convInput{base.inputs, taps * s.c.Channels(), (taps + at) * s.c.Channels()}
		}
	}
	return inputs
}

// planWindow returns how many of the updates of a path the windows will hold when this step begins, and the others.
func (s *states) planWindow(path []*update) (kept int, load []*update) {
	for kept < len(path) && kept < len(s.loaded) && s.loaded[kept] == path[kept].name {
		kept++
	}
	s.loaded = s.loaded[:kept]
	for _, u := range path[kept:] {
		s.loaded = append(s.loaded, u.name)
	}
	return kept, path[kept:]
}

// undoSteps drops what the steps of a failed pass were to compute.
func undoSteps(steps []deltaStep) {
	for _, step := range steps {
		s := step.states
		s.loaded = s.loaded[:0]
		for slot, at := range s.slots {
			if at.update != nil && slices.Contains(step.updates, at.update) {
				s.setSlot(int32(slot), slotState{})
			} else if step.into != nil && at.checkpoint == step.into {
				at.checkpoint = nil
				s.setSlot(int32(slot), at)
			}
		}
	}
}
