package batch

import "container/heap"

// sorted is a heap whose first element comes before all others. An element knows its place, so that it can be taken
// out, or put right after it has changed, in O(log n).
type sorted[T any] struct {
	items  []T
	before func(a, b T) bool
	place  func(T) *int // where an element keeps its place, counted from 1; 0 means that it is not in this heap
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (s *sorted[T]) Len() int           { return len(s.items) }
func (s *sorted[T]) Less(i, j int) bool { return s.before(s.items[i], s.items[j]) }
func (s *sorted[T]) Swap(i, j int) {
	s.items[i], s.items[j] = s.items[j], s.items[i]
	*s.place(s.items[i]), *s.place(s.items[j]) = i+1, j+1
}
func (s *sorted[T]) Push(x any) {
	s.items = append(s.items, x.(T))
	*s.place(x.(T)) = len(s.items)
}
func (s *sorted[T]) Pop() any {
	var none T
	last := len(s.items) - 1
	x := s.items[last]
	s.items[last] = none
	s.items = s.items[:last]
	*s.place(x) = 0
	return x
}

// first returns the first element. There must be one.
func (s *sorted[T]) first() T { return s.items[0] }

// set puts x in, or where it belongs now, if in is true, and takes it out otherwise.
func (s *sorted[T]) set(x T, in bool) {
	switch at := *s.place(x); {
	case in && at == 0:
		heap.Push(s, x)
	case in:
		heap.Fix(s, at-1)
	case at > 0:
		heap.Remove(s, at-1)
	}
}
