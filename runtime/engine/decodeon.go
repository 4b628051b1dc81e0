package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// errTextEnds says that nothing follows a text.
var errTextEnds = errors.New("the text ends here")

// next returns the token that follows the context of q. It is computed while no question waits, and takes as long as an
// answer. Nothing follows an end token.
func (s *Service) next(ctx context.Context, q terms.Job) (int32, error) {
	if t, err := s.e.Tokenizer(); err == nil && len(q.Context) > 0 && t.IsEnd(q.Context[len(q.Context)-1]) {
		return 0, errTextEnds
	}
	q.Priority = terms.Ahead
	a, err := s.ask(ctx, q)
	return a.Token, err
}

// decodeOn sends up to most tokens that follow the context of q and token; the context has room for them. It returns at
// once. The channel is closed when ctx ends, the session is forgotten, the service is closed or others need it.
func (s *Service) decodeOn(ctx context.Context, q terms.Job, token int32, most int) <-chan int32 {
	tokens := make(chan int32, most)
	ctx, end, ok := s.onward.begin(ctx, q.Session)
	if !ok {
		close(tokens)
		return tokens
	}
	q.Context = append(slices.Clone(q.Context), token)
	go func() {
		defer end()
		defer close(tokens)
		for range most {
			token, err := s.next(ctx, q)
			if err != nil {
				return
			}
			tokens <- token // there is room for all
			q.Context = append(q.Context, token)
		}
	}()
	return tokens
}

// Forget drops what is kept of a session, see [batch.Service.Forget], and ends what is decoded ahead for it.
func (s *Service) Forget(ctx context.Context, session uint64) error {
	s.onward.stop(func(r *running) bool { return r.session == session })
	return s.Service.Forget(ctx, session)
}

// Close ends the service, see [batch.Service.Close], and what is decoded ahead.
func (s *Service) Close() {
	s.onward.close()
	s.Service.Close()
}

// onward has the goroutines that decode ahead.
type onward struct {
	mu     sync.Mutex
	closed bool
	all    map[*running]struct{}
}

// running is a goroutine that decodes ahead.
type running struct {
	session uint64
	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended
}

// begin makes a context for another one, unless all is closed. The goroutine calls end when it ends.
func (o *onward) begin(ctx context.Context, session uint64) (_ context.Context, end func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{session, cancel, make(chan struct{})}
	if o.all == nil {
		o.all = map[*running]struct{}{}
	}
	o.all[r] = struct{}{}
	return ctx, func() {
		cancel()
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.all, r)
		close(r.over)
	}, true
}

// stop ends the goroutines that match, and waits for them.
func (o *onward) stop(match func(*running) bool) {
	o.mu.Lock()
	var stopped []*running
	for r := range o.all {
		if match(r) {
			r.cancel()
			stopped = append(stopped, r)
		}
	}
	o.mu.Unlock()
	for _, r := range stopped {
		<-r.over
	}
}

// close ends all goroutines and waits for them. None begins after it.
func (o *onward) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.stop(func(*running) bool { return true })
}
