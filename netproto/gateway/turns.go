package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/sorted"
	"github.com/pilotfish-ai/pilotfish/netproto"
)

// turns hands out places at the upstream, and bounds how many asks are open.
//
// While there are free places nobody waits, except that a device gets another place only while it holds fewer than
// are free (dynamic thresholds; Choudhury and Hahne, 1998): so a device that comes later finds some. When places are
// short, devices share them by the new tokens of their asks, by fair queueing (Demers, Keshav, Shenker, 1989): an ask
// ends, in virtual time, its tokens after the ask before it of the same device, or after now if that is later, and the
// ask that ends first is next. Virtual time advances by the tokens that are served divided by the devices that have
// asks. So a device that asks for little is next at once, however much others ask for, and nobody waits for ever.
type turns struct {
	places    int
	maxOpen   int // asks of all devices
	perDevice int // asks of one device

	mu    sync.Mutex
	free  int // places
	open  int
	busy  int     // devices with open asks
	now   float64 // virtual time
	lines map[deviceID]*line
	sweep int                // lines from which on those without influence are looked for
	next  sorted.Heap[*line] // those in which somebody waits
}

// line is the asks of one device.
type line struct {
	device  deviceID
	open    int     // asks that wait or hold a place
	taken   int     // places
	ends    float64 // virtual time at which its last ask ends
	waiting []*turn // oldest first
	place   int     // in next
}

type turn struct {
	ends   float64
	tokens int
	ready  chan struct{} // closed when the place is given
	given  bool
}

func newTurns(o Options, places int) *turns {
	return &turns{
		places: places, maxOpen: o.MaxAsks, perDevice: o.MaxAsksPerDevice, free: places, lines: map[deviceID]*line{},
		next: sorted.Heap[*line]{
			Before: func(a, b *line) bool { return a.waiting[0].ends < b.waiting[0].ends },
			Place:  func(l *line) *int { return &l.place },
		},
	}
}

// take waits for a place for an ask of so many new tokens, which release gives back. A background ask, which nobody
// waits for, is refused where it would have to wait or to take the last free place.
func (t *turns) take(ctx context.Context, who deviceID, tokens int, background bool) (release func(), err error) {
	t.mu.Lock()
	mine, err := t.enter(who, tokens, background)
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-mine.ready:
	case <-ctx.Done():
		t.giveUp(who, mine)
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { t.release(who) }), nil
}

// enter puts an ask into the line of its device.
func (t *turns) enter(who deviceID, tokens int, background bool) (*turn, error) {
	l := t.line(who)
	if err := t.admit(l, background); err != nil {
		t.tidy(l)
		return nil, err
	}
	tokens = max(tokens, 1)
	l.ends = max(t.now, l.ends) + float64(tokens)
	mine := &turn{ends: l.ends, tokens: tokens, ready: make(chan struct{})}
	l.waiting = append(l.waiting, mine)
	if l.open++; l.open == 1 {
		t.busy++
	}
	t.open++
	t.queue(l)
	t.give()
	return mine, nil
}

// admit decides whether there is room for another ask of a device. When the gateway is full, devices that have few open
// asks still get in: as many as each could have if all had alike.
func (t *turns) admit(l *line, background bool) error {
	const atLeast = 4
	fair := max(atLeast, t.maxOpen/max(t.busy, 1))
	switch {
	case l.open >= t.perDevice:
		return busy("%d asks of this device are open", l.open)
	case t.open >= t.maxOpen && l.open >= fair:
		return busy("%d asks of all devices are open", t.open)
	case background && (t.next.Len() > 0 || t.free < t.places && l.taken+1 >= t.free):
		return busy("all places at the large model are taken", 0)
	}
	return nil
}

// line returns the line of a device. Those that have no influence any more are forgotten from time to time.
func (t *turns) line(who deviceID) *line {
	if l := t.lines[who]; l != nil {
		return l
	}
	if len(t.lines) >= t.sweep {
		for _, l := range t.lines {
			t.tidy(l)
		}
		t.sweep = 2*len(t.lines) + 64
	}
	l := &line{device: who}
	t.lines[who] = l
	return l
}

func busy(format string, n int) error {
	if n > 0 {
		format = fmt.Sprintf(format, n)
	}
	return netproto.Refusal{Code: netproto.Busy, RetryAfter: 100 * time.Millisecond, Detail: format}
}

// queue puts a line where it belongs in the order of those in which somebody waits.
func (t *turns) queue(l *line) { t.next.Set(l, len(l.waiting) > 0) }

// give hands free places to those whose turn it is.
func (t *turns) give() {
	var later []*line // hold more places than are free, so there are no more of them than places
	for t.free > 0 && t.next.Len() > 0 {
		l := t.next.First()
		if l.taken >= t.free {
			t.next.Set(l, false)
			later = append(later, l)
			continue
		}
		mine := l.waiting[0]
		t.now += float64(mine.tokens) / float64(t.busy)
		t.free--
		l.taken++
		mine.given = true
		close(mine.ready)
		t.drop(l, mine)
	}
	for _, l := range later {
		t.queue(l)
	}
}

// drop takes an ask out of its line.
func (t *turns) drop(l *line, mine *turn) {
	t.next.Set(l, false) // it is ordered by its first ask
	l.waiting = slices.DeleteFunc(l.waiting, func(x *turn) bool { return x == mine })
	t.queue(l)
}

// tidy forgets a device that has no asks, when its past has no influence on the order any more.
func (t *turns) tidy(l *line) {
	if l.open > 0 {
		return
	}
	if l.ends <= t.now {
		delete(t.lines, l.device)
	}
}

func (t *turns) giveUp(who deviceID, mine *turn) {
	t.mu.Lock()
	given := mine.given
	if !given {
		l := t.lines[who]
		t.drop(l, mine)
		t.leave(l)
	}
	t.mu.Unlock()
	if given {
		t.release(who)
	}
}

func (t *turns) leave(l *line) {
	t.open--
	if l.open--; l.open == 0 {
		t.busy--
	}
	t.tidy(l)
}

func (t *turns) release(who deviceID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[who]
	t.free++
	l.taken--
	t.leave(l)
	t.give()
}
