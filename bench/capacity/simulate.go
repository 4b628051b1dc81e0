package capacity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/fair"
)

// Window defines the answers of a run that count: those with a prompt sent from Warm on and before End. The devices
// continue until all of these are complete.
type Window struct{ Warm, End time.Duration }

// check returns an error for an empty window.
func (w Window) check() error {
	if w.Warm < 0 || w.End <= w.Warm {
		return fmt.Errorf("a window from %v to %v has no time", w.Warm, w.End)
	}
	return nil
}

// device is a simulated device. It waits for one event at a time.
type device struct {
	user
	script
	asked int  // sent asks of the script
	next  what // the event at the time due
	due   time.Duration
	order uint64 // order of planning, which decides between events at the same time
	place int    // index in the events
	begin time.Duration

	work // at the large model
}

// what is the kind of a device's next event.
type what int

const (
	prompts  what = iota // it sends the next prompt
	arrives              // the ask, or the prompt in the mode cloud, arrives at the gateway
	complete             // the last token arrives at the device
)

// scheduler distributes the passes of the large model.
type scheduler interface {
	add(d *device)           // an ask, or a prompt, has arrived
	plan() (rows, heads int) // the next pass; no rows: nothing to compute
	end(done func(*device))  // the pass has ended: calls done for each device with a complete result
}

// gateway is the simulation of one gateway with its devices.
type gateway struct {
	w      *Workload
	c      *Costs
	mode   Mode
	window Window
	s      scheduler
	now    time.Duration
	events fair.Heap[*device]
	count  uint64        // of planned events
	ends   time.Duration // end of the current pass; 0: none
	left   int           // answers that count and are incomplete
	open   int           // answers under way
	tally
}

// simulate simulates devices and gateways, each with a large model with these costs, in virtual time. Devices are
// spread evenly. The result depends only on the arguments.
func simulate(
	ctx context.Context, w *Workload, c *Costs, mode Mode, devices, gateways int, window Window,
) (Point, error) {
	if err := errors.Join(w.Validate(), c.Validate(), window.check()); err != nil {
		return Point{}, err
	}
	if devices < 1 || gateways < 1 {
		return Point{}, fmt.Errorf("%d devices and %d gateways: give 1 or more of each", devices, gateways)
	}
	all := tally{window: window}
	for g := range min(gateways, devices) {
		one := newGateway(w, c, mode, window)
		for i := g; i < devices; i += gateways {
			one.join(i)
		}
		if err := one.run(ctx); err != nil {
			return Point{}, err
		}
		all.add(&one.tally)
	}
	p := all.point(w)
	p.Devices, p.Gateways = devices, gateways
	p.Utilisation /= float64(gateways)
	return p, nil
}

func newGateway(w *Workload, c *Costs, mode Mode, window Window) *gateway {
	g := &gateway{w: w, c: c, mode: mode, window: window, tally: tally{window: window}}
	g.events = fair.Heap[*device]{
		Before: func(a, b *device) bool { return a.due < b.due || a.due == b.due && a.order < b.order },
		Place:  func(d *device) *int { return &d.place },
	}
	if mode == Cloud {
		g.s = newStreams(w)
	} else {
		g.s = newService(serviceRows)
	}
	return g
}

// join adds a device, which begins with a pause.
func (g *gateway) join(number int) {
	d := &device{user: newUser(g.w, g.mode, number)}
	g.plan(d, prompts, d.pause())
}

// plan sets the next event of a device.
func (g *gateway) plan(d *device, next what, at time.Duration) {
	g.count++
	d.next, d.due, d.order = next, at, g.count
	g.events.Set(d, true)
}

// run simulates until all answers that count are complete.
func (g *gateway) run(ctx context.Context) error {
	const between = 1 << 14 // events between checks of ctx
	for n := 0; ; n++ {
		if n%between == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d := g.events
		pass := g.ends > 0 && (d.Len() == 0 || g.ends < d.First().due)
		switch {
		case pass:
			g.now = g.ends
		case d.Len() > 0:
			g.now = d.First().due
		}
		if g.now >= g.window.End && g.left == 0 {
			return nil
		}
		if pass {
			g.endPass()
		} else {
			g.event(g.events.First())
		}
	}
}

// event handles the next event of a device.
func (g *gateway) event(d *device) {
	g.events.Set(d, false)
	switch d.next {
	case prompts:
		g.prompt(d)
	case arrives:
		g.asks += g.within()
		g.s.add(d)
		if g.ends == 0 {
			g.beginPass()
		}
	case complete:
		g.complete(d)
	}
}

// within returns 1 within the window, and 0 outside.
func (g *gateway) within() int {
	if g.now >= g.window.Warm && g.now < g.window.End {
		return 1
	}
	return 0
}

// prompt begins an answer.
func (g *gateway) prompt(d *device) {
	d.begin, d.asked = g.now, 0
	g.left += g.within()
	g.open++
	g.maxOpen = max(g.maxOpen, g.open)
	d.user.next(&d.script)
	if g.mode == Cloud {
		g.plan(d, arrives, g.now+g.w.RTT/2+g.c.ask())
		return
	}
	g.onward(d, g.now)
}

// onward simulates a device from a given time: it generates up to its next ask, or to the end.
func (g *gateway) onward(d *device, from time.Duration) {
	if d.asked == len(d.asks) {
		g.plan(d, complete, from+g.w.passes(d.rest))
		return
	}
	d.ask = d.asks[d.asked]
	d.asked++
	g.plan(d, arrives, from+g.w.passes(d.ask.passes)+g.w.RTT/2+g.c.ask())
}

// complete ends an answer, which a pause follows.
func (g *gateway) complete(d *device) {
	if d.begin >= g.window.Warm && d.begin < g.window.End {
		g.left--
		g.took = append(g.took, g.now-d.begin)
	}
	g.answers += g.within()
	g.open--
	g.plan(d, prompts, g.now+d.pause())
}

// beginPass starts the next pass, if there is something to compute.
func (g *gateway) beginPass() {
	g.ends = 0
	rows, heads := g.s.plan()
	if rows == 0 {
		return
	}
	took := g.c.Time(rows, heads)
	g.ends = g.now + max(took, 1)
	if g.within() == 1 {
		g.passes++
		g.rows += rows
	}
	g.busy += max(0, min(g.ends, g.window.End)-max(g.now, g.window.Warm))
}

// endPass sends the complete results and starts the next pass. A device that asks again immediately is too late for it.
func (g *gateway) endPass() {
	g.s.end(func(d *device) {
		if g.mode == Cloud {
			g.plan(d, complete, g.now+g.w.RTT/2)
		} else {
			g.onward(d, g.now+g.w.RTT/2)
		}
	})
	g.beginPass()
}
