package engine

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

// speculationDepth is the number of tokens in flight after the one that the session waits for. They give the device
// work while the host chooses a token and encodes the next one. If a token was not expected, the time of these passes
// is lost.
const speculationDepth = 1

// speculation lets the device of a session evaluate likely next tokens: while the session waits for a token, its
// successors are in flight, and the device takes each token from the pass before it. A successor is the best token, or
// the device's guess at the draw. If the session chooses another token, the passes are dropped, so that the text is the
// same with and without speculation.
type speculation struct {
	depth  int  // 0: never
	off    bool // the device cannot guess what follows
	passes []speculativePass
	token  int32           // the first pass evaluates this token, once the wait for the pass before it is over
	tail   speculativePass // the last one under way
}

// speculativePass is a token that the device evaluates.
type speculativePass struct {
	*qwen.Flight
	row backend.Row
}

func (e *Engine) newSpeculation() *speculation {
	if e.model.HasFlights() {
		return &speculation{depth: speculationDepth}
	}
	return &speculation{}
}

// canSpeculate reports whether a token with such a head is evaluated in a speculative pass, with others after it. A
// greedy choice among all logits depends on rules or a grammar, which the device cannot follow.
func (s *Session) canSpeculate(want backend.Want) bool {
	a := s.speculation
	return a.depth > 0 && !a.off && !want.Hidden && (!want.Logits || !want.Draw.Greedy())
}

func (s *Session) evaluateSpeculative(
	ctx context.Context, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	done, err := s.e.acquireModel(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer done()
	f, found := s.acceptSpeculativePass(token, path)
	if !found {
		s.rejectSpeculativePasses()
		pos := s.cache.Len() + len(path)
		slot, err := s.allocSlot(pos)
		if err != nil {
			return 0, nil, err
		}
		f.row = s.cache.Node(token, slot, path...)
		if f.Flight, err = s.e.model.Start(s.cache.KV(), f.row, want, nil); err != nil {
			s.cache.Free(slot)
			return 0, nil, err
		}
	}
	s.startSuccessors(f, want)
	out, err := s.awaitSpeculativePass(ctx, f)
	return f.row.Slot, out, err
}

func (s *Session) startSuccessors(f speculativePass, want backend.Want) {
	if len(s.speculation.passes) == 0 {
		s.speculation.tail = f
	}
	s.startSpeculativePasses(want)
}

// After an error the slot of the pass is free, and no speculative pass is left.
func (s *Session) awaitSpeculativePass(ctx context.Context, f speculativePass) (*backend.Output, error) {
	out, err := f.Wait(ctx)
	if err != nil {
		s.dropSpeculativePasses()
		s.cache.Free(f.row.Slot)
		return nil, err
	}
	s.speculation.token = out.Next
	return out, nil
}

func (s *Session) acceptSpeculativePass(token int32, path []int32) (f speculativePass, ok bool) {
	a := s.speculation
	if len(a.passes) == 0 || a.token != token {
		return f, false
	}
	f = a.passes[0]
	if row := s.cache.Node(token, f.row.Slot, path...); !slices.Equal(row.See, f.row.See) {
		return speculativePass{}, false
	}
	a.passes = slices.Delete(a.passes, 0, 1)
	s.summary.RanAhead++
	return f, true
}

func (s *Session) startSpeculativePasses(want backend.Want) {
	a := s.speculation
	for len(a.passes) < a.depth && int(a.tail.row.Pos)+1 < s.e.o.Context {
		slot, err := s.cache.Alloc(int(a.tail.row.Pos) + 1)
		if err != nil {
			return
		}
		f := speculativePass{row: qwen.Child(a.tail.row, slot)}
		if f.Flight, err = s.e.model.Start(s.cache.KV(), f.row, want, a.tail.Flight); err != nil {
			s.cache.Free(slot)
			return
		}
		a.passes, a.tail = append(a.passes, f), f
	}
}

func (s *Session) rejectSpeculativePasses() {
	s.summary.RanInVain += min(1, len(s.speculation.passes))
	s.dropSpeculativePasses()
}

// dropSpeculativePasses drops all passes and frees their slots; the next use of a slot is evaluated after its pass. The
// caller holds the model.
func (s *Session) dropSpeculativePasses() {
	for _, f := range s.speculation.passes {
		f.Drop()
		s.cache.Free(f.row.Slot)
	}
	s.speculation.passes = s.speculation.passes[:0]
}

func (s *Session) allocSlot(pos int) (int32, error) {
	slot, err := s.cache.Alloc(pos)
	if err != nil {
		s.dropSpeculativePasses()
		slot, err = s.cache.Alloc(pos)
	}
	return slot, err
}

// settleSlots makes the tokens in path settled text. Speculative passes stay if no token has to move.
func (s *Session) settleSlots(path ...int32) []qwen.Move {
	if s.e.model.HasFlights() { // keys and values may move in the device's memory
		done, err := s.e.acquireModel(context.Background())
		if err != nil {
			return nil // closed: the session is empty
		}
		defer done()
	}
	for i, slot := range path {
		if int(slot) != s.cache.Len()+i {
			s.dropSpeculativePasses()
			break
		}
	}
	return s.cache.Settle(path...)
}

func (s *Session) stopSpeculativePasses() {
	if len(s.speculation.passes) == 0 {
		return
	}
	done, err := s.e.acquireModel(context.Background())
	if err != nil {
		s.speculation.passes = nil // closed: the device has waited for them
		return
	}
	defer done()
	s.dropSpeculativePasses()
}
