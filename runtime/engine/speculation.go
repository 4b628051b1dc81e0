package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// speculationDepth is the number of tokens in flight after the one that the session waits for. They give the device
// work while the host chooses a token and encodes the next one. If a token was not expected, the time of these passes
// is lost.
const speculationDepth = 1

// speculation lets the device of a session evaluate likely next tokens: while the session waits for a token, its
// successors are in flight, and the device takes each token from the pass before it. A successor is the best token, or
// the device's guess at the draw. If the session chooses another token, the passes are dropped, so that the text is the
// same with and without speculation.
//
// Each pass holds a slot of the session's cache, the one after that of the pass before it. Passes only begin, and are
// only dropped, while the caller holds the model.
type speculation struct {
	e       *Engine
	summary *Summary // of the text: how often passes ran ahead or in vain
	depth   int      // 0: never
	off     bool     // the device cannot guess what follows
	passes  []speculativePass
	token   int32           // the first pass evaluates this token, once the wait for the pass before it is over
	tail    speculativePass // the last one under way
}

// speculativePass is a token that the device evaluates.
type speculativePass struct {
	*transformer.Flight
	row backend.Row
}

func newSpeculation(e *Engine, s *Summary) *speculation {
	a := &speculation{e: e, summary: s}
	if e.model.HasFlights() {
		a.depth = speculationDepth
	}
	return a
}

// canSpeculate reports whether a token with such a head is evaluated in a speculative pass, with others after it. A
// greedy choice among all logits depends on rules or a grammar, which the device cannot follow.
func (a *speculation) canSpeculate(want backend.Want) bool {
	return a.depth > 0 && !a.off && !want.Hidden && (!want.Logits || !want.Draw.Greedy())
}

// evaluateToken repeats a pass in which the device has failed, once.
func (a *speculation) evaluateToken(
	ctx context.Context, c *transformer.Cache, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	done, err := a.e.acquireModel(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer done()
	slot, out, err := a.evaluateOnce(ctx, c, token, path, want)
	if errors.Is(err, backend.ErrFault) {
		slot, out, err = a.evaluateOnce(ctx, c, token, path, want)
	}
	return slot, out, err
}

func (a *speculation) evaluateOnce(
	ctx context.Context, c *transformer.Cache, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	f, found := a.acceptPass(c, token, path)
	if !found {
		a.rejectPasses(c)
		pos := c.Len() + len(path)
		slot, err := a.allocSlot(c, pos)
		if err != nil {
			return 0, nil, err
		}
		f.row = c.Node(token, slot, path...)
		if f.Flight, err = a.e.model.Start(c.KV(), f.row, want, nil); err != nil {
			c.Free(slot)
			return 0, nil, err
		}
	}
	a.startSuccessors(c, f, want)
	out, err := a.awaitPass(ctx, c, f)
	return f.row.Slot, out, err
}

func (a *speculation) startSuccessors(c *transformer.Cache, f speculativePass, want backend.Want) {
	if len(a.passes) == 0 {
		a.tail = f
	}
	a.startPasses(c, want)
}

// After an error the slot of the pass is free, and no speculative pass is left.
func (a *speculation) awaitPass(ctx context.Context, c *transformer.Cache, f speculativePass) (*backend.Output, error) {
	out, err := f.Wait(ctx)
	if err != nil {
		a.dropPasses(c)
		c.Free(f.row.Slot)
		return nil, err
	}
	a.token = out.Next
	return out, nil
}

func (a *speculation) acceptPass(c *transformer.Cache, token int32, path []int32) (f speculativePass, ok bool) {
	if len(a.passes) == 0 || a.token != token {
		return f, false
	}
	f = a.passes[0]
	if row := c.Node(token, f.row.Slot, path...); !slices.Equal(row.See, f.row.See) {
		return speculativePass{}, false
	}
	a.passes = slices.Delete(a.passes, 0, 1)
	a.summary.RanAhead++
	return f, true
}

func (a *speculation) startPasses(c *transformer.Cache, want backend.Want) {
	for len(a.passes) < a.depth && int(a.tail.row.Pos)+1 < a.e.o.Context {
		slot, err := c.Alloc(int(a.tail.row.Pos) + 1)
		if err != nil {
			return
		}
		f := speculativePass{row: transformer.Child(a.tail.row, slot)}
		if f.Flight, err = a.e.model.Start(c.KV(), f.row, want, a.tail.Flight); err != nil {
			c.Free(slot)
			return
		}
		a.passes, a.tail = append(a.passes, f), f
	}
}

func (a *speculation) rejectPasses(c *transformer.Cache) {
	a.summary.RanInVain += min(1, len(a.passes))
	a.dropPasses(c)
}

// dropSpeculativePasses drops all passes and frees their slots; the next use of a slot is evaluated after its pass. The
// caller holds the model.
func (a *speculation) dropPasses(c *transformer.Cache) {
	for _, f := range a.passes {
		f.Drop()
		c.Free(f.row.Slot)
	}
	a.passes = a.passes[:0]
}

func (a *speculation) allocSlot(c *transformer.Cache, pos int) (int32, error) {
	slot, err := c.Alloc(pos)
	if err != nil {
		a.dropPasses(c)
		slot, err = c.Alloc(pos)
	}
	return slot, err
}

// settleSlots makes the tokens in path settled text. Speculative passes stay if no token has to move.
func (a *speculation) settleSlots(c *transformer.Cache, path ...int32) []transformer.Move {
	if a.e.model.HasFlights() { // keys and values may move in the device's memory
		done, err := a.e.acquireModel(context.Background())
		if err != nil {
			return nil // closed: the session is empty
		}
		defer done()
	}
	for i, slot := range path {
		if int(slot) != c.Len()+i {
			a.dropPasses(c)
			break
		}
	}
	return c.Settle(path...)
}

func (a *speculation) stopPasses(c *transformer.Cache) {
	if len(a.passes) == 0 {
		return
	}
	done, err := a.e.acquireModel(context.Background())
	if err != nil {
		a.passes = nil // closed: the device has waited for them
		return
	}
	defer done()
	a.dropPasses(c)
}
