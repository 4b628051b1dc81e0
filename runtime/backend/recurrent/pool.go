package recurrent

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// held counts the slots that hold an object, and says when it was used last.
type held struct {
	slots int
	index int    // among those that slots hold
	used  uint64 // by the clock of the store
	chunk int    // of its position
}

func (h *held) hold() *held { return h }

// pool counts and reuses objects.
type pool[T interface {
	comparable
	hold() *held
}] struct {
	most  int // that are kept after a pass
	least int // of spare ones that are kept in any case
	made  atomic.Int64
	live  []T // that slots hold
	spare []T
	free  func(T)
}

func (m *pool[T]) reuse() (t T, ok bool) {
	n := len(m.spare)
	if n == 0 {
		m.made.Add(1)
		return t, false
	}
	t = m.spare[n-1]
	m.spare = m.spare[:n-1]
	return t, true
}

// take begins the use by a slot.
func (m *pool[T]) take(t T) {
	h := t.hold()
	if h.slots++; h.slots == 1 {
		h.index = len(m.live)
		m.live = append(m.live, t)
	}
}

// give ends the use by a slot. The memory of an object that no slot holds is kept, if there is not much of it.
func (m *pool[T]) give(t T) {
	h := t.hold()
	if h.slots--; h.slots > 0 {
		return
	}
	last := m.live[len(m.live)-1]
	m.live[h.index], last.hold().index = last, h.index
	m.live = m.live[:len(m.live)-1]
	if len(m.spare) < m.least || len(m.spare)+len(m.live) < m.most {
		m.spare = append(m.spare, t)
	} else {
		m.free(t)
		m.made.Add(-1)
	}
}

// excess returns, if there are too many objects, those of the greatest age: some more than necessary, so that it is not
// needed after each pass.
func (m *pool[T]) excess(age func(h *held) uint64) map[T]bool {
	if len(m.live) <= m.most {
		return nil
	}
	byAge := slices.Clone(m.live)
	slices.SortStableFunc(byAge, func(a, b T) int { return cmp.Compare(age(b.hold()), age(a.hold())) })
	drop := map[T]bool{}
	for _, t := range byAge[:len(byAge)-m.most+m.most/8] {
		drop[t] = true
	}
	return drop
}
