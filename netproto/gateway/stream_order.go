package gateway

import (
	"context"
	"sync"

	"github.com/quic-go/quic-go"
)

// streamOrder tracks the streams of a connection that have arrived but are not decoded yet. A client may use a path as
// a base that it sent on an earlier stream. Packets of that stream can be overtaken, or lost and sent again.
type streamOrder struct {
	mu      sync.Mutex
	untold  map[quic.StreamID]struct{}
	changed chan struct{} // closed when the path of a stream is known, then replaced
}

func newStreamOrder() *streamOrder {
	return &streamOrder{untold: map[quic.StreamID]struct{}{}, changed: make(chan struct{})}
}

// addStream is called in the order in which the client opened the streams.
func (o *streamOrder) addStream(id quic.StreamID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.untold[id] = struct{}{}
}

// markPathKnown records that the path of a stream is known, or never will be.
func (o *streamOrder) markPathKnown(id quic.StreamID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.untold[id]; ok {
		delete(o.untold, id)
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// waitForEarlier waits until the paths of all streams before id are known, or ctx is done.
func (o *streamOrder) waitForEarlier(ctx context.Context, id quic.StreamID) {
	for {
		changed, waiting := o.earlierPending(id)
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

func (o *streamOrder) earlierPending(id quic.StreamID) (changed <-chan struct{}, waiting bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other := range o.untold {
		if other < id {
			return o.changed, true
		}
	}
	return nil, false
}
