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
// or tokens, among those of the access token with the most. So nobody evicts the sessions of others, with however many
// devices.
type sessions struct {
	limit, perDevice, tokenLimit, perSession int

	forget func(s *session) // called without a lock, after the last ask of s has ended

	mu       sync.Mutex
	next     uint64
	tokens   int // of all sessions
	byKey    map[sessionKey]*session
	byDevice map[deviceID]*deviceSessions
	byClient map[string]*clientSessions // by the name of the access token
	used     list.List                  // all *session, least recently used first
	byCount  fair.Heap[*clientSessions] // the access token with the most sessions first
	byTokens fair.Heap[*clientSessions] // the one with the most tokens first
}

// sessionKey identifies a session. Two devices that draw the same number have separate sessions.
type sessionKey struct {
	device deviceID
	number uint32
}

// clientSessions holds the sessions of all devices with one access token, or of an open gateway.
type clientSessions struct {
	name          string
	count, tokens int                        // of its sessions
	byCount       fair.Heap[*deviceSessions] // the device with the most sessions first
	byTokens      fair.Heap[*deviceSessions] // the device with the most tokens first
	place         [2]int                     // in the heaps of sessions
}

// deviceSessions holds the sessions of one device.
type deviceSessions struct {
	device deviceID
	client *clientSessions
	used   list.List // its *session, least recently used first
	tokens int
	place  [2]int // in the heaps of the client
}

// session holds the contexts of one text of a device. All fields are guarded by sessions.mu.
type session struct {
	id       uint64
	key      sessionKey
	known    *netproto.Known
	since    time.Time     // last use
	ofAll    *list.Element // in sessions.used
	ofDevice *list.Element // in deviceSessions.used
	open     int           // asks under way
	gone     bool
	ctx      context.Context // ends when the session is removed
	cancel   context.CancelFunc
	placed   bool   // domain is set
	domain   uint64 // as Question.Domain
}

func newSessions(o Options, forget func(*session)) *sessions {
	return &sessions{
		limit: o.derived.MaxSessions, perDevice: o.derived.MaxSessionsPerDevice,
		tokenLimit: o.MaxTokens, perSession: o.derived.MaxSessionTokens,
		forget: forget, byKey: map[sessionKey]*session{}, byDevice: map[deviceID]*deviceSessions{},
		byClient: map[string]*clientSessions{},
		byCount: fair.Heap[*clientSessions]{
			Before: func(a, b *clientSessions) bool { return a.count > b.count },
			Place:  func(r *clientSessions) *int { return &r.place[0] },
		},
		byTokens: fair.Heap[*clientSessions]{
			Before: func(a, b *clientSessions) bool { return a.tokens > b.tokens },
			Place:  func(r *clientSessions) *int { return &r.place[1] },
		},
	}
}

func (s *sessions) findOrAddDevice(of deviceID) *deviceSessions {
	own := s.byDevice[of]
	if own != nil {
		return own
	}
	r := s.byClient[of.client]
	if r == nil {
		r = &clientSessions{
			name: of.client,
			byCount: fair.Heap[*deviceSessions]{
				Before: func(a, b *deviceSessions) bool { return a.used.Len() > b.used.Len() },
				Place:  func(s *deviceSessions) *int { return &s.place[0] },
			},
			byTokens: fair.Heap[*deviceSessions]{
				Before: func(a, b *deviceSessions) bool { return a.tokens > b.tokens },
				Place:  func(s *deviceSessions) *int { return &s.place[1] },
			},
		}
		s.byClient[of.client] = r
	}
	own = &deviceSessions{device: of, client: r}
	s.byDevice[of] = own
	return own
}

// updateTotals adds to the sessions and tokens of a device and of its client, and reorders the heaps. It removes
// those that have no sessions.
func (s *sessions) updateTotals(own *deviceSessions, count, tokens int) {
	r, has := own.client, own.used.Len() > 0
	s.tokens, own.tokens = s.tokens+tokens, own.tokens+tokens
	r.count, r.tokens = r.count+count, r.tokens+tokens
	r.byCount.Set(own, has)
	r.byTokens.Set(own, has)
	s.byCount.Set(r, r.count > 0)
	s.byTokens.Set(r, r.count > 0)
	if !has {
		delete(s.byDevice, own.device)
	}
	if r.count == 0 {
		delete(s.byClient, r.name)
	}
}

