package gateway

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
)

// admission bounds how many asks are open.
type admission struct {
	maxOpen   int // asks of all devices
	perDevice int // asks of one device

	mu   sync.Mutex
	open int
	busy int // devices with open asks
}

// enter counts an ask of a device as open, if there is room for it. When the gateway is full, devices that have few
// open asks still get in: as many as each could have if all had the same number.
func (a *admission) enter(who *device) error {
	const atLeast = 4
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case who.open >= a.perDevice:
		return busy(fmt.Sprintf("%d asks of this device are open", who.open))
	case a.open >= a.maxOpen && who.open >= max(atLeast, a.maxOpen/max(a.busy, 1)):
		return busy(fmt.Sprintf("%d asks of all devices are open", a.open))
	}
	if who.open++; who.open == 1 {
		a.busy++
	}
	a.open++
	return nil
}

func (a *admission) leave(who *device) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	if who.open--; who.open == 0 {
		a.busy--
	}
}

func busy(detail string) error {
	return netproto.Refusal{Code: netproto.Busy, RetryAfter: 100 * time.Millisecond, Detail: detail}
}

// admit counts an ask with so many new tokens as open, and waits for its place if the upstream has a number of them.
// A background ask, which nobody waits for, is refused where it would have to wait or to take the last free place.
func (g *Gateway) admit(ctx context.Context, who *device, tokens int, background bool) (leave func(), err error) {
	if err := g.admission.enter(who); err != nil {
		return nil, err
	}
	if g.places == nil {
		return func() { g.admission.leave(who) }, nil
	}
	if background {
		err = g.places.try(who)
	} else {
		err = g.places.take(ctx, who, tokens)
	}
	if err != nil {
		g.admission.leave(who)
		return nil, err
	}
	return func() {
		g.places.release(who)
		g.admission.leave(who)
	}, nil
}

// few counts what a device has computed while nobody waits for it: a little at a time, and the rest is left.
type few struct{ n atomic.Int32 }

func (f *few) take(most int32) bool {
	if f.n.Add(1) <= most {
		return true
	}
	f.release()
	return false
}

func (f *few) release() { f.n.Add(-1) }
