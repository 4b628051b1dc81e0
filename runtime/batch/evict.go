package batch

// room frees a slot for the next token of a if none is free, and reports whether there is one. In this order go: the
// leaves of its own session; background questions that are partly computed; the least recently used leaves of the
// device that has most slots; questions that are partly computed and began after a, which then find later what is
// still there of them. The last ask of a step that it ends may displace older ones, too: it needs its slots for this
// step only. What a step uses stays.
//
// The question that began first always gets room, so that several of them cannot wait for each other. A background
// question displaces nothing but leaves of its own session.
func (s *Service) room(a *ask, ends bool) bool {
	f := s.trees
	for f.free.n == 0 {
		switch {
		case a.tree.leaves.Len() > 0:
			f.evict(a.tree.leaves.first())
		case a.Background:
			return false
		case s.partly.Len() > 0 && s.partly.first().Background:
			s.shed(s.partly.first())
		case f.most.Len() > 0:
			f.evict(f.most.first().trees.first().leaves.first())
		case s.partly.Len() > 0 && (ends || a.begun > 0 && s.partly.first().begun > a.begun):
			s.letGo(s.partly.first())
		default:
			return false
		}
	}
	return true
}

// evict frees the slot of a leaf, and remembers that its token was there.
func (f *forest) evict(n *node) {
	f.past.add(f, n)
	f.remove(n)
	f.evicted++
}

// letGo takes from a partly computed question the right to what is kept of its context.
func (s *Service) letGo(a *ask) {
	s.partly.set(a, false)
	if a.at != nil {
		s.trees.release(a.at)
		a.at = nil
	}
}

// pastPerSlot is how many evicted tokens are remembered for each slot of the store.
const pastPerSlot = 4

// past remembers which tokens were evicted last, by the hash of all tokens up to them.
type past struct {
	at   map[uint64]int // index in ring
	ring []memory
	next int
}

// memory is an evicted token.
type memory struct {
	hash uint64
	tree *tree
}

func newPast(n int) past { return past{at: map[uint64]int{}, ring: make([]memory, 0, n)} }

// add remembers n, and forgets the token that was evicted longest ago if there are too many.
func (p *past) add(f *forest, n *node) {
	m := memory{n.hash, n.tree}
	m.tree.past++
	if len(p.ring) < cap(p.ring) {
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

// take reports whether a token is remembered, and forgets it.
func (p *past) take(hash uint64) bool {
	_, ok := p.at[hash]
	delete(p.at, hash)
	return ok
}
