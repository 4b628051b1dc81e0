package batch

// makeRoom frees slots for the next n tokens of a, as far as they are not free, and returns for how many tokens there
// are slots. An eviction takes a token from one session; the slot is free when no other session uses it. The order of
// eviction is: guesses; leaves of the question's own session; partly computed background questions; leaves of the
// client and device that hold most; and for an ask that ends in this step, other partly computed questions, which later
// find what is left of their tokens. Tokens that a step uses stay. A background question evicts only guesses and leaves
// of its own session.
func (s *Service) makeRoom(a *ask, n int, ends bool) int {
	f := s.trees
	for f.free.n < n {
		if f.guessed > 0 {
			f.evictGuess()
		} else if a.tree.leaves.Len() > 0 {
			f.evictLeaf(a.tree.leaves.First())
		} else if a.isBackground() {
			break
		} else if s.partly.Len() > 0 && s.partly.First().isBackground() {
			s.shedAsk(s.partly.First())
		} else if leaf := f.findVictim(a); leaf != nil {
			f.evictLeaf(leaf)
		} else if ends && s.partly.Len() > 0 {
			s.releaseContext(s.partly.First())
		} else {
			break
		}
	}
	return min(n, f.free.n)
}

// reserveRoom reports whether a, which takes more than one step, may begin. If so it reserves room for a until a is
// answered. Partly computed questions of one client may hold its share of half of the store, and those of all clients
// three quarters, unless there is only one. So questions never wait for each other's slots forever, do not evict the
// texts that other questions return to, and a client that comes later finds room. Questions begin in the order of the
// queue: if one finds no room, the later ones of its client do not begin either in this step, and if it is the client's
// only one, those of no client.
func (s *Service) reserveRoom(st *step, a *ask) bool {
	if a.isBackground() || a.reserved > 0 {
		return true
	}
	c, n, half := a.tree.owner.client, len(a.Context), s.trees.slots/2
	switch {
	case st.isClosedTo(c):
		return false
	case s.reserved == 0:
	case c.reserved > 0 && c.reserved+n > half/st.clients, c.reserved > 0 && s.reserved+n > half*3/2:
		c.shut = st.number
		return false
	case s.reserved+n > half*3/2:
		st.closed = true
		return false
	}
	a.reserved = n
	c.reserved += n
	s.reserved += n
	return true
}

// isClosedTo reports whether no further question of a client begins in this step, unless it ends in it.
func (st *step) isClosedTo(c *client) bool { return st.closed || c.shut == st.number }

// evictLeaf removes a leaf from its session. If that frees its slot, the token is recorded in the eviction log.
func (f *prefixCache) evictLeaf(n *node) {
	if n.isUnshared() {
		f.past.recordEviction(f, n)
		f.evicted++
	}
	f.removeLeaf(n)
}

// maxNodes returns the maximum number of nodes of all sessions. A node takes about 100 bytes, and the limit also bounds
// the time to evict a token from many sessions.
func (f *prefixCache) maxNodes() int { return max(16*f.slots, 1<<18) }

// evictExcessNodes evicts leaves of the clients and devices with the most nodes. Nodes that asks retain stay.
func (f *prefixCache) evictExcessNodes() {
	for f.nodes > f.maxNodes() {
		c, ok := f.holders.largestHolder()
		if !ok {
			return
		}
		d, _ := c.devices.largestHolder()
		f.evictLeaf(d.oldestLeaf())
	}
}

func (s *Service) releaseContext(a *ask) {
	s.partly.Set(a, false)
	if a.at != nil {
		s.trees.releaseNode(a.at)
		a.at = nil
	}
}

// pastPerSlot is the number of evicted tokens to remember for each slot of the store.
const pastPerSlot = 8

// evictionLog holds the tokens that were evicted last, by the hash of all tokens up to them.
type evictionLog struct {
	at   map[uint64]int // index in ring
	ring []evictedToken // grows up to most
	most int
	next int
}

type evictedToken struct {
	hash uint64
	tree *sessionTree
}

func newEvictionLog(most int) evictionLog { return evictionLog{at: map[uint64]int{}, most: most} }

func (p *evictionLog) recordEviction(f *prefixCache, n *node) {
	m := evictedToken{n.hash, n.tree}
	m.tree.past++
	if len(p.ring) < p.most {
		p.at[m.hash] = len(p.ring)
		p.ring = append(p.ring, m)
		return
	}
	old := p.ring[p.next]
	if i, ok := p.at[old.hash]; ok && i == p.next {
		delete(p.at, old.hash)
	}
	p.at[m.hash], p.ring[p.next] = p.next, m
	p.next = (p.next + 1) % len(p.ring)
	old.tree.past--
	f.pruneTree(old.tree)
}

// removeEvicted removes a token. It reports whether the token was there, from a session that is not forgotten.
func (p *evictionLog) removeEvicted(hash uint64) bool {
	i, ok := p.at[hash]
	delete(p.at, hash)
	return ok && !p.ring[i].tree.forgotten
}
