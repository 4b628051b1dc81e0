package gateway

import (
	"context"
	"sync"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// places hands out the places of an upstream that works on a number of asks at a time.
//
// While there are free places nobody waits, except that a device gets another place only while it holds fewer than
// are free (dynamic thresholds; Choudhury and Hahne, 1998): so a device that comes later finds some. When places are
// short, devices share them by the new tokens of their asks, see package fair: the ask that would end first is next, so
// a device that asks for little is next at once, however much others ask for, and nobody waits for ever. What is given
// while nobody waits counts for nothing.
type places struct {
	all int

	mu      sync.Mutex
	free    int
	waiting int // asks
	queue   *fair.Queue[*turn]
}

// turn is an ask that waits for a place.
type turn struct {
	fair.Entry[*turn]
	who   *device
	ready chan struct{} // closed when the place is given
}

func newPlaces(n int) *places {
	return &places{all: n, free: n, queue: fair.New[*turn](fair.Rules{ByEnd: true})}
}

// try takes a place if nobody waits and it is not the last that the device could get.
func (p *places) try(who *device) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting > 0 || p.free < p.all && who.taken+1 >= p.free {
		return busy("all places at the large model are taken")
	}
	p.give(who)
	return nil
}

// take waits for a place for an ask with so many new tokens.
func (p *places) take(ctx context.Context, who *device, tokens int) error {
	p.mu.Lock()
	if p.waiting == 0 && who.taken < p.free {
		p.give(who)
		p.mu.Unlock()
		return nil
	}
	t := &turn{who: who, ready: make(chan struct{})}
	p.queue.Add(who.number, t, &t.Entry, uint64(max(tokens, 1)))
	p.waiting++
	p.serve()
	p.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		p.giveUp(t)
		return context.Cause(ctx)
	}
}

// give gives a free place to a device.
func (p *places) give(who *device) {
	p.free--
	who.taken++
}

// serve gives free places to those whose turn it is. Devices that hold as many as are free are passed over: there are
// no more of them than places.
func (p *places) serve() {
	p.queue.Advance()
	for f := p.queue.Next(); f != nil && p.free > 0; f = p.queue.Next() {
		t := f.First()
		if t.who.taken >= p.free {
			p.queue.Aside(f)
			continue
		}
		p.queue.Take(&t.Entry)
		p.waiting--
		p.give(t.who)
		close(t.ready)
	}
	p.queue.Restore()
}

// giveUp ends the wait of an ask, or gives its place back if it got one meanwhile.
func (p *places) giveUp(t *turn) {
	p.mu.Lock()
	waits := t.Waits()
	if waits {
		p.queue.Remove(&t.Entry)
		p.waiting--
	}
	p.mu.Unlock()
	if !waits {
		p.release(t.who)
	}
}

// release gives a place of a device back.
func (p *places) release(who *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	who.taken--
	p.serve()
}
