package openai

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/openai/request"
)

// gate limits the requests that are processed at once and those that wait, first come first served. Requests with slow
// readers may step aside and leave their place to others.
type gate struct {
	slots chan struct{} // one value for each request being processed
	limit int           // of waiting requests
	aside int           // limit of requests that stand aside

	mu      sync.Mutex
	waiting int
	stalled int           // that stand aside now
	mean    time.Duration // recent mean time of a request
}

func newGate(parallel, queue, aside int) *gate {
	return &gate{slots: make(chan struct{}, parallel), limit: queue, aside: aside}
}

// place is the place of one request. It is not safe for concurrent use.
type place struct {
	g     *gate
	begun time.Time
	aside bool
}

// enter waits for a place. The caller calls leave once.
func (g *gate) enter(ctx context.Context) (*place, error) {
	select {
	case g.slots <- struct{}{}:
		return &place{g: g, begun: time.Now()}, nil
	default:
	}
	if err := g.wait(); err != nil {
		return nil, err
	}
	defer g.waited()
	select {
	case g.slots <- struct{}{}:
		return &place{g: g, begun: time.Now()}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stepAside gives the place to others for a while. It returns false if the maximum number stands aside already.
func (p *place) stepAside() bool {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	if p.g.stalled >= p.g.aside {
		return false
	}
	p.g.stalled++
	p.aside = true
	<-p.g.slots
	return true
}

// back waits for a place again.
func (p *place) back(ctx context.Context) error {
	select {
	case p.g.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.aside = false
	p.g.mu.Lock()
	p.g.stalled--
	p.g.mu.Unlock()
	return nil
}

// leave frees the place and records how long the request took.
func (p *place) leave() {
	g, took := p.g, time.Since(p.begun)
	g.mu.Lock()
	if g.mean == 0 {
		g.mean = took
	} else {
		g.mean += (took - g.mean) / 8
	}
	if p.aside {
		g.stalled--
	}
	g.mu.Unlock()
	if !p.aside {
		<-g.slots
	}
}

// wait joins the waiting requests.
func (g *gate) wait() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting >= g.limit {
		return &busyError{g.after()}
	}
	g.waiting++
	return nil
}

func (g *gate) waited() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
}

// after estimates when the waiting requests will be done.
func (g *gate) after() time.Duration {
	rounds := math.Ceil(float64(g.waiting+1) / float64(cap(g.slots)))
	return min(max(time.Duration(rounds)*g.mean, time.Second), time.Minute)
}

// load returns how many requests are processed, wait, and stand aside.
func (g *gate) load() (active, waiting, stalled int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.slots), g.waiting, g.stalled
}

// busyError is the error of a request when too many requests wait.
type busyError struct{ after time.Duration }

// Error implements error.
func (e *busyError) Error() string { return "too many requests are waiting: try again later" }

// Unwrap returns the error that clients get.
func (e *busyError) Unwrap() error {
	return request.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded", "%v", e.Error())
}
