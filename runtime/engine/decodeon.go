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

// next returns the token that follows the context of q, of which the rest is session, device, domain and sampling. It
// is computed while nobody waits for the service, and takes as long as an answer does. Nothing follows an end token.
func (s *Service) next(ctx context.Context, q terms.Job) (int32, error) {
	if t, err := s.e.Tokenizer(); err == nil && len(q.Context) > 0 && t.IsEnd(q.Context[len(q.Context)-1]) {
		return 0, errTextEnds
	}
	q.Priority = terms.Ahead
	a, err := s.ask(ctx, q)
	return a.Token, err
}

// decodeOn sends up to most tokens that follow the context of q, which has room for so many, and token. It returns at
// once; the channel is closed when ctx ends, the session is forgotten, the service is closed or others need it.
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

// Forget drops what is kept of a session, as [batch.Service.Forget] says, and ends what is decoded ahead of it.
func (s *Service) Forget(ctx context.Context, session uint64) error {
	s.onward.forget(session)
	return s.Service.Forget(ctx, session)
}

// Close ends the service, as [batch.Service.Close] says, and what is decoded ahead.
func (s *Service) Close() {
	s.onward.close()
	s.Service.Close()
}

// onward is what decodes ahead, by session.
type onward struct {
	mu       sync.Mutex
	closed   bool
	sessions map[uint64][]*running
}

// running is a goroutine that decodes ahead.
type running struct {
	end  context.CancelFunc
	over chan struct{} // closed when it has ended
}

// begin makes a context for another one, unless all is closed. The goroutine calls end when it ends.
func (o *onward) begin(ctx context.Context, session uint64) (_ context.Context, end func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel, make(chan struct{})}
	if o.sessions == nil {
		o.sessions = map[uint64][]*running{}
	}
	o.sessions[session] = append(o.sessions[session], r)
	return ctx, func() {
		cancel()
		o.mu.Lock()
		defer o.mu.Unlock()
		rest := slices.DeleteFunc(o.sessions[session], func(x *running) bool { return x == r })
		if o.sessions[session] = rest; len(rest) == 0 {
			delete(o.sessions, session)
		}
		close(r.over)
	}, true
}

// forget ends those of a session, and waits for them.
func (o *onward) forget(session uint64) {
	o.mu.Lock()
	all := slices.Clone(o.sessions[session])
	o.mu.Unlock()
	await(all)
}

// close ends all, and waits for them. There are none after it.
func (o *onward) close() {
	o.mu.Lock()
	o.closed = true
	var all []*running
	for _, some := range o.sessions {
		all = append(all, some...)
	}
	o.mu.Unlock()
	await(all)
}

// await ends goroutines and waits for them.
func await(all []*running) {
	for _, r := range all {
		r.end()
	}
	for _, r := range all {
		<-r.over
	}
}
