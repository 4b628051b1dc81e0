package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// Limits for the compilation of the schemas of requests.
const (
	preparedAtOnce  = 2                // requests
	longestPrepared = 10 * time.Second // of one request, without waiting for others
)

var errPreparing = errors.New("the schemas of this request take too long: give fewer or simpler ones")

// compileLimiter limits the requests that compile grammars from their schemas: a number at a time, and one of each
// client, so that no client delays all others. It is separate from requestLimiter, where each request takes the slot
// of an answer.
type compileLimiter struct {
	slots chan struct{}
	limit int // requests being prepared or waiting

	mu      sync.Mutex
	all     int
	clients map[string]*clientSlot
}

// clientSlot serialises the requests of a client.
type clientSlot struct {
	slot  chan struct{}
	users int // requests that hold or await it
}

func newCompileLimiter(limit int) *compileLimiter {
	return &compileLimiter{slots: make(chan struct{}, preparedAtOnce), limit: limit, clients: map[string]*clientSlot{}}
}

// acquireSlot waits until a request of a client may be prepared. The caller calls release once.
func (p *compileLimiter) acquireSlot(ctx context.Context, client string) (release func(), err error) {
	own, err := p.addRequest(client)
	if err != nil {
		return nil, err
	}
	var held []chan struct{}
	release = func() {
		for _, slot := range held {
			<-slot
		}
		p.removeRequest(client)
	}
	for _, slot := range []chan struct{}{own, p.slots} { // a request that waits for its client's slot holds no other
		select {
		case slot <- struct{}{}:
			held = append(held, slot)
		case <-ctx.Done():
			release()
			return nil, context.Cause(ctx)
		}
	}
	return release, nil
}

// addRequest registers a request, and returns the slot of its client.
func (p *compileLimiter) addRequest(client string) (chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.limit {
		return nil, errTooManyRequests()
	}
	p.all++
	t := p.clients[client]
	if t == nil {
		t = &clientSlot{slot: make(chan struct{}, 1)}
		p.clients[client] = t
	}
	t.users++
	return t.slot, nil
}

func (p *compileLimiter) removeRequest(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	t := p.clients[client]
	if t.users--; t.users == 0 {
		delete(p.clients, client)
	}
}

// clientID identifies the sender of a request: by its key, or without keys by its address.
func (s *Server) clientID(r *http.Request) string {
	if len(s.keys) > 0 {
		return s.acceptedKey(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// checkModelSupport refuses settings that the model does not support. For a large schema the check takes a while.
func (t *reply) checkModelSupport(ctx context.Context, j *job) (err error) {
	defer recoverPanic(&err)
	if !j.Settings.Structured() && !j.tools {
		return j.Possible(ctx, t.s.model)
	}
	release, err := t.s.compiling.acquireSlot(ctx, t.s.clientID(t.r))
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, longestPrepared, errPreparing)
	defer cancel()
	if err = j.Possible(ctx, t.s.model); err == nil && j.tools {
		err = j.follow(ctx)
	}
	if errors.Is(err, errPreparing) {
		return request.Invalid("", "%v", err)
	}
	return err
}
