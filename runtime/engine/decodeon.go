package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// errTextEnds is the error for a context that ends with an end token.
var errTextEnds = errors.New("the text ends here")

// decodeNext returns the token that follows the context of q. It is computed while no question waits, and takes at
// least the minimum time of an answer. It is an error if the context ends with an end token.
func (s *Service) decodeNext(ctx context.Context, q terms.Job) (int32, error) {
	if t, err := s.e.Tokenizer(); err == nil && len(q.Context) > 0 && t.IsEnd(q.Context[len(q.Context)-1]) {
		return 0, errTextEnds
	}
	q.Priority = terms.Ahead
	a, err := s.askPaced(ctx, q)
	return a.Token, err
}

// decodeAhead decodes up to most tokens after the context of q and token, and sends them on the returned channel. The
// context must have room for them. It returns at once. The channel is closed early when ctx ends, the session is
// forgotten, the service is closed, or other work needs the time.
func (s *Service) decodeAhead(ctx context.Context, q terms.Job, token int32, most int) <-chan int32 {
	tokens := make(chan int32, most)
	ctx, end, ok := s.ahead.startDecoder(ctx, q.Session)
	if !ok {
		close(tokens)
		return tokens
	}
	q.Context = append(slices.Clone(q.Context), token)
	go func() {
		defer end()
		defer close(tokens)
		for range most {
			token, err := s.decodeNext(ctx, q)
			if err != nil {
				return
			}
			tokens <- token // there is room for all
			q.Context = append(q.Context, token)
		}
	}()
	return tokens
}

// Forget drops the tokens of a session, see [batch.Service.Forget], and stops decoding ahead for it.
func (s *Service) Forget(ctx context.Context, session uint64) error {
	s.ahead.stopMatching(func(r *aheadDecoder) bool { return r.session == session })
	return s.Service.Forget(ctx, session)
}

// Close ends the service, see [batch.Service.Close], and stops all decoding ahead.
func (s *Service) Close() {
	s.ahead.stopAll()
	s.Service.Close()
}

// aheadDecoders manages the goroutines that decode ahead.
type aheadDecoders struct {
	mu     sync.Mutex
	closed bool
	all    map[*aheadDecoder]struct{}
}

// aheadDecoder is a goroutine that decodes ahead.
type aheadDecoder struct {
	session uint64
	cancel  context.CancelFunc
	over    chan struct{} // closed when it has ended
}

// startDecoder returns a context for a new goroutine; ok is false after stopAll. The goroutine calls end when it ends.
func (o *aheadDecoders) startDecoder(ctx context.Context, session uint64) (_ context.Context, end func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &aheadDecoder{session, cancel, make(chan struct{})}
	if o.all == nil {
		o.all = map[*aheadDecoder]struct{}{}
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

// stopMatching ends the goroutines that match, and waits for them.
func (o *aheadDecoders) stopMatching(match func(*aheadDecoder) bool) {
	o.mu.Lock()
	var stopped []*aheadDecoder
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

// stopAll ends all goroutines and waits for them. No new one can begin afterwards.
func (o *aheadDecoders) stopAll() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.stopMatching(func(*aheadDecoder) bool { return true })
}
