package engine

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen2"
)

// speculationDepth is how many tokens are evaluated, or about to be, beyond the one that is waited for: the device then
// has work while the token is looked at and the next one encoded, and what is asked for instead of the expected token,
// after an escalation too, waits for as many evaluations in vain.
const speculationDepth = 1

// speculation has the device of a session evaluate what is likely to be asked for next: while a token is waited for,
// its successor is evaluated, and the one after that if the depth says so, each taken over on the device. It is the
// best one, or where tokens are drawn the device's guess at the draw. If the session asks for another one, those
// flights are dropped, so that the text is the same with them and without.
type speculation struct {
	depth   int  // 0: never
	off     bool // nobody can tell on the device what will be asked for
	flights []flight
	token   int32  // that the first flight evaluates; known once the one before it has been waited for
	tail    flight // the last one under way
}

// flight is a token under way.
type flight struct {
	*qwen2.Flight
	row backend.Row
}

// newSpeculation returns the speculation of a new session, which is none where the device has no flights.
func (e *Engine) newSpeculation() *speculation {
	if e.model.HasFlights() {
		return &speculation{depth: speculationDepth}
	}
	return &speculation{}
}

// speculates reports whether a token with such a head is evaluated in a flight, with others behind it. A choice among
// all logits that is not drawn is one by rules or a grammar, of which the device knows nothing.
func (s *Session) speculates(want backend.Want) bool {
	a := s.speculation
	return a.depth > 0 && !a.off && !want.Hidden && (!want.Logits || !want.Draw.Greedy())
}

// inFlight is [Session.one] where the session speculates.
func (s *Session) inFlight(
	ctx context.Context, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	done, err := s.e.acquire(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer done()
	s.e.label(ctx)
	f, found := s.adopt(token, path)
	if !found {
		s.missFlights()
		pos := s.cache.Len() + len(path)
		slot, err := s.alloc(pos)
		if err != nil {
			return 0, nil, err
		}
		f.row = s.cache.Node(token, slot, path...)
		if f.Flight, err = s.e.model.Start(s.cache.KV(), f.row, want, nil); err != nil {
			s.cache.Free(slot)
			return 0, nil, err
		}
	}
	s.follow(f, want)
	out, err := s.land(ctx, f)
	return f.row.Slot, out, err
}

// follow lets others run behind a flight that is about to be waited for.
func (s *Session) follow(f flight, want backend.Want) {
	if len(s.speculation.flights) == 0 {
		s.speculation.tail = f
	}
	s.speculate(want)
}

// land waits for a flight. After an error its slot is free, and there are no other flights.
func (s *Session) land(ctx context.Context, f flight) (*backend.Output, error) {
	out, err := f.Wait(ctx)
	if err != nil {
		s.dropFlights()
		s.cache.Free(f.row.Slot)
		return nil, err
	}
	s.speculation.token = out.Next
	return out, nil
}

// adopt returns the first flight if it is what is asked for.
func (s *Session) adopt(token int32, path []int32) (f flight, ok bool) {
	a := s.speculation
	if len(a.flights) == 0 || a.token != token {
		return f, false
	}
	f = a.flights[0]
	row := s.cache.Node(token, f.row.Slot, path...)
	if row.Pos != f.row.Pos || !slices.Equal(row.See, f.row.See) {
		return flight{}, false
	}
	a.flights = slices.Delete(a.flights, 0, 1)
	s.summary.RanAhead++
	return f, true
}

// speculate starts flights behind the last one, as far as there is room for them.
func (s *Session) speculate(want backend.Want) {
	a := s.speculation
	for len(a.flights) < a.depth && int(a.tail.row.Pos)+1 < s.e.o.Context {
		slot, err := s.cache.Alloc(int(a.tail.row.Pos) + 1)
		if err != nil {
			return
		}
		f := flight{row: qwen2.Child(a.tail.row, slot)}
		if f.Flight, err = s.e.model.Start(s.cache.KV(), f.row, want, a.tail.Flight); err != nil {
			s.cache.Free(slot)
			return
		}
		a.flights, a.tail = append(a.flights, f), f
	}
}

// missFlights drops all flights, as another token is asked for.
func (s *Session) missFlights() {
	s.summary.RanInVain += min(1, len(s.speculation.flights))
	s.dropFlights()
}

// dropFlights drops all flights and frees their slots. Whoever takes them next is evaluated after it. The caller may
// use the model.
func (s *Session) dropFlights() {
	for _, f := range s.speculation.flights {
		f.Drop()
		s.cache.Free(f.row.Slot)
	}
	s.speculation.flights = s.speculation.flights[:0]
}

// alloc takes a slot for a token at pos, if need be one of a flight.
func (s *Session) alloc(pos int) (int32, error) {
	slot, err := s.cache.Alloc(pos)
	if err != nil && len(s.speculation.flights) > 0 {
		s.dropFlights()
		slot, err = s.cache.Alloc(pos)
	}
	return slot, err
}

// settle makes the tokens in path settled text. Flights stay where all of these are in their place already: then none
// has to move.
func (s *Session) settle(path ...int32) []qwen2.Move {
	if s.e.model.HasFlights() { // keys and values may move in the device's memory
		done, err := s.e.acquire(context.Background())
		if err != nil {
			return nil // closed: the session holds nothing any more
		}
		defer done()
	}
	for i, slot := range path {
		if int(slot) != s.cache.Len()+i {
			s.dropFlights()
			break
		}
	}
	return s.cache.Settle(path...)
}

// stopFlights drops all flights when nothing more is wanted.
func (s *Session) stopFlights() {
	if len(s.speculation.flights) == 0 {
		return
	}
	done, err := s.e.acquire(context.Background())
	if err != nil {
		s.speculation.flights = nil // closed, and the device has waited for them
		return
	}
	defer done()
	s.dropFlights()
}
