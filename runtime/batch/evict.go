package batch

import "slices"

// room frees slots for the next n tokens of a, as far as they are not free, and returns for how many there are. What
// goes is taken from a session, and its slot is free when no other session uses it. In this order go: guesses; leaves
// of its own session; background questions that are partly computed; leaves of the device that holds most; and for an
// ask that ends in this step, other questions that are partly computed, which find later what is still there of them.
// What a step uses stays. A background question displaces nothing but guesses and leaves of its own session.
func (s *Service) room(a *ask, n int, ends bool) int {
	f := s.trees
	for f.free.n < n {
		if f.guessed > 0 {
			f.dropGuess()
		} else if a.tree.leaves.Len() > 0 {
			f.evict(a.tree.leaves.First())
		} else if a.background() {
			break
		} else if s.partly.Len() > 0 && s.partly.First().background() {
			s.shed(s.partly.First())
		} else if leaf := f.victim(a); leaf != nil {
			f.evict(leaf)
		} else if ends && s.partly.Len() > 0 {
			s.letGo(s.partly.First())
		} else {
			break
		}
	}
	return min(n, f.free.n)
}

// victim returns a leaf to be evicted for a, or nil if there is none: the least recently used leaf of the device that
// holds most. Devices that hold up to twice as much as each other count as equal, but the device of a itself comes
// first. If no device holds as much as two contexts of the size of a's, all devices count as equal, and the least
// recently used leaf of all is evicted.
func (f *forest) victim(a *ask) *node {
	var oldest *owner
	slots := 0 // of the device that holds most
	for i := range slices.Backward(f.bySize[:]) {
		if f.bySize[i].Len() == 0 {
			continue
		}
		h := f.bySize[i].First()
		switch own := a.tree.owner; {
		case oldest == nil && own.trees.Len() > 0 && own.slots >= h.slots:
			return own.oldest()
		case oldest == nil:
			oldest, slots = h, h.slots
		case slots >= 2*a.size() && 2*h.slots < slots:
			return oldest.oldest()
		case h.oldest().used < oldest.oldest().used:
			oldest = h
		}
	}
	if oldest == nil {
		return nil
	}
	return oldest.oldest()
}

// reserve reports whether a, which takes more than one step, may begin, and keeps room for it until it is answered.
// What is partly computed takes at most half of the store, or is one question alone: so questions neither wait for
// each other's slots for ever, nor push out what others come back to. Those that wait begin in their order.
func (s *Service) reserve(st *step, a *ask) bool {
	if a.background() || a.reserved > 0 {
		return true
	}
	if st.closed || s.reserved > 0 && s.reserved+len(a.Context) > s.trees.slots/2 {
		st.closed = true
		return false
	}
	a.reserved = len(a.Context)
	s.reserved += a.reserved
	return true
}

// evict takes a leaf from its session. If its slot is free then, it remembers that its token was there.
func (f *forest) evict(n *node) {
	if n.isAlone() {
		f.past.add(f, n)
		f.evicted++
	}
	f.remove(n)
}

// maxNodes bounds the nodes of all sessions, which take some 100 bytes each, and the time to take them from many
// sessions where a slot is needed.
func (f *forest) maxNodes() int { return max(16*f.slots, 1<<18) }

// thin takes leaves from the devices with most nodes as long as there are too many in all, but for what asks retain.
func (f *forest) thin() {
	for size := len(f.bySize) - 1; size >= 0 && f.nodes > f.maxNodes(); {
		if f.bySize[size].Len() == 0 {
			size--
			continue
		}
		f.evict(f.bySize[size].First().oldest())
	}
}

// letGo takes from a partly computed question the right to what is kept of its context.
func (s *Service) letGo(a *ask) {
	s.partly.Set(a, false)
	if a.at != nil {
		s.trees.release(a.at)
		a.at = nil
	}
}

// pastPerSlot is how many evicted tokens are remembered for each slot of the store.
const pastPerSlot = 8

// past remembers which tokens were evicted last, by the hash of all tokens up to them.
type past struct {
	at   map[uint64]int // index in ring
	ring []memory       // grows up to most
	most int
	next int
}

// memory is an evicted token.
type memory struct {
	hash uint64
	tree *tree
}

func newPast(most int) past { return past{at: map[uint64]int{}, most: most} }

// add remembers n, and forgets the token that was evicted longest ago if there are too many.
func (p *past) add(f *forest, n *node) {
	m := memory{n.hash, n.tree}
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
	f.tidy(old.tree)
}

// take reports whether a token is remembered, of a session that is not forgotten, and forgets it.
func (p *past) take(hash uint64) bool {
	i, ok := p.at[hash]
	delete(p.at, hash)
	return ok && !p.ring[i].tree.forgotten
}
