package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// turns hands out places at the upstream. While there are free ones nobody waits; when there are none, clients take
// turns, however many asks each of them has, and one client alone never holds all places.
type turns struct {
	maxWaiting int // asks of one client
	maxShare   int // places of one client

	mu      sync.Mutex
	free    int
	held    map[string]int
	waiting map[string][]*turn // asks of each client, oldest first
	order   []string           // clients that wait, the one whose turn is next first
}

type turn struct {
	ready chan struct{} // closed when the place is given
	given bool
}

func newTurns(places, maxWaiting int) *turns {
	return &turns{maxWaiting: maxWaiting, maxShare: max(places-max(places/4, 1), 1), free: places,
		held: map[string]int{}, waiting: map[string][]*turn{}}
}

// take waits for a place, which release gives back.
func (t *turns) take(ctx context.Context, who string) (release func(), err error) {
	t.mu.Lock()
	if len(t.waiting[who]) >= t.maxWaiting {
		t.mu.Unlock()
		return nil, netproto.Refusal{Code: netproto.Busy, RetryAfter: 100 * time.Millisecond, Detail: "too many asks wait"}
	}
	mine := &turn{ready: make(chan struct{})}
	if len(t.waiting[who]) == 0 {
		t.order = append(t.order, who)
	}
	t.waiting[who] = append(t.waiting[who], mine)
	t.give()
	t.mu.Unlock()

	select {
	case <-mine.ready:
	case <-ctx.Done():
		t.giveUp(who, mine)
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { t.release(who) }), nil
}

// give hands free places to those whose turn it is.
func (t *turns) give() {
	for t.free > 0 {
		i := slices.IndexFunc(t.order, func(who string) bool { return t.held[who] < t.maxShare })
		if i < 0 {
			return
		}
		who := t.order[i]
		next := t.waiting[who][0]
		t.remove(who, 0)
		if len(t.waiting[who]) > 0 { // behind the others
			t.order = append(slices.Delete(t.order, i, i+1), who)
		}
		t.free--
		t.held[who]++
		next.given = true
		close(next.ready)
	}
}

// remove takes an ask out of its queue, and its client out of the order when that was the last one.
func (t *turns) remove(who string, i int) {
	t.waiting[who] = slices.Delete(t.waiting[who], i, i+1)
	if len(t.waiting[who]) == 0 {
		delete(t.waiting, who)
		t.order = slices.DeleteFunc(t.order, func(w string) bool { return w == who })
	}
}

func (t *turns) giveUp(who string, mine *turn) {
	t.mu.Lock()
	given := mine.given
	if !given {
		t.remove(who, slices.Index(t.waiting[who], mine))
	}
	t.mu.Unlock()
	if given {
		t.release(who)
	}
}

func (t *turns) release(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	if t.held[who]--; t.held[who] == 0 {
		delete(t.held, who)
	}
	t.give()
}