// findBase returns the path that a device uses as the base of an ask. If it is not stored, it returns the Need to send,
// with a position other than 0 only if this connection has named the session itself.
func (s *sessions) findBase(key sessionKey, p netproto.Path, named bool) ([]int32, netproto.Need, bool) {
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

// storeContext stores a context and keeps the session until done is called. seen is how many of its tokens were stored
// before.
func (s *sessions) storeContext(key sessionKey, context []int32, settled bool) (entry *session, seen int, done func()) {
	s.mu.Lock()
	entry = s.byKey[key]
	if entry == nil {
		entry = s.addSession(key)
	}
	entry.since = time.Now()
	s.used.MoveToBack(entry.ofAll)
	s.byDevice[key.device].used.MoveToBack(entry.ofDevice)
	entry.open++
	seen, _ = entry.known.Longest(context)
	before := entry.known.Tokens()
	entry.known.Add(context)
	if settled {
		entry.known.Settle(context)
	}
	s.updateTotals(s.byDevice[key.device], 0, entry.known.Tokens()-before)
	out := s.evictExcess(entry)
	s.mu.Unlock()
	s.forgetSessions(out)
	return entry, seen, sync.OnceFunc(func() { s.releaseSession(entry) })
}

func (s *sessions) addSession(key sessionKey) *session {
	s.next++
	x := &session{id: s.next, key: key, known: netproto.NewKnown(s.perSession)}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	s.byKey[key] = x
	own := s.findOrAddDevice(key.device)
	x.ofAll, x.ofDevice = s.used.PushBack(x), own.used.PushBack(x)
	s.updateTotals(own, 1, 0)
	return x
}

// sessionDomain returns the domain of a session. It is that of its device at the first question, even if the device's
// access token changes later.
func (s *sessions) sessionDomain(entry *session, of *device) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !entry.placed {
		entry.placed, entry.domain = true, of.currentDomain()
	}
	return entry.domain
}

func (s *sessions) releaseSession(entry *session) {
	s.mu.Lock()
	entry.open--
	last := entry.gone && entry.open == 0
	s.mu.Unlock()
	if last {
		s.forget(entry)
	}
}

// evictExcess evicts sessions, except spare, until the limits hold. It returns those without open asks.
func (s *sessions) evictExcess(spare *session) (out []*session) {
	own := s.byDevice[spare.key.device]
	others := func(x *deviceSessions) bool { return x != own || x.used.Len() > 1 }
	more := func(r *clientSessions) bool { return r != own.client || r.count > 1 }
	for {
		var victim *session
		switch {
		case own.used.Len() > s.perDevice:
			victim = own.leastRecentlyUsed(spare)
		case len(s.byKey) > s.limit:
			if r, ok := s.byCount.FirstThat(more); ok {
				heaviest, _ := r.byCount.FirstThat(others)
				victim = heaviest.leastRecentlyUsed(spare)
			}
		case s.tokens > s.tokenLimit:
			if r, ok := s.byTokens.FirstThat(more); ok {
				heaviest, _ := r.byTokens.FirstThat(others)
				victim = heaviest.leastRecentlyUsed(spare)
			}
		}
		if victim == nil {
			return out
		}
		out = s.evictSession(out, victim)
	}
}

// leastRecentlyUsed leaves out spare. It returns nil if there is no other session.
func (x *deviceSessions) leastRecentlyUsed(spare *session) *session {
	for e := x.used.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*session); one != spare {
			return one
		}
	}
	return nil
}

func (s *sessions) evictSession(out []*session, victim *session) []*session {
	delete(s.byKey, victim.key)
	own := s.byDevice[victim.key.device]
	s.used.Remove(victim.ofAll)
	own.used.Remove(victim.ofDevice)
	s.updateTotals(own, -1, -victim.known.Tokens())
	victim.gone = true
	victim.cancel()
	if victim.open == 0 {
		out = append(out, victim)
	}
	return out
}

func (s *sessions) forgetSessions(out []*session) {
	for _, x := range out {
		s.forget(x)
	}
}

func (s *sessions) endSession(key sessionKey) bool {
	var out []*session
	s.mu.Lock()
	found := s.byKey[key]
	if found != nil {
		out = s.evictSession(out, found)
	}
	s.mu.Unlock()
	s.forgetSessions(out)
	return found != nil
}

func (s *sessions) expireIdle(idle time.Duration) {
	var out []*session
	s.mu.Lock()
	for e := s.used.Front(); e != nil; {
		x := e.Value.(*session)
		e = e.Next()
		if time.Since(x.since) < idle {
			break
		}
		if x.open == 0 {
			out = s.evictSession(out, x)
		}
	}
	s.mu.Unlock()
	s.forgetSessions(out)
}
