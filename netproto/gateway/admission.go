package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// admission bounds how many asks are open, and hands out the places of an upstream that works on a number of asks at a
// time. An upstream that schedules by itself has places without end: no ask waits here.
//
// While there are free places nobody waits, except that a device gets another place only while it holds fewer than
// are free (dynamic thresholds; Choudhury and Hahne, 1998): so a device that comes later finds some. When places are
// short, devices share them by the new tokens of their asks, see package fair: the ask that would end first is next, so
// a device that asks for little is next at once, however much others ask for, and nobody waits for ever. While
// nobody waits and there are places nothing counts, and what counted before is forgotten.
type admission struct {
	maxOpen   int // asks of all devices
	perDevice int // asks of one device
	places    int

	mu    sync.Mutex
	open  int
	busy  int // devices with open asks
	free  int // places
	queue *fair.Queue[*turn]
}

// turn is an ask that waits for a place.
type turn struct {
	fair.Entry[*turn]
	who   *device
	ready chan struct{} // closed when the place is given
}

func newAdmission(o Options, places int) *admission {
	places = cmp.Or(places, math.MaxInt)
	return &admission{maxOpen: o.MaxAsks, perDevice: o.MaxAsksPerDevice, places: places, free: places,
		queue: fair.New[*turn](fair.Rules{ByEnd: true})}
}

// take counts an ask with so many new tokens as open, and waits for its place. A background ask, which nobody waits
// for, is refused where it would have to wait or to take the last free place.
func (a *admission) take(ctx context.Context, who *device, tokens int, background bool) (leave func(), err error) {
	mine, err := a.enter(who, tokens, background)
	if err != nil {
		return nil, err
	}
	if mine != nil {
		select {
		case <-mine.ready:
		case <-ctx.Done():
			a.giveUp(mine)
			return nil, context.Cause(ctx)
		}
	}
	return func() { a.leave(who) }, nil
}

// enter lets an ask in if there is room for another one of its device. It returns nil if the ask has its place. When
// the gateway is full, devices that have few open asks still get in: as many as each could have if all had the same
// number.
func (a *admission) enter(who *device, tokens int, background bool) (*turn, error) {
	const atLeast = 4
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case who.open >= a.perDevice:
		return nil, busy(fmt.Sprintf("%d asks of this device are open", who.open))
	case a.open >= a.maxOpen && who.open >= max(atLeast, a.maxOpen/max(a.busy, 1)):
		return nil, busy(fmt.Sprintf("%d asks of all devices are open", a.open))
	case background && (a.queue.Len() > 0 || a.free < a.places && who.taken+1 >= a.free):
		return nil, busy("all places at the large model are taken")
	}
	a.count(who, 1)
	if a.queue.Len() == 0 && who.taken < a.free {
		a.queue.Forget()
		a.give(who, 1)
		return nil, nil
	}
	t := &turn{who: who, ready: make(chan struct{})}
	a.queue.Add(who.number, t, &t.Entry, uint64(max(tokens, 1)))
	a.serve()
	return t, nil
}

func busy(detail string) error {
	return netproto.Refusal{Code: netproto.Busy, RetryAfter: 100 * time.Millisecond, Detail: detail}
}

// count counts an ask of a device as open, n is 1, or not any more, -1.
func (a *admission) count(who *device, n int) {
	if who.open == 0 || who.open+n == 0 {
		a.busy += n
	}
	who.open, a.open = who.open+n, a.open+n
}

// give gives a device a place, n is 1, or takes it back, -1.
func (a *admission) give(who *device, n int) { who.taken, a.free = who.taken+n, a.free-n }

// serve gives free places to those whose turn it is. Devices that hold as many as are free are passed over: there are
// no more of them than places.
func (a *admission) serve() {
	a.queue.Advance()
	for f := a.queue.Next(); f != nil && a.free > 0; f = a.queue.Next() {
		t := f.First()
		if t.who.taken >= a.free {
			a.queue.Aside(f)
			continue
		}
		a.queue.Charge(t.who.number, t.Work())
		a.queue.Remove(&t.Entry)
		a.give(t.who, 1)
		close(t.ready)
	}
	a.queue.Restore()
}

// giveUp ends the wait of an ask, which may have got its place meanwhile.
func (a *admission) giveUp(t *turn) {
	a.mu.Lock()
	waits := t.Waits()
	if waits {
		a.queue.Remove(&t.Entry)
		a.count(t.who, -1)
	}
	a.mu.Unlock()
	if !waits {
		a.leave(t.who)
	}
}

// leave ends an ask that has a place.
func (a *admission) leave(who *device) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(who, -1)
	a.give(who, -1)
	a.serve()
}
