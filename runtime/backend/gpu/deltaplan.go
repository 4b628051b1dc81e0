package gpu

import (
	"context"
	"unsafe"

	"github.com/pilotfish-ai/pilotfish/kernels"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/backend/recurrent"
)

// plannedStep is a step of a pass, with the numbers of updates and checkpoints.
type plannedStep = recurrent.Step[uint32, uint32]

// rulePlan holds the tables of the convolution and the rule for a pass, which are the same for all layers.
type rulePlan struct {
	rows     []kernels.ConvRow // of the pass, and then the ends of chunks
	sources  []kernels.ConvSource
	decaying []uint32 // rows of the pass
	steps    []kernels.DeltaStep
	path     []uint32 // updates
	places   rulePlaces
}

// rulePlaces are the places of the tables in a buffer.
type rulePlaces struct{ rows, sources, decaying, steps, path binding }

// planner fills a rulePlan. What a pass itself computes of updates and checkpoints is not there yet when the
// convolution runs: it reads the projections instead.
type planner struct {
	*rulePlan
	taps   int
	rowOf  map[*recurrent.Update[uint32]]int // of the pass, that computes it
	inputs map[*recurrent.Checkpoint[uint32]][]kernels.ConvSource
}

// fill sets the tables for the steps of a pass.
func (t *rulePlan) fill(c backend.DeltaConfig, steps []plannedStep) {
	t.rows, t.sources, t.decaying, t.steps, t.path = t.rows[:0], t.sources[:0], t.decaying[:0], t.steps[:0], t.path[:0]
	t.places = rulePlaces{}
	f := planner{
		t, c.Kernel - 1, map[*recurrent.Update[uint32]]int{}, map[*recurrent.Checkpoint[uint32]][]kernels.ConvSource{},
	}
	ends := []kernels.ConvRow{}
	for _, s := range steps {
		step := kernels.DeltaStep{
			Base: kernels.NoState, First: uint32(len(t.path)), Tokens: uint32(len(s.Path)), Into: kernels.NoState,
		}
		if s.Base != nil {
			step.Base = s.Base.Memory
		}
		for _, u := range s.Path {
			t.path = append(t.path, u.Memory)
		}
		row := kernels.ConvRow{Source: uint32(len(t.sources))}
		sources := f.sourcesOf(s.Inputs)
		t.sources = append(t.sources, sources...)
		if s.Into != nil {
			step.Into, row.Into = s.Into.Memory, s.Into.Memory
			f.inputs[s.Into] = sources
			ends = append(ends, row)
		} else {
			step.Row, step.Update, row.Into = uint32(s.Row), s.Update.Memory, s.Update.Memory
			f.addDecays(&row, s)
			f.rowOf[s.Update] = s.Row
			t.rows = append(t.rows, row)
		}
		t.steps = append(t.steps, step)
	}
	t.rows = append(t.rows, ends...)
}

func (f *planner) sourcesOf(inputs []recurrent.Input[uint32, uint32]) []kernels.ConvSource {
	sources := make([]kernels.ConvSource, len(inputs))
	for i, in := range inputs {
		switch {
		case in.Checkpoint != nil:
			if own, ok := f.inputs[in.Checkpoint]; ok {
				sources[i] = own[in.Number]
			} else {
				at := int(in.Checkpoint.Memory)*f.taps + in.Number
				sources[i] = kernels.ConvSource{Kind: kernels.FromCheckpoint, At: uint32(at)}
			}
		case in.Update != nil:
			if row, ok := f.rowOf[in.Update]; ok {
				sources[i] = kernels.ConvSource{Kind: kernels.FromRow, At: uint32(row)}
			} else {
				sources[i] = kernels.ConvSource{Kind: kernels.FromUpdate, At: in.Update.Memory}
			}
		}
	}
	return sources
}

// addDecays says which decays row s adds up: from the last token of its chunk on that an earlier pass has computed.
func (f *planner) addDecays(row *kernels.ConvRow, s plannedStep) {
	row.Before, row.Decay = kernels.NoState, uint32(len(f.decaying))
	for _, u := range s.Path {
		if at, ok := f.rowOf[u]; ok {
			f.decaying = append(f.decaying, uint32(at))
		} else {
			row.Before, f.decaying = u.Memory, f.decaying[:row.Decay]
		}
	}
	f.decaying = append(f.decaying, uint32(s.Row))
	row.Decays = uint32(len(f.decaying)) - row.Decay
}

// store copies the tables to the buffer of a frame.
func (t *rulePlan) store(d *Device, to *growableBuffer) error {
	tables := []struct {
		place *binding
		bytes []byte
	}{
		{&t.places.rows, bytesOf(t.rows)}, {&t.places.sources, bytesOf(t.sources)},
		{&t.places.decaying, bytesOf(t.decaying)}, {&t.places.steps, bytesOf(t.steps)},
		{&t.places.path, bytesOf(t.path)},
	}
	total := 0
	for _, table := range tables {
		table.place.offset = total
		total += ceilDiv(len(table.bytes), 16) * 16
	}
	if err := to.growTo(d, total); err != nil {
		return err
	}
	for _, table := range tables {
		if len(table.bytes) > 0 {
			table.place.b = to.Buffer
			copy(to.Bytes()[table.place.offset:], table.bytes)
		}
	}
	return nil
}

func bytesOf[E any](all []E) []byte {
	var e E
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*int(unsafe.Sizeof(e)))
}

// planRule plans the recurrent states of the rows of a pass, after steps, and allocates memory for them.
func (p *pass) planRule(steps []plannedStep) {
	s := p.kv.states
	if s == nil {
		return
	}
	p.planned = steps
	for t, r := range p.rows {
		p.planned = s.PlanRow(p.planned, r, t)
	}
	p.frame.rule.fill(s.c, p.planned)
	p.recordError(s.grow(p.d))
	p.recordError(p.frame.rule.store(p.d, &p.frame.tables))
}

// addChunks computes the states of steps at the end of chunks, outside a pass.
func (d *Device) addChunks(store *kv, steps []plannedStep) error {
	if len(steps) == 0 {
		d.waitForPasses(nil)
		return nil
	}
	p := d.beginPass(store, nil)
	if p.err == nil {
		p.planRule(steps)
	}
	for layer := range store.states.c.Layers {
		if p.err == nil {
			p.beginLevel()
			p.encodeRule(&delta{c: store.states.c}, binding{}, layer)
		}
	}
	return p.End(context.Background())
}
