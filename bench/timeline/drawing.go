package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// process is one of an answer; its number in the file is that of the first of the answer plus this.
type process int

const (
	device process = iota
	network
	gateway
	processes
)

// track is a group of threads of a process: bars that overlap lie on threads of their own.
type track int

const (
	steps track = iota
	operations
	gpu
	asks
	text
	up
	down
	served
	tracks
)

// of says to which process a track belongs, and what it is called.
func (k track) of() (process, string) {
	switch k {
	case steps:
		return device, "draft steps"
	case operations:
		return device, "operations"
	case gpu:
		return device, "GPU"
	case asks:
		return device, "asks"
	case text:
		return device, "text"
	case up:
		return network, "up"
	case down:
		return network, "down"
	}
	return gateway, "asks"
}

// span is something that took time. Times are since the text began.
type span struct {
	name     string
	from, to time.Duration
	args     args
}

// bar is spans, one after the other or within each other, that lie on one thread.
type bar struct {
	track    track
	from, to time.Duration
	spans    []span // none begins before the one before it
	lane     int    // of its track, from 0
}

// point is where an arrow touches a bar.
type point struct {
	bar *bar
	at  time.Duration
}

// at is where an arrow touches b, as near to a time as can be.
func (b *bar) at(t time.Duration) point {
	if b == nil {
		return point{}
	}
	return point{b, min(max(t, b.from), b.to-1)}
}

// drawing turns what was recorded of a text into events.
type drawing struct {
	t      *Text
	first  int // number of the first process
	arrows int // so far, in the file
	wall   time.Duration
	bars   []*bar
	touch  []touch
	all    []event
}

// touch is a part of an arrow, whose bar has no thread yet.
type touch struct {
	event
	bar *bar
}

// least is the shortest bar that arrows point to.
const least = time.Microsecond

// draw returns the events of the text, in order.
func (d *drawing) draw() []event {
	d.wall = d.t.ended()
	d.steps()
	d.operations()
	tokens := d.text()
	d.asks(tokens)
	d.place()
	for _, b := range d.bars {
		for _, s := range b.spans {
			p, thread := d.thread(b)
			d.all = append(d.all, event{
				Name: s.name, Phase: spans, Time: micros(s.from), Dur: micros(s.to - s.from),
				Process: p, Thread: thread, Args: s.args,
			})
		}
	}
	for _, a := range d.touch {
		a.Process, a.Thread = d.thread(a.bar)
		d.all = append(d.all, a.event)
	}
	inOrder(d.all)
	return d.all
}

// ended is how long the answer took; of one that has not ended, as far as is known.
func (t *Text) ended() time.Duration {
	wall := t.wall
	if wall == 0 {
		wall = 1
		for _, e := range t.events {
			wall = max(wall, t.zero+e.At)
		}
	}
	return wall
}

// bar adds a bar of spans, within the time of the answer. Spans without length are left out, and nil is returned where
// none is left.
func (d *drawing) bar(k track, all ...span) *bar {
	b := &bar{track: k}
	for _, s := range all {
		s.from, s.to = max(s.from, 0), min(s.to, d.wall)
		if s.from < s.to {
			b.spans = append(b.spans, s)
		}
	}
	if len(b.spans) == 0 {
		return nil
	}
	b.from = b.spans[0].from
	for _, s := range b.spans {
		b.to = max(b.to, s.to)
	}
	d.bars = append(d.bars, b)
	return b
}

// place lays bars of a track that overlap on lanes, as few as there can be, and names processes and threads.
func (d *drawing) place() {
	slices.SortStableFunc(d.bars, func(a, b *bar) int {
		return cmp.Or(cmp.Compare(a.track, b.track), cmp.Compare(a.from, b.from))
	})
	var ends [tracks][]time.Duration
	for _, b := range d.bars {
		lanes := ends[b.track]
		b.lane = slices.IndexFunc(lanes, func(end time.Duration) bool { return end <= b.from })
		if b.lane < 0 {
			b.lane, lanes = len(lanes), append(lanes, 0)
		}
		lanes[b.lane] = b.to
		ends[b.track] = lanes
	}
	for k := range tracks {
		for lane := range ends[k] {
			d.name(&bar{track: k, lane: lane})
		}
	}
}

// thread returns the numbers of the process and the thread that a bar lies on.
func (d *drawing) thread(b *bar) (p, thread int) {
	const lanes = 1000 // more than there are tokens under way
	of, _ := b.track.of()
	return d.first + int(of), int(b.track)*lanes + b.lane + 1
}

// name names the thread of a bar, and its process before the first of its threads.
func (d *drawing) name(b *bar) {
	p, thread := d.thread(b)
	of, name := b.track.of()
	known := slices.ContainsFunc(d.all, func(e event) bool { return e.Name == "process_name" && e.Process == p })
	if !known {
		title := [...]string{"device", "network", "gateway"}[of]
		if d.t.name != "" {
			title = d.t.name + ": " + title
		}
		d.all = append(d.all,
			event{Name: "process_name", Phase: named, Process: p, Args: args{"name": title}},
			event{Name: "process_sort_index", Phase: named, Process: p, Args: args{"sort_index": p}})
	}
	if b.lane > 0 {
		name = fmt.Sprintf("%s %d", name, b.lane+1)
	}
	d.all = append(d.all,
		event{Name: "thread_name", Phase: named, Process: p, Thread: thread, Args: args{"name": name}},
		event{Name: "thread_sort_index", Phase: named, Process: p, Thread: thread, Args: args{"sort_index": thread}})
}

// arrow leads through points, in the order of time; those without a bar are left out. It takes two at least.
func (d *drawing) arrow(name string, points ...point) {
	points = slices.DeleteFunc(points, func(p point) bool { return p.bar == nil })
	if len(points) < 2 {
		return
	}
	d.arrows++
	for i, p := range points {
		e := event{Name: name, Cat: name, ID: d.arrows, Time: micros(p.at), Bind: "e", Phase: arrowStep}
		switch i {
		case 0:
			e.Phase = arrow
		case len(points) - 1:
			e.Phase = arrowEnd
		}
		d.touch = append(d.touch, touch{e, p.bar})
	}
}
