package engine

import (
	"context"
	"slices"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/qwen"
)

// speculationDepth is the number of tokens in flight after the one that the session waits for. They give the device
// work while the host chooses a token and encodes the next one. If a token was not expected, the time of these flights
// is lost.
const speculationDepth = 1

// speculation lets the device of a session evaluate likely next tokens: while the session waits for a token, its
// successors are in flight, and the device takes each token from the flight before it. A successor is the best token,
// or the device's guess at the draw. If the session chooses another token, the flights are dropped, so that the text is
// the same with and without speculation.
type speculation struct {
	depth   int  // 0: never
	off     bool // the device cannot guess what follows
	flights []flight
	token   int32  // the first flight evaluates this token, once the wait for the flight before it is over
	tail    flight // the last one under way
}

// flight is a token that the device evaluates.
type flight struct {
	*qwen.Flight
	row backend.Row
}

// newSpeculation returns the speculation of a new session: none if the device has no flights.
func (e *Engine) newSpeculation() *speculation {
	if e.model.HasFlights() {
		return &speculation{depth: speculationDepth}
	}
	return &speculation{}
}

// speculates reports whether a token with such a head is evaluated in a flight, with others after it. A greedy choice
// among all logits depends on rules or a grammar, which the device cannot follow.
func (s *Session) speculates(want backend.Want) bool {
	a := s.speculation
	return a.depth > 0 && !a.off && !want.Hidden && (!want.Logits || !want.Draw.Greedy())
}

// inFlight is [Session.one] for a session that speculates.
func (s *Session) inFlight(
	ctx context.Context, token int32, path []int32, want backend.Want,
) (int32, *backend.Output, error) {
	done, err := s.e.acquire(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer done()
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

// follow starts others after a flight that the session is about to wait for.
func (s *Session) follow(f flight, want backend.Want) {
	if len(s.speculation.flights) == 0 {
		s.speculation.tail = f
	}
	s.speculate(want)
}

// land waits for a flight. After an error its slot is free, and no flight is left.
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

// adopt returns the first flight if it evaluates token after path.
func (s *Session) adopt(token int32, path []int32) (f flight, ok bool) {
	a := s.speculation
	if len(a.flights) == 0 || a.token != token {
		return f, false
	}
	f = a.flights[0]
	if row := s.cache.Node(token, f.row.Slot, path...); !slices.Equal(row.See, f.row.See) {
		return flight{}, false
	}
	a.flights = slices.Delete(a.flights, 0, 1)
	s.summary.RanAhead++
	return f, true
}

// speculate starts flights after the last one, while there is room.
func (s *Session) speculate(want backend.Want) {
	a := s.speculation
	for len(a.flights) < a.depth && int(a.tail.row.Pos)+1 < s.e.o.Context {
		slot, err := s.cache.Alloc(int(a.tail.row.Pos) + 1)
		if err != nil {
			return
		}
		f := flight{row: qwen.Child(a.tail.row, slot)}
		if f.Flight, err = s.e.model.Start(s.cache.KV(), f.row, want, a.tail.Flight); err != nil {
			s.cache.Free(slot)
			return
		}
		a.flights, a.tail = append(a.flights, f), f
	}
}

// missFlights drops all flights, because another token follows.
func (s *Session) missFlights() {
	s.summary.RanInVain += min(1, len(s.speculation.flights))
	s.dropFlights()
}

// dropFlights drops all flights and frees their slots; the next use of a slot is evaluated after its flight. The caller
// holds the model.
func (s *Session) dropFlights() {
	for _, f := range s.speculation.flights {
		f.Drop()
		s.cache.Free(f.row.Slot)
	}
	s.speculation.flights = s.speculation.flights[:0]
}

// alloc takes a slot for a token at pos, from a flight if no other is free.
func (s *Session) alloc(pos int) (int32, error) {
	slot, err := s.cache.Alloc(pos)
	if err != nil {
		s.dropFlights()
		slot, err = s.cache.Alloc(pos)
	}
	return slot, err
}

// settle makes the tokens in path settled text. Flights stay if no token has to move.
func (s *Session) settle(path ...int32) []qwen.Move {
	if s.e.model.HasFlights() { // keys and values may move in the device's memory
		done, err := s.e.acquire(context.Background())
		if err != nil {
			return nil // closed: the session is empty
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

// stopFlights drops all flights at the end of a text.
func (s *Session) stopFlights() {
	if len(s.speculation.flights) == 0 {
		return
	}
	done, err := s.e.acquire(context.Background())
	if err != nil {
		s.speculation.flights = nil // closed: the device has waited for them
		return
	}
	defer done()
	s.dropFlights()
}
