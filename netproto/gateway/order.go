package gateway

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
)

// order tracks the streams of a connection that have arrived but are not decoded yet. A client may use a path as a base
// that it sent on an earlier stream. Packets of that stream can be overtaken, or lost and sent again.
type order struct {
	mu      sync.Mutex
	untold  map[quic.StreamID]struct{}
	changed chan struct{} // closed when the path of a stream is known, then replaced
}

func newOrder() *order {
	return &order{untold: map[quic.StreamID]struct{}{}, changed: make(chan struct{})}
}

// come records a stream. Its caller sees streams in the order in which the client opened them.
func (o *order) come(id quic.StreamID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.untold[id] = struct{}{}
}

// pathKnown records that the path of a stream is known, or never will be.
func (o *order) pathKnown(id quic.StreamID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.untold[id]; ok {
		delete(o.untold, id)
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// await waits until the paths of all streams before id are known, or ctx is done.
func (o *order) await(ctx context.Context, id quic.StreamID) {
	for {
		changed, waiting := o.before(id)
		if !waiting {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (o *order) before(id quic.StreamID) (changed <-chan struct{}, waiting bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other := range o.untold {
		if other < id {
			return o.changed, true
		}
	}
	return nil, false
}
