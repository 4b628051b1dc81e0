package tokenizer

// queued is a pair that waits to be merged: its rank, then the position of its left token.
type queued uint64

func newQueued(rank uint32, at int32) queued { return queued(rank)<<32 | queued(uint32(at)) }

// pairQueue is a heap of pairs, the lowest rank first, of equal ranks the leftmost. Each node has four children: half as
// many cache lines on the way down as with two.
type pairQueue []queued

// push adds q.
func (h *pairQueue) push(q queued) {
	*h = append(*h, q)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if s[up] <= q {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = q
}

// pop removes the first pair. The queue must not be empty.
func (h *pairQueue) pop() (rank uint32, at int32) {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.sink(0, last)
	}
	*h = s
	return uint32(first >> 32), int32(uint32(first))
}

// order makes a heap of pairs in any order.
func (h pairQueue) order() {
	for i := len(h)/4 + 1; i >= 0; i-- { // from the last node that may have a child
		if i < len(h) {
			h.sink(i, h[i])
		}
	}
}

// sink puts q into the hole at i, or below it.
func (h pairQueue) sink(i int, q queued) {
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c] < h[least] {
				least = c
			}
		}
		if h[least] >= q {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = q
}
