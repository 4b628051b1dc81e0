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

// admission limits the number of open asks, and hands out the places of an upstream with a limited number of them. For
// an upstream that schedules by itself the places are unlimited, and no ask waits here.
//
// While places are free, no ask waits, except that a device gets another place only while it holds fewer than are free
// (dynamic thresholds; Choudhury and Hahne, 1998), so that a device that comes later finds some. When places are
// scarce, clients share them by the new tokens of their asks, and the devices of a client its share, see package fair:
// the ask that would end first is next. So a device that asks for little is next at once, however much others ask for,
// and no ask waits forever. While no ask waits and places are free, no work is charged, and earlier charges are
// forgotten.
type admission struct {
	maxOpen   int // asks of all devices
	perDevice int // asks of one device
	places    int

	mu    sync.Mutex
	open  int
	busy  int // clients with open asks
	free  int // places
	queue *fair.Queue[*waitingAsk]
	pace  placePace
}

// waitingAsk is an ask that waits for a place.
type waitingAsk struct {
	fair.Entry[*waitingAsk]
	who   *device
	ready chan struct{} // closed when the place is given
}

func newAdmission(o Options, places int) *admission {
	places = cmp.Or(places, math.MaxInt)
	return &admission{maxOpen: o.derived.MaxAsks, perDevice: o.derived.MaxAsksPerDevice, places: places, free: places,
		queue: fair.New[*waitingAsk](fair.Rules{Price: 1}), pace: placePace{places: places}}
}

// acquirePlace counts an ask with this number of new tokens as open, and waits for its place. A background ask is
// refused if it would have to wait or to take the last free place, any other one if its answer would come after ctx
// ends, as far as that is known now.
func (a *admission) acquirePlace(
	ctx context.Context, who *device, tokens int, background bool,
) (release func(), err error) {
	mine, err := a.admitAsk(ctx, who, tokens, background)
	if err != nil {
		return nil, err
	}
	if mine != nil {
		select {
		case <-mine.ready:
		case <-ctx.Done():
			a.cancelWait(mine)
			return nil, context.Cause(ctx)
		}
	}
	return func() { a.releasePlace(who, max(tokens, 1)) }, nil
}

// admitAsk admits an ask if there is room for another one of its device. It returns nil if the ask has its place. When
// the gateway is full, a device is still admitted while it has fewer asks than each device could have if all clients
// had the same number, and all devices of its client.
func (a *admission) admitAsk(
	ctx context.Context, who *device, tokens int, background bool,
) (*waitingAsk, error) {
	const atLeast = 4
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case who.open >= a.perDevice:
		return nil, busyRefusal(soon, "%d asks of this device are open", who.open)
	case a.open >= a.maxOpen && who.open >= max(atLeast, a.maxOpen/max(a.busy, 1)/max(who.client.busy, 1)):
		return nil, busyRefusal(soon, "%d asks of all devices are open", a.open)
	case background && (a.queue.Len() > 0 || a.free < a.places && who.taken+1 >= a.free):
		return nil, busyRefusal(soon, "all places at the large model are taken")
	}
	a.updateOpenCount(who, 1)
	if a.queue.Len() == 0 && who.taken < a.free {
		a.queue.Forget()
		a.updatePlaceCount(who, 1)
		return nil, nil
	}
	t := &waitingAsk{who: who, ready: make(chan struct{})}
	a.queue.Add(who.client.number, who.number, who.client.shareWeight(), t, &t.Entry, uint64(max(tokens, 1)))
	a.assignFreePlaces()
	return t, a.refuseLate(ctx, t)
}

// refuseLate takes an ask that waits out of the queue if its answer would come after ctx ends.
func (a *admission) refuseLate(ctx context.Context, t *waitingAsk) error {
	end, bounded := ctx.Deadline()
	if !bounded || !t.Waits() {
		return nil
	}
	now := time.Now()
	within := end.Sub(now)
	late := a.pace.lateBy(&t.Entry, a.queue, within)
	if late == 0 {
		return nil
	}
	a.removeWaiting(t)
	after := late + a.pace.retry.Reserve(now, time.Duration(t.Work())*a.pace.token, within)
	return busyRefusal(after, "others come first, and the answer would be late: one like it may be in time after %v",
		after.Round(time.Millisecond))
}

func (a *admission) removeWaiting(t *waitingAsk) {
	a.queue.Remove(&t.Entry)
	a.updateOpenCount(t.who, -1)
}

// soon is when a refused ask may find room.
const soon = 100 * time.Millisecond

func busyRefusal(after time.Duration, format string, args ...any) error {
	return netproto.Refusal{Code: netproto.Busy, RetryAfter: after, Detail: fmt.Sprintf(format, args...)}
}

// updateOpenCount counts an ask that begins, if n is 1, or one that ends, if it is -1.
func (a *admission) updateOpenCount(who *device, n int) {
	if of := who.client; who.open == 0 || who.open+n == 0 {
		if of.busy == 0 || of.busy+n == 0 {
			a.busy += n
		}
		of.busy += n
	}
	who.open, a.open = who.open+n, a.open+n
}

func (a *admission) updatePlaceCount(who *device, n int) { who.taken, a.free = who.taken+n, a.free-n }

// assignFreePlaces gives free places to the devices that are next. It skips devices that hold as many places as are
// free; there are no more of them than places.
func (a *admission) assignFreePlaces() {
	a.queue.Advance()
	for f := a.queue.Next(); f != nil && a.free > 0; f = a.queue.Next() {
		t := f.First()
		if t.who.taken >= a.free {
			a.queue.Aside(f)
			continue
		}
		a.queue.Charge(t.who.client.number, t.who.number, t.Work(), t.who.client.shareWeight())
		a.queue.Remove(&t.Entry)
		a.updatePlaceCount(t.who, 1)
		close(t.ready)
	}
	a.queue.Restore()
}

// cancelWait also handles an ask that has received its place meanwhile.
func (a *admission) cancelWait(t *waitingAsk) {
	a.mu.Lock()
	waits := t.Waits()
	if waits {
		a.removeWaiting(t)
	}
	a.mu.Unlock()
	if !waits {
		a.releasePlace(t.who, 0)
	}
}

// releasePlace ends an ask with this number of new tokens, 0 if they were not asked about.
func (a *admission) releasePlace(who *device, tokens int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pace.learnRelease(tokens, a.queue.Len() > 0, time.Now())
	a.updateOpenCount(who, -1)
	a.updatePlaceCount(who, -1)
	a.assignFreePlaces()
}
