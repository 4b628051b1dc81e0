package openai

import (
	"context"
	"net/http"
	"sync"

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
	stalled int // that stand aside now
}

func newGate(parallel, queue, aside int) *gate {
	return &gate{slots: make(chan struct{}, parallel), limit: queue, aside: aside}
}

// place is the place of one request, or its turn among those that wait. It is not safe for concurrent use.
type place struct {
	g     *gate
	waits bool // it had none at first
	aside bool
}

// enter waits for a place. The caller calls leave once.
func (g *gate) enter(ctx context.Context) (*place, error) {
	p, err := g.queue()
	if err != nil {
		return nil, err
	}
	return p, p.enter(ctx)
}

// queue takes a place, or a turn among those that wait. The caller calls enter, and leave unless that fails.
func (g *gate) queue() (*place, error) {
	select {
	case g.slots <- struct{}{}:
		return &place{g: g}, nil
	default:
	}
	if err := g.wait(); err != nil {
		return nil, err
	}
	return &place{g: g, waits: true}, nil
}

// enter waits for the place. It is called once.
func (p *place) enter(ctx context.Context) error {
	if !p.waits {
		return nil
	}
	defer p.g.waited()
	select {
	case p.g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
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

func (p *place) leave() {
	if !p.aside {
		<-p.g.slots
		return
	}
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.g.stalled--
}

func (g *gate) wait() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting >= g.limit {
		return errBusy()
	}
	g.waiting++
	return nil
}

func (g *gate) waited() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
}

// load returns how many requests are processed, wait, and stand aside.
func (g *gate) load() (active, waiting, stalled int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.slots), g.waiting, g.stalled
}

// errBusy is the error of a request when too many requests wait.
func errBusy() error {
	return request.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded",
		"too many requests are waiting: try again later")
}
