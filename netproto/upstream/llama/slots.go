package llama

import (
	"container/list"
	"sync"
)

// maxSlots is more than any server has.
const maxSlots = 1 << 16

// slots gives sessions the slots of a server, where it keeps what it has computed. A session keeps its slot until more
// sessions than slots are in use: then a new one takes the slot that was used longest ago and has no request under way,
// or of those that have, the one with the fewest. Several requests of a session go to one slot, one after the other:
// they have most of their context in common.
type slots struct {
	mu      sync.Mutex
	all     list.List // of *slot, the one used longest ago first
	of      map[uint64]*list.Element
	evicted uint64 // sessions that lost their slot to another one
}

type slot struct {
	number  int
	session uint64
	taken   bool // by the session
	open    int  // requests under way
}

func newSlots(n int) *slots {
	s := &slots{of: map[uint64]*list.Element{}}
	s.resize(n)
	return s
}

// resize makes it n slots that nobody has, unless it has n already.
func (s *slots) resize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.Len() == n {
		return
	}
	s.all.Init()
	clear(s.of)
	for i := range n {
		s.all.PushBack(&slot{number: i})
	}
}

// take returns the number of a session's slot, -1 where the server is to choose, and what ends its use.
func (s *slots) take(session uint64) (number int, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of[session]
	if e == nil {
		if e = s.idle(); e == nil {
			return -1, func() {}
		}
		x := e.Value.(*slot)
		if x.taken {
			delete(s.of, x.session)
			s.evicted++
		}
		x.session, x.taken = session, true
		s.of[session] = e
	}
	x := e.Value.(*slot)
	x.open++
	s.all.MoveToBack(e)
	return x.number, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.open--
	}
}

// idle returns the slot that a new session gets; nil where there are none.
func (s *slots) idle() (best *list.Element) {
	for e := s.all.Front(); e != nil; e = e.Next() {
		x := e.Value.(*slot)
		if !x.taken && x.open == 0 {
			return e
		}
		if best == nil || x.open < best.Value.(*slot).open {
			best = e
		}
	}
	return best
}

// forget gives back the slot of a session.
func (s *slots) forget(session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[session]; e != nil {
		delete(s.of, session)
		e.Value.(*slot).taken = false
	}
}
