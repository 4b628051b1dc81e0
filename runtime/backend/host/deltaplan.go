package host

import "github.com/pilotfish-ai/pilotfish/runtime/backend/recurrent"

// plannedStep is a step of a pass, for the updates and checkpoints of this backend.
type plannedStep = recurrent.Step[*update, *checkpoint]

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

// follows reports whether the row of a step is that after those of the step before it, in a chunk of a text.
func (s *deltaStep) follows(before *deltaStep) bool {
	n := len(before.updates)
	return n > 0 && s.states == before.states && len(s.load) == 0 && s.kept == before.known()+n
}

// convInput is where a token's input of the convolution is stored: for a layer at layer·stride+first. Before the
// beginning of a text it is zero, and elements nil.
type convInput struct {
	elements      elements
	stride, first int
}

// planSteps plans the steps of a pass. The rows have been checked with [kv.Replay].
func (p *pass) planSteps() {
	if p.kv.states == nil {
		return
	}
	p.planned = map[*states][]plannedStep{}
	for _, run := range p.groupRows(len(p.rows)) {
		first := p.rows[run.first]
		s := first.KVOf(p.kv).(*kv).states
		if s.Pass(0, 0); p.areAlone(run) {
			s.Pass(int(first.Pos), int(first.Pos)+run.n)
		}
		for t := run.first; t < run.first+run.n; t++ {
			before := len(p.planned[s])
			p.planned[s] = s.PlanRow(p.planned[s], p.rows[t], t)
			p.steps = s.deltaSteps(p.steps, p.planned[s][before:])
		}
	}
}

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

// deltaSteps appends what a store does in steps. Rows that follow each other are one step.
func (s *states) deltaSteps(to []deltaStep, steps []plannedStep) []deltaStep {
	for _, from := range steps {
		step := deltaStep{states: s, row: from.Row}
		if from.Base != nil {
			step.base = from.Base.Memory
		}
		step.kept, step.load = s.planWindow(from.Path)
		if from.Into != nil {
			step.into = from.Into.Memory
		} else {
			s.loaded = append(s.loaded, from.Update.Name)
			if n := len(to); n > 0 && step.follows(&to[n-1]) {
				to[n-1].updates = append(to[n-1].updates, from.Update.Memory)
				continue
			}
			step.updates = []*update{from.Update.Memory}
		}
		step.inputs = s.convInputs(from.Inputs)
		to = append(to, step)
	}
	return to
}

func (s *states) convInputs(from []recurrent.Input[*update, *checkpoint]) []convInput {
	inputs, channels := make([]convInput, len(from)), s.c.Channels()
	for i, in := range from {
		switch {
		case in.Update != nil:
			inputs[i] = convInput{in.Update.Memory.elements, s.c.UpdateSize(), 0}
		case in.Checkpoint != nil:
			inputs[i] = convInput{in.Checkpoint.Memory.inputs, len(from) * channels, in.Number * channels}
		}
	}
	return inputs
}

// planWindow returns how many of the updates of a path the windows will hold when this step begins, and the others.
func (s *states) planWindow(path []*recurrent.Update[*update]) (kept int, load []*update) {
	for kept < len(path) && kept < len(s.loaded) && s.loaded[kept] == path[kept].Name {
		kept++
	}
	s.loaded = s.loaded[:kept]
	for _, u := range path[kept:] {
		s.loaded = append(s.loaded, u.Name)
		load = append(load, u.Memory)
	}
	return kept, load
}

// undoSteps drops what a failed pass was to compute.
func (p *pass) undoSteps() {
	for s, steps := range p.planned {
		s.loaded = s.loaded[:0]
		s.Undo(steps)
	}
}
