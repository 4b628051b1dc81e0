package gateway

import (
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// sessions holds what clients told of their contexts. What is over a limit is forgotten, and the client will be asked
// to tell it again; the one that has most gives first, so that nobody pushes others out.
type sessions struct {
	limit, tokenLimit, perSession int
	forget                        func(s *session) // called without a lock, when nothing is under way for s any more

	mu     sync.Mutex
	next   uint64
	tokens int // in all
	byKey  map[sessionKey]*session
}

// sessionKey is what a client calls a session: two clients that draw the same number do not meet.
type sessionKey struct {
	client string
	number uint32
}

// session is the contexts of one client's text. All fields are guarded by sessions.mu.
type session struct {
	id    uint64
	key   sessionKey
	known *netproto.Known
	used  time.Time
	open  int // asks under way
	gone  bool
}

func newSessions(o Options, forget func(*session)) *sessions {
	return &sessions{limit: o.MaxSessions, tokenLimit: o.MaxTokens, perSession: o.MaxSessionTokens, forget: forget, byKey: map[sessionKey]*session{}}
}

// base returns the path that a client names as the base of an ask, or what it should begin with instead.
func (s *sessions) base(key sessionKey, p netproto.Path) ([]int32, netproto.Need, bool) {
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
	if !ok {
		need.Position, need.Hash = found.known.Trunk()
	}
	return base, need, ok
}

// learn makes a context known and holds the session until done is called. seen is how much of it was known before.
func (s *sessions) learn(key sessionKey, context []int32, settled bool) (held *session, seen int, done func()) {
	s.mu.Lock()
	held = s.byKey[key]
	if held == nil {
		s.next++
		held = &session{id: s.next, key: key, known: netproto.NewKnown(s.perSession)}
		s.byKey[key] = held
	}
	held.used = time.Now()
	held.open++
	seen, _ = held.known.Longest(context)
	s.tokens -= held.known.Tokens()
	held.known.Add(context)
	if settled {
		held.known.Settle(context)
	}
	s.tokens += held.known.Tokens()
	out := s.shrink(held)
	s.mu.Unlock()
	s.tell(out)
	return held, seen, sync.OnceFunc(func() { s.done(held) })
}

func (s *sessions) done(held *session) {
	s.mu.Lock()
	held.open--
	last := held.gone && held.open == 0
	s.mu.Unlock()
	if last {
		s.forget(held)
	}
}

// shrink evicts sessions until the limits hold, sparing one. It returns those that nothing is under way for.
func (s *sessions) shrink(spare *session) (out []*session) {
	for len(s.byKey) > s.limit || s.tokens > s.tokenLimit {
		victim := s.victim(spare)
		if victim == nil {
			break
		}
		out = s.evict(out, victim)
	}
	return out
}

// victim returns the session used longest ago of the client that has most of what is scarce.
func (s *sessions) victim(spare *session) *session {
	load := map[string]int{}
	for _, x := range s.byKey {
		if s.tokens > s.tokenLimit {
			load[x.key.client] += x.known.Tokens()
		} else {
			load[x.key.client]++
		}
	}
	var victim *session
	for _, x := range s.byKey {
		if x == spare {
			continue
		}
		if victim == nil || load[x.key.client] > load[victim.key.client] ||
			load[x.key.client] == load[victim.key.client] && x.used.Before(victim.used) {
			victim = x
		}
	}
	return victim
}

func (s *sessions) evict(out []*session, victim *session) []*session {
	delete(s.byKey, victim.key)
	s.tokens -= victim.known.Tokens()
	victim.gone = true
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

// end forgets one session.
func (s *sessions) end(key sessionKey) {
	var out []*session
	s.mu.Lock()
	if found := s.byKey[key]; found != nil {
		out = s.evict(out, found)
	}
	s.mu.Unlock()
	s.tell(out)
}

// expire forgets the sessions that were not used for a while.
func (s *sessions) expire(idle time.Duration) {
	var out []*session
	s.mu.Lock()
	for _, x := range s.byKey {
		if x.open == 0 && time.Since(x.used) >= idle {
			out = s.evict(out, x)
		}
	}
	s.mu.Unlock()
	s.tell(out)
}
