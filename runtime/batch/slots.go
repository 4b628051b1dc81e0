package batch

import "math/bits"

// slotSet is the set of free slots: a tree of words of 64 bits. Bit i of a level says that word i of the level below
// is not zero.
type slotSet struct {
	levels [][]uint64 // the first has one bit for each slot, the last is one word
	n      int        // number of free slots
}

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
		s.addSlot(int32(i))
	}
	return s
}

func (s *slotSet) addSlot(slot int32) {
	s.n++
	i := int(slot)
	for _, words := range s.levels {
		words[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

// takeSlot removes and returns the first slot from hint on, or the first of all if there is none. The set must not be
// empty.
func (s *slotSet) takeSlot(hint int32) int32 {
	slot, ok := s.nextSetBit(0, int(hint))
	if !ok {
		slot, _ = s.nextSetBit(0, 0)
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

func (s *slotSet) nextSetBit(level, i int) (int, bool) {
	words := s.levels[level]
	if i/64 < len(words) {
		if w := words[i/64] >> (i % 64); w != 0 {
			return i + bits.TrailingZeros64(w), true
		}
	}
	if level+1 == len(s.levels) {
		return 0, false
	}
	above, ok := s.nextSetBit(level+1, i/64+1)
	if !ok {
		return 0, false
	}
	return above*64 + bits.TrailingZeros64(words[above]), true
}
