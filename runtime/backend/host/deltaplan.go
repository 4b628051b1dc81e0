package host

import "github.com/pilotfish-ai/pilotfish/runtime/backend/recurrent"

// plannedStep is a step of a pass, for the updates and checkpoints of this backend.
type plannedStep = recurrent.Step[*update, *checkpoint]

// deltaStep is a part of a pass that each recurrent layer computes: the update and the output of a row or, with into,
// the state at the end of a chunk.
type deltaStep struct {
	states *states
	base   *checkpoint // before the chunk; nil at the beginning of a text
	kept   int         // updates of the chunk that the windows hold
	load   []*update   // those after them, which are loaded first
	inputs []convInput // of the tokens before the row, or of the last tokens of the chunk: oldest first

	row    int // of the pass
	update *update
	into   *checkpoint
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
	for t, r := range p.rows {
		s := r.KVOf(p.kv).(*kv).states
		before := len(p.planned[s])
		p.planned[s] = s.PlanRow(p.planned[s], r, t)
		p.steps = s.deltaSteps(p.steps, p.planned[s][before:])
	}
}

// deltaSteps appends what a store does in steps.
func (s *states) deltaSteps(to []deltaStep, steps []plannedStep) []deltaStep {
	for _, from := range steps {
		step := deltaStep{states: s, row: from.Row, inputs: s.convInputs(from.Inputs)}
		if from.Base != nil {
			step.base = from.Base.Memory
		}
		step.kept, step.load = s.planWindow(from.Path)
		if from.Into != nil {
			step.into = from.Into.Memory
		} else {
			step.update = from.Update.Memory
			s.loaded = append(s.loaded, from.Update.Name)
		}
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
