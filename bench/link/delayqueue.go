package link

import (
	"container/heap"
	"time"
)

// datagram is a datagram under way.
type datagram struct {
	due    time.Duration
	n      uint64 // number in its direction; copies have the same one
	client *client
	data   []byte
}

// delayQueue has the packets under way, the next to depart first: a heap ordered by due and n.
type delayQueue []*datagram

func (h *delayQueue) put(p *datagram) { heap.Push((*delayHeap)(h), p) }
func (h *delayQueue) take() *datagram { return heap.Pop((*delayHeap)(h)).(*datagram) }

// delayHeap is delayQueue with the methods of container/heap.
type delayHeap delayQueue

func (h delayHeap) Len() int      { return len(h) }
func (h delayHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h delayHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].n < h[j].n
}
func (h *delayHeap) Push(x any) { *h = append(*h, x.(*datagram)) }
func (h *delayHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
