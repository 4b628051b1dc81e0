package recurrent

import (
	"math"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Step is a part of a pass that each recurrent layer computes: the update and the output of a row or, with Into, the
// state at the end of a chunk. A step may use what those before it compute.
type Step[U, C any] struct {
	Base   *Checkpoint[C] // before the chunk; nil at the beginning of a text
	Path   []*Update[U]   // of the tokens of the chunk before the row, or of the whole chunk
	Inputs []Input[U, C]  // of the convolution: of the tokens before the row, or the last of the chunk; oldest first

	Row    int // of the pass
	Update *Update[U]
	Into   *Checkpoint[C]
}

// Input is where a token's input of the convolution is: in its update, or as one of the inputs of a checkpoint, oldest
// first. Before the beginning of a text it is zero, and there is neither.
type Input[U, C any] struct {
	Update     *Update[U]
	Checkpoint *Checkpoint[C]
	Number     int
}

// PlanRow appends the steps for a row, which [Replay] has been asked about, and its number in the pass.
func (s *States[U, C]) PlanRow(steps []Step[U, C], r backend.Row, row int) []Step[U, C] {
	first := int(r.Pos) / backend.DeltaChunk * backend.DeltaChunk
	steps, base := s.planCheckpoint(steps, r.See, first)
	path := s.updatesOf(r.See, first, int(r.Pos))
	u := s.newUpdate(int(r.Pos))
	s.set(r.Slot, slot[U, C]{known: true, token: r.Token, update: u})
	return append(steps, Step[U, C]{Base: base, Path: path, Inputs: s.inputsBefore(base, path), Row: row, Update: u})
}

// passing are the positions of a run of rows that are planned, from the first one to before the end of the text whose
// updates need not be kept.
type passing struct{ from, to int }

// keptChunks is the number of chunks at the end of a long run of rows that keep the updates of their tokens, and the
// distance, in chunks, of the states that are kept.
const keptChunks = 8

// Pass says that the next rows to be planned, which follow each other in a text, are those of the positions from one to
// before another, and that no other rows of the pass see them. What so long a text would soon drop uses the same memory
// again: a backend that says so runs the steps in their order. Pass(0, 0) ends it.
func (s *States[U, C]) Pass(from, to int) {
	s.passing = passing{from: math.MaxInt}
	if to -= keptChunks*backend.DeltaChunk + 1; to > from {
		s.passing = passing{from, to / backend.DeltaChunk * backend.DeltaChunk}
	}
}

// dropChunk drops what need not be kept when the rows go beyond the chunk that begins at a position, and its steps are
// planned: the state before the chunk, and the updates in it.
func (s *States[U, C]) dropChunk(see []backend.Span, first int) {
	if p := s.passing; first > p.from && first != p.to && first/backend.DeltaChunk%keptChunks != 0 {
		slot := slotAt(see, first-1)
		at := s.slots[slot]
		at.checkpoint = nil
		s.set(slot, at)
	}
	end := min(first+backend.DeltaChunk, s.passing.to)
	for pos := first; first >= s.passing.from && pos < end; pos++ {
		slot := slotAt(see, pos)
		at := s.slots[slot]
		at.update = nil
		s.set(slot, at)
	}
}

// planCheckpoint returns the state before the chunk that begins at first, with the steps that compute it if there is
// none.
func (s *States[U, C]) planCheckpoint(
	steps []Step[U, C], see []backend.Span, first int,
) ([]Step[U, C], *Checkpoint[C]) {
	if first == 0 {
		return steps, nil
	}
	slot := slotAt(see, first-1)
	point := s.slots[slot].checkpoint
	if point == nil {
		before := first - backend.DeltaChunk
		var base *Checkpoint[C]
		steps, base = s.planCheckpoint(steps, see, before)
		path := s.updatesOf(see, before, first)
		s.dropChunk(see, before)
		point = s.newCheckpoint(first)
		at := s.slots[slot]
		at.checkpoint = point
		s.set(slot, at)
		steps = append(steps, Step[U, C]{Base: base, Path: path, Inputs: s.inputsBefore(base, path), Into: point})
	}
	s.clock++
	point.used = s.clock
	return steps, point
}

// updatesOf returns the updates of the positions from first to end of a path.
func (s *States[U, C]) updatesOf(see []backend.Span, first, end int) []*Update[U] {
	path := make([]*Update[U], 0, end-first)
	for _, span := range backend.AppendVisible(nil, see, first, end-first) {
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
func (s *States[U, C]) inputsBefore(base *Checkpoint[C], path []*Update[U]) []Input[U, C] {
	inputs := make([]Input[U, C], s.taps)
	for i := range inputs {
		at := len(path) - s.taps + i
		switch {
		case at >= 0:
			inputs[i].Update = path[at]
		case base != nil:
			inputs[i].Checkpoint, inputs[i].Number = base, s.taps+at
		}
	}
	return inputs
}

// Undo drops what the steps of a failed pass were to compute. Tokens stay known: a row that was evaluated again has its
// keys and values still, as they were only to be written once more.
func (s *States[U, C]) Undo(steps []Step[U, C]) {
	updates, checkpoints := map[*Update[U]]bool{}, map[*Checkpoint[C]]bool{}
	for _, step := range steps {
		if step.Into != nil {
			checkpoints[step.Into] = true
		} else {
			updates[step.Update] = true
		}
	}
	for i, at := range s.slots {
		if updates[at.update] {
			at.update = nil
		}
		if checkpoints[at.checkpoint] {
			at.checkpoint = nil
		}
		if at != s.slots[i] {
			s.set(int32(i), at)
		}
	}
}
