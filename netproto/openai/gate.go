package openai

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"
)

// gate lets so many requests in at once, has so many wait in the order in which they came, and sends the others away.
type gate struct {
	slots chan struct{} // one value for each request that is in
	most  int           // that wait

	mu      sync.Mutex
	waiting int
	mean    time.Duration // that a request is in, of late
}

func newGate(parallel, queue int) *gate {
	return &gate{slots: make(chan struct{}, parallel), most: queue}
}

// enter waits until there is room. The caller calls leave once, with how long it was in.
func (g *gate) enter(ctx context.Context) (leave func(time.Duration), err error) {
	select {
	case g.slots <- struct{}{}:
		return g.leave, nil
	default:
	}
	if err := g.wait(); err != nil {
		return nil, err
	}
	defer g.waited()
	select {
	case g.slots <- struct{}{}:
		return g.leave, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wait takes a place among those that wait.
func (g *gate) wait() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting >= g.most {
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

// leave makes room, and learns how long requests take.
func (g *gate) leave(took time.Duration) {
	g.mu.Lock()
	if g.mean == 0 {
		g.mean = took
	} else {
		g.mean += (took - g.mean) / 8
	}
	g.mu.Unlock()
	<-g.slots
}

// after is when it is worth to come again: when those that wait are done.
func (g *gate) after() time.Duration {
	rounds := math.Ceil(float64(g.waiting+1) / float64(cap(g.slots)))
	return min(max(time.Duration(rounds)*g.mean, time.Second), time.Minute)
}

// load returns how many requests are in, and how many wait.
func (g *gate) load() (active, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.slots), g.waiting
}

// busyError is that of a request that found no place.
type busyError struct{ after time.Duration }

// Error implements error.
func (e *busyError) Error() string { return "too many requests are waiting: try again later" }

// Unwrap returns what clients are told.
func (e *busyError) Unwrap() error {
	return &Error{http.StatusTooManyRequests, e.Error(), rateLimit, "", "rate_limit_exceeded"}
}
