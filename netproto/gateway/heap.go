package gateway

import stdheap "container/heap"

// heap is a priority queue whose elements know their place in it, so that one that has changed can be moved. Len, Less,
// Swap, Push and Pop are what container/heap needs.
type heap[T any] struct {
	before func(a, b *T) bool
	place  func(*T) *int // where an element notes its place
	all    []*T
}

func (h *heap[T]) push(x *T)   { stdheap.Push(h, x) }
func (h *heap[T]) fix(x *T)    { stdheap.Fix(h, *h.place(x)) }
func (h *heap[T]) remove(x *T) { stdheap.Remove(h, *h.place(x)) }

// first returns the element that stands first and will do, where at most one element does not do; nil if there is none.
func (h *heap[T]) first(do func(*T) bool) (found *T) {
	for _, x := range h.all[:min(len(h.all), 3)] { // the first one and its two children
		if do(x) && (found == nil || h.before(x, found)) {
			found = x
		}
	}
	return found
}

func (h *heap[T]) Len() int           { return len(h.all) }
func (h *heap[T]) Less(i, j int) bool { return h.before(h.all[i], h.all[j]) }

func (h *heap[T]) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	*h.place(h.all[i]), *h.place(h.all[j]) = i, j
}

func (h *heap[T]) Push(x any) {
	*h.place(x.(*T)) = len(h.all)
	h.all = append(h.all, x.(*T))
}

func (h *heap[T]) Pop() any {
	last := h.all[len(h.all)-1]
	h.all[len(h.all)-1] = nil
	h.all = h.all[:len(h.all)-1]
	return last
}
