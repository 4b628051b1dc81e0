package transformer

import (
	"context"
	"errors"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Flight is an evaluation of one row that runs concurrently with its caller. It ends with Wait or Drop.
type Flight struct {
	m    *Model
	row  backend.Row
	want backend.Want
	out  []backend.Output
	p    backend.Flight
}

// HasFlights reports whether the device supports flights for this model. Rows of recurrent layers may have to be
// evaluated again, for which their tokens must be known.
func (m *Model) HasFlights() bool {
	_, ok := m.device.(backend.Runner)
	return ok && m.config.Recurrent == nil
}

// Start begins to evaluate one row, and does not wait. The token of the row is the one that after hands on: the best
// one, or its guess with [backend.Want].Draw. If after is nil it is row.Token. Flights run in the order of Start,
// before any later [Model.Forward]. want must not include hidden states.
func (m *Model) Start(kv backend.KV, row backend.Row, want backend.Want, after *Flight) (*Flight, error) {
	device, ok := m.device.(backend.Runner)
	if !ok || !m.HasFlights() || want.Hidden {
		return nil, errors.New("the device has no flights, or not for what is wanted")
	}
	if !m.uses.Take() {
		return nil, gguf.ErrClosed
	}
	defer m.uses.Give()
	if after != nil {
		row.Token = 0
	}
	f := &Flight{
		m: m, row: row,
		want: backend.Want{Rows: []int{0}, K: want.K, Logits: want.Logits, Router: want.Router, Draw: want.Draw},
		out:  make([]backend.Output, 1),
	}
	if err := m.checkBatch(kv, []backend.Row{row}, f.out, f.want); err != nil {
		return nil, err
	}
	if after == nil {
		f.p = device.BeginAlone(kv, row)
	} else {
		f.p = device.BeginAfter(after.p, kv, row)
	}
	m.encodePass(context.Background(), f.p, f.out, f.want)
	f.p.Commit()
	return f, nil
}

// Wait returns the output of the head. After an error the slot of the row is undefined.
func (f *Flight) Wait(ctx context.Context) (*backend.Output, error) {
	if !f.m.uses.Take() {
		return nil, gguf.ErrClosed
	}
	defer f.m.uses.Give()
	if err := f.p.Wait(ctx); err != nil {
		return nil, err
	}
	backend.TellRun(ctx, f.p, 1)
	return &f.out[0], checkFinite([]backend.Row{f.row}, f.out, f.want)
}

// Drop discards the result. The row is evaluated nevertheless: its slot is written before that of any flight started
// later.
func (f *Flight) Drop() {
	if f.m.uses.Take() {
		defer f.m.uses.Give()
		f.p.Drop()
	}
}

// Child returns the row of a token that follows that of row, in another slot.
func Child(row backend.Row, slot int32) backend.Row {
	see := append(make([]backend.Span, 0, len(row.See)+1), row.See...)
	return backend.Row{Pos: row.Pos + 1, Slot: slot, See: backend.AppendSlot(see, slot)}
}
