package batch

import "math/bits"

// slotSet is the set of free slots: a tree of words of 64 bits. Bit i of a level says that word i of the level below
// is not zero.
type slotSet struct {
	levels [][]uint64 // the first has one bit for each slot, the last is one word
	n      int        // number of free slots
}

// newSlotSet returns a set with the slots 0 to n-1.
func newSlotSet(n int) *slotSet {
	s := &slotSet{}
	for size := n; ; {
		size = (size + 63) / 64
		s.levels = append(s.levels, make([]uint64, size))
		if size == 1 {
			break
		}
	}
	for i := range n {
		s.put(int32(i))
	}
	return s
}

// put adds a slot that is not in the set.
func (s *slotSet) put(slot int32) {
	s.n++
	i := int(slot)
	for _, words := range s.levels {
		words[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

// take removes and returns the first slot from hint on, or the first of all if there is none. The set must not be
// empty.
func (s *slotSet) take(hint int32) int32 {
	slot, ok := s.next(0, int(hint))
	if !ok {
		slot, _ = s.next(0, 0)
	}
	s.n--
	i := slot
	for _, words := range s.levels {
		words[i/64] &^= 1 << (i % 64)
		if words[i/64] != 0 {
			break
		}
		i /= 64
	}
	return int32(slot)
}

// next returns the first bit of a level that is set, from i on.
func (s *slotSet) next(level, i int) (int, bool) {
	words := s.levels[level]
	if i/64 < len(words) {
		if w := words[i/64] >> (i % 64); w != 0 {
			return i + bits.TrailingZeros64(w), true
		}
	}
	if level+1 == len(s.levels) {
		return 0, false
	}
	above, ok := s.next(level+1, i/64+1)
	if !ok {
		return 0, false
	}
	return above*64 + bits.TrailingZeros64(words[above]), true
}
