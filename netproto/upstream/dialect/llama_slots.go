package dialect

import (
	"container/list"
	"sync"
)

// maxSlots exceeds the number of slots of any server.
const maxSlots = 1 << 16

// slots assigns the slots of a server, each with its KV cache, to sessions. A session keeps its slot until there are
// more sessions than slots: then a new session takes the least recently used slot without an open request, or if all
// have open requests, the one with the fewest. Several requests of a session use one slot in sequence, since their
// contexts have a long common prefix.
type slots struct {
	mu  sync.Mutex
	all list.List // of *slot, least recently used first
	of  map[uint64]*list.Element
}

type slot struct {
	number  int
	session uint64
	taken   bool // by the session
	open    int  // open requests
}

func newSlots(n int) *slots {
	s := &slots{of: map[uint64]*list.Element{}}
	s.resizeSlots(n)
	return s
}

// resizeSlots gives it n unassigned slots, unless it has n slots already.
func (s *slots) resizeSlots(n int) {
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

// acquireSlot returns the number of a session's slot, or -1 if the server should choose, and a function to call after
// the request.
func (s *slots) acquireSlot(session uint64) (number int, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of[session]
	if e == nil {
		if e = s.chooseSlot(); e == nil {
			return -1, func() {}
		}
		x := e.Value.(*slot)
		if x.taken {
			delete(s.of, x.session)
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

// chooseSlot returns the slot for a new session; nil if there are none.
func (s *slots) chooseSlot() (best *list.Element) {
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

func (s *slots) forgetSession(session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[session]; e != nil {
		delete(s.of, session)
		e.Value.(*slot).taken = false
	}
}
