package tokenizer

// longMerger merges a piece of n bytes in time O(n log n): the tokens are a linked list, the pairs that merge a heap.
type longMerger struct {
	ids        []int32
	rules      []rule  // of token i and the one after it; noRule where token i has become part of another
	prev, next []int32 // -1 at the ends
	queue      pairQueue
}

// merge appends the tokens of piece to dst.
func (m *longMerger) merge(dst []int32, piece string, t *Tokenizer) []int32 {
	m.start(piece, t)
	for len(m.queue) > 0 {
		rank, i := m.queue.pop()
		if m.rules[i] == noRule || m.rules[i].rank() != rank {
			continue // a neighbour has changed since
		}
		m.ids[i] = m.rules[i].id()
		gone := m.next[i]
		m.rules[gone] = noRule
		m.next[i] = m.next[gone]
		if m.next[i] >= 0 {
			m.prev[m.next[i]] = i
		}
		m.renew(m.prev[i], t)
		m.renew(i, t)
	}
	for i := int32(0); i >= 0; i = m.next[i] {
		dst = append(dst, m.ids[i])
	}
	return dst
}

// start makes one token of each byte.
func (m *longMerger) start(piece string, t *Tokenizer) {
	n := len(piece)
	m.ids, m.rules = resize(m.ids, n), resize(m.rules, n)
	m.prev, m.next = resize(m.prev, n), resize(m.next, n)
	m.queue = resize(m.queue, n)[:0]
	for i := range n {
		m.ids[i] = t.byteID[piece[i]]
		m.prev[i], m.next[i] = int32(i-1), int32(i+1)
	}
	m.next[n-1] = -1
	for i := range n {
		m.rules[i] = noRule
		if i+1 < n {
			m.rules[i] = t.rules.find(m.ids[i], m.ids[i+1])
		}
		if m.rules[i] != noRule {
			m.queue = append(m.queue, newQueued(m.rules[i].rank(), int32(i)))
		}
	}
	m.queue.order()
}

// renew looks up the rule of token i, if there is one, and the token after it.
func (m *longMerger) renew(i int32, t *Tokenizer) {
	if i < 0 {
		return
	}
	m.rules[i] = noRule
	if m.next[i] >= 0 {
		m.rules[i] = t.rules.find(m.ids[i], m.ids[m.next[i]])
	}
	if m.rules[i] != noRule {
		m.queue.push(newQueued(m.rules[i].rank(), i))
	}
}

// resize returns a slice of n elements of any value, the old one if it is long enough.
func resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
