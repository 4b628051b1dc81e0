package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/metal"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Begin implements [backend.Device]. The passes of this device are flights.
func (d *Device) Begin(store backend.KV, rows []backend.Row) backend.Pass {
	return d.beginPass(store.(*kv), rows)
}

// BeginAlone implements [backend.Runner].
func (d *Device) BeginAlone(store backend.KV, row backend.Row) backend.Flight {
	return d.beginFlight(store.(*kv), row)
}

// beginFlight refuses stores with recurrent states: the token of a row has to be known for a replay.
func (d *Device) beginFlight(store *kv, row backend.Row) *pass {
	p := d.beginPass(store, []backend.Row{row})
	if store.states != nil {
		p.recordError(errors.New("this device has no flights with recurrent states"))
	}
	return p
}

// BeginAfter implements [backend.Runner]. The gather of the embedding reads the token where the merge of before leaves
// it.
func (d *Device) BeginAfter(before backend.Flight, store backend.KV, row backend.Row) backend.Flight {
	b := before.(*pass)
	row.Token = 0 // any valid token
	p := d.beginFlight(store.(*kv), row)
	if b.head == nil || !b.head.givesNextToken() {
		p.recordError(errors.New("a pass after one that does not find its token on the device"))
		return p
	}
	p.tokens = startOf(b.frame.result)
	return p
}

func (d *Device) beginPass(store *kv, rows []backend.Row) *pass {
	if d.faulty { // the device has to be free of what failed
		d.waitForPasses(nil)
		d.faulty = false
	}
	p := &pass{d: d, kv: store, n: len(rows), rows: rows, frame: d.acquireFrame()}
	if p.err = p.frame.fillRows(d, p.kv, rows); p.err != nil {
		return p
	}
	if p.planRule(nil); p.err != nil {
		return p
	}
	p.tokens = p.frame.tokens
	p.c, p.err = d.metal.NewCommands()
	return p
}

// End implements [backend.Pass]. When it returns, with or without an error, the device has finished the pass.
func (p *pass) End(ctx context.Context) error {
	if p.err == nil {
		p.err = context.Cause(ctx)
	}
	p.Commit()
	return p.Wait(ctx)
}

func (p *pass) Commit() {
	p.flushDeferred(nil)
	if p.err == nil {
		p.c.Commit()
		p.committed = append(p.committed, p.c)
	} else if p.c != nil {
		p.c.Discard()
	}
	if len(p.committed) > 0 { // after an error, a part of the pass runs
		p.d.flights = append(p.d.flights, p)
	} else {
		p.landed = true
	}
}

// cutPass commits what is encoded so far, and continues in another command buffer, which runs after it: the system ends
// a command buffer that keeps the GPU from the screen for seconds.
func (p *pass) cutPass() {
	p.c.Commit()
	p.committed, p.work = append(p.committed, p.c), 0
	p.frame.leavePiece() // the device may read that one
	c, err := p.d.metal.NewCommands()
	if p.c = c; err != nil {
		p.c = nil
		p.recordError(err)
	}
}

// waitForParts waits for all command buffers of the pass.
func (p *pass) waitForParts() {
	for i, c := range p.committed {
		ran, err := c.Wait()
		if err != nil {
			if errors.Is(err, metal.ErrFault) {
				p.d.faulty = true
				err = fmt.Errorf("%w: %w", backend.ErrFault, err)
			}
			p.recordError(fmt.Errorf("%s: %w", p.d.Name(), err))
		}
		if i == 0 {
			p.ran.Start = ran.Start
		}
		p.ran.End = ran.End
	}
	p.committed, p.landed = nil, true
}

func (p *pass) Wait(ctx context.Context) error {
	p.d.waitForPasses(p)
	if p.err == nil {
		p.err = context.Cause(ctx)
	}
	if p.err == nil && p.head != nil {
		p.head.readResults(p)
	}
	if p.err != nil && p.kv.states != nil {
		p.kv.states.Undo(p.planned)
	}
	if p.err == nil {
		p.d.mu.Lock()
		p.d.last = p.stats
		p.d.mu.Unlock()
	}
	p.d.releaseFrame(p)
	return p.err
}

func (p *pass) Ran() (begin, end time.Duration) { return p.ran.Start, p.ran.End }

func (p *pass) Drop() {
	if p.dropped = true; p.landed {
		p.d.releaseFrame(p)
	}
}

// waitForPasses waits for the passes in flight, in order, up to last; nil means all.
func (d *Device) waitForPasses(last *pass) {
	n := len(d.flights)
	if last != nil {
		n = slices.Index(d.flights, last) + 1 // 0 if it has landed
	}
	for _, p := range d.flights[:n] {
		if p.waitForParts(); p.dropped {
			d.releaseFrame(p)
		}
	}
	d.flights = slices.Delete(d.flights, 0, n)
}

func (d *Device) acquireFrame() *frame {
	if n := len(d.spare); n > 0 {
		f := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return f
	}
	f := new(frame)
	d.frames = append(d.frames, f)
	return f
}

func (d *Device) releaseFrame(p *pass) {
	if p.frame != nil {
		d.spare = append(d.spare, p.frame)
		p.frame = nil
	}
}
