package link

import (
	"container/heap"
	"time"
)

// parcel is a datagram under way.
type parcel struct {
	due    time.Duration
	n      uint64 // number in its direction; copies have the same
	client *client
	data   []byte
}

// held are parcels under way, the next to depart first: a heap over due and n.
type held []*parcel

func (h *held) put(p *parcel) { heap.Push((*heldHeap)(h), p) }
func (h *held) take() *parcel { return heap.Pop((*heldHeap)(h)).(*parcel) }

// heldHeap is held with the methods that container/heap wants.
type heldHeap held

func (h heldHeap) Len() int      { return len(h) }
func (h heldHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h heldHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].n < h[j].n
}
func (h *heldHeap) Push(x any) { *h = append(*h, x.(*parcel)) }
func (h *heldHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
