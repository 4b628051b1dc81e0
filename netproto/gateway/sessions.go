package gateway

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// sessions stores the contexts of devices. When a limit is exceeded, a session is evicted, and its device sends the
// context again with its next ask. The victim is the least recently used session of the device with the most sessions
// or tokens, so that no device evicts the sessions of others.
type sessions struct {
	limit, perDevice, tokenLimit, perSession int

	forget func(s *session) // called without a lock, after the last ask of s has ended

	mu       sync.Mutex
	next     uint64
	tokens   int // of all sessions
	byKey    map[sessionKey]*session
	shelves  map[deviceID]*shelf
	used     list.List         // all *session, least recently used first
	byCount  fair.Heap[*shelf] // the device with the most sessions first
	byTokens fair.Heap[*shelf] // the device with the most tokens first
}

// sessionKey identifies a session. Two devices that draw the same number have separate sessions.
type sessionKey struct {
	device deviceID
	number uint32
}

// shelf holds the sessions of one device.
type shelf struct {
	device deviceID
	used   list.List // its *session, least recently used first
	tokens int
	place  [2]int // in byCount and byTokens
}

// session holds the contexts of one text of a device. All fields are guarded by sessions.mu.
type session struct {
	id       uint64
	key      sessionKey
	known    *netproto.Known
	since    time.Time     // last use
	ofAll    *list.Element // in sessions.used
	ofDevice *list.Element // in shelf.used
	open     int           // asks under way
	gone     bool
	ctx      context.Context // ends when the session is removed
	end      context.CancelFunc
	placed   bool   // domain is set
	domain   uint64 // as Question.Domain
}

func newSessions(o Options, forget func(*session)) *sessions {
	return &sessions{
		limit: o.MaxSessions, perDevice: o.shares.MaxSessionsPerDevice,
		tokenLimit: o.MaxTokens, perSession: o.shares.MaxSessionTokens,
		forget: forget, byKey: map[sessionKey]*session{}, shelves: map[deviceID]*shelf{},
		byCount: fair.Heap[*shelf]{
			Before: func(a, b *shelf) bool { return a.used.Len() > b.used.Len() },
			Place:  func(s *shelf) *int { return &s.place[0] },
		},
		byTokens: fair.Heap[*shelf]{
			Before: func(a, b *shelf) bool { return a.tokens > b.tokens },
			Place:  func(s *shelf) *int { return &s.place[1] },
		},
	}
}

// base returns the path that a device uses as the base of an ask. If it is not stored, it returns the Need to send,
// with a position other than 0 only if this connection has named the session itself.
func (s *sessions) base(key sessionKey, p netproto.Path, named bool) ([]int32, netproto.Need, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Base == 0 && p.Hash == netproto.RootHash {
		return nil, netproto.Need{}, true
	}
	need := netproto.Need{Hash: netproto.RootHash}
	found := s.byKey[key]
	if found == nil {
		return nil, need, false
	}
	base, ok := found.known.Find(p.Base, p.Hash)
	if !ok && named {
		need.Position, need.Hash = found.known.Trunk()
	}
	return base, need, ok
}

// learn stores a context and keeps the session until done is called. seen is how many of its tokens were stored before.
func (s *sessions) learn(key sessionKey, context []int32, settled bool) (entry *session, seen int, done func()) {
	s.mu.Lock()
	entry = s.byKey[key]
	if entry == nil {
		entry = s.add(key)
	}
	entry.since = time.Now()
	s.used.MoveToBack(entry.ofAll)
	s.shelves[key.device].used.MoveToBack(entry.ofDevice)
	entry.open++
	seen, _ = entry.known.Longest(context)
	before := entry.known.Tokens()
	entry.known.Add(context)
	if settled {
		entry.known.Settle(context)
	}
	s.weigh(entry, entry.known.Tokens()-before)
	out := s.shrink(entry)
	s.mu.Unlock()
	s.tell(out)
	return entry, seen, sync.OnceFunc(func() { s.done(entry) })
}

func (s *sessions) add(key sessionKey) *session {
	s.next++
	x := &session{id: s.next, key: key, known: netproto.NewKnown(s.perSession)}
	x.ctx, x.end = context.WithCancel(context.Background())
	s.byKey[key] = x
	own := s.shelves[key.device]
	if own == nil {
		own = &shelf{device: key.device}
		s.shelves[key.device] = own
	}
	x.ofAll, x.ofDevice = s.used.PushBack(x), own.used.PushBack(x)
	s.byCount.Set(own, true)
	return x
}

// weigh changes the number of tokens of a session.
func (s *sessions) weigh(x *session, more int) {
	own := s.shelves[x.key.device]
	s.tokens += more
	own.tokens += more
	s.byTokens.Set(own, true)
}

// domain returns the domain of a session. It is that of its device at the first question, even if the device's access
// token changes later.
func (s *sessions) domain(entry *session, of *device) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !entry.placed {
		entry.placed, entry.domain = true, of.domain()
	}
	return entry.domain
}

func (s *sessions) done(entry *session) {
	s.mu.Lock()
	entry.open--
	last := entry.gone && entry.open == 0
	s.mu.Unlock()
	if last {
		s.forget(entry)
	}
}

// shrink evicts sessions, except spare, until the limits hold. It returns those without open asks.
func (s *sessions) shrink(spare *session) (out []*session) {
	others := func(x *shelf) bool { return x.oldest(spare) != nil }
	for {
		var victim *session
		switch own := s.shelves[spare.key.device]; {
		case own.used.Len() > s.perDevice:
			victim = own.oldest(spare)
		case len(s.byKey) > s.limit:
			heaviest, _ := s.byCount.FirstThat(others)
			victim = heaviest.oldest(spare)
		case s.tokens > s.tokenLimit:
			heaviest, _ := s.byTokens.FirstThat(others)
			victim = heaviest.oldest(spare)
		}
		if victim == nil {
			return out
		}
		out = s.evict(out, victim)
	}
}

// oldest returns the least recently used session except spare; nil if there is none or the shelf is nil.
func (x *shelf) oldest(spare *session) *session {
	if x == nil {
		return nil
	}
	for e := x.used.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*session); one != spare {
			return one
		}
	}
	return nil
}

func (s *sessions) evict(out []*session, victim *session) []*session {
	delete(s.byKey, victim.key)
	own := s.shelves[victim.key.device]
	s.used.Remove(victim.ofAll)
	own.used.Remove(victim.ofDevice)
	s.weigh(victim, -victim.known.Tokens())
	s.byCount.Set(own, true)
	if own.used.Len() == 0 {
		delete(s.shelves, own.device)
		s.byCount.Set(own, false)
		s.byTokens.Set(own, false)
	}
	victim.gone = true
	victim.end()
	if victim.open == 0 {
		out = append(out, victim)
	}
	return out
}

func (s *sessions) tell(out []*session) {
	for _, x := range out {
		s.forget(x)
	}
}

func (s *sessions) end(key sessionKey) {
	var out []*session
	s.mu.Lock()
	if found := s.byKey[key]; found != nil {
		out = s.evict(out, found)
	}
	s.mu.Unlock()
	s.tell(out)
}

// expire removes the sessions that have been unused for idle.
func (s *sessions) expire(idle time.Duration) {
	var out []*session
	s.mu.Lock()
	for e := s.used.Front(); e != nil; {
		x := e.Value.(*session)
		e = e.Next()
		if time.Since(x.since) < idle {
			break
		}
		if x.open == 0 {
			out = s.evict(out, x)
		}
	}
	s.mu.Unlock()
	s.tell(out)
}
