package serve

import (
	"context"
	"net/http"
	"sync"

	"github.com/pilotfish-ai/pilotfish/serve/internal/request"
)

// requestLimiter limits the requests that are processed at once and those that wait, first come first served. Requests
// with slow readers may step aside and leave their slot to others.
type requestLimiter struct {
	slots chan struct{} // one value for each request being processed
	limit int           // of waiting requests
	aside int           // limit of requests that stand aside

	mu      sync.Mutex
	waiting int
	stalled int // that stand aside now
}

func newRequestLimiter(parallel, queue, aside int) *requestLimiter {
	return &requestLimiter{slots: make(chan struct{}, parallel), limit: queue, aside: aside}
}

// requestSlot is the slot of one request, or its turn among those that wait. It is not safe for concurrent use.
type requestSlot struct {
	g     *requestLimiter
	waits bool // it had none at first
	aside bool
}

// acquireSlot waits for a slot. The caller calls releaseSlot once.
func (g *requestLimiter) acquireSlot(ctx context.Context) (*requestSlot, error) {
	p, err := g.reserveSlot()
	if err != nil {
		return nil, err
	}
	return p, p.waitForSlot(ctx)
}

// reserveSlot takes a slot, or a turn among the requests that wait. The caller calls waitForSlot, and releaseSlot
// unless that fails.
func (g *requestLimiter) reserveSlot() (*requestSlot, error) {
	select {
	case g.slots <- struct{}{}:
		return &requestSlot{g: g}, nil
	default:
	}
	if err := g.addWaiting(); err != nil {
		return nil, err
	}
	return &requestSlot{g: g, waits: true}, nil
}

// waitForSlot is called once.
func (p *requestSlot) waitForSlot(ctx context.Context) error {
	if !p.waits {
		return nil
	}
	defer p.g.removeWaiting()
	select {
	case p.g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// yieldSlot lets others use the slot for a while. It returns false if the maximum number of requests stands aside
// already.
func (p *requestSlot) yieldSlot() bool {
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

func (p *requestSlot) reacquireSlot(ctx context.Context) error {
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

func (p *requestSlot) releaseSlot() {
	if !p.aside {
		<-p.g.slots
		return
	}
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.g.stalled--
}

func (g *requestLimiter) addWaiting() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting >= g.limit {
		return errTooManyRequests()
	}
	g.waiting++
	return nil
}

func (g *requestLimiter) removeWaiting() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
}

func (g *requestLimiter) currentLoad() (active, waiting, stalled int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.slots), g.waiting, g.stalled
}

func errTooManyRequests() error {
	return request.Refuse(http.StatusTooManyRequests, "rate_limit_exceeded",
		"too many requests are waiting: try again later")
}
