package fair

import "container/heap"

// Heap is a heap with elements that know their index: its first element comes before all others. An element can be
// removed, or moved after it has changed, in O(log n).
type Heap[T any] struct {
	Before func(a, b T) bool
	Place  func(T) *int // the index of an element, counted from 1; 0 means that it is not in this heap
	items  []T
}

// First returns the first element, the zero value if there is none.
func (h *Heap[T]) First() (first T) {
	if len(h.items) > 0 {
		first = h.items[0]
	}
	return first
}

// FirstThat returns the first element that satisfies so, if at most one element of the heap does not; ok is false if
// there is none.
func (h *Heap[T]) FirstThat(so func(T) bool) (found T, ok bool) {
	for _, x := range h.items[:min(len(h.items), 3)] { // the first one and its two children
		if so(x) && (!ok || h.Before(x, found)) {
			found, ok = x, true
		}
	}
	return found, ok
}

// Set adds x, or moves it to its current position, if in is true, and removes it otherwise.
func (h *Heap[T]) Set(x T, in bool) {
	switch at := *h.Place(x); {
	case in && at == 0:
		heap.Push((*heapAdapter[T])(h), x)
	case in:
		heap.Fix((*heapAdapter[T])(h), at-1)
	case at > 0:
		heap.Remove((*heapAdapter[T])(h), at-1)
	}
}

// Len returns the number of elements.
func (h *Heap[T]) Len() int { return len(h.items) }

// heapAdapter is a Heap with the methods that container/heap needs.
type heapAdapter[T any] Heap[T]

func (s *heapAdapter[T]) Len() int           { return len(s.items) }
func (s *heapAdapter[T]) Less(i, j int) bool { return s.Before(s.items[i], s.items[j]) }

func (s *heapAdapter[T]) Swap(i, j int) {
	s.items[i], s.items[j] = s.items[j], s.items[i]
	*s.Place(s.items[i]), *s.Place(s.items[j]) = i+1, j+1
}

func (s *heapAdapter[T]) Push(x any) {
	s.items = append(s.items, x.(T))
	*s.Place(x.(T)) = len(s.items)
}

func (s *heapAdapter[T]) Pop() any {
	var none T
	last := len(s.items) - 1
	x := s.items[last]
	s.items[last] = none
	s.items = s.items[:last]
	*s.Place(x) = 0
	return x
}
