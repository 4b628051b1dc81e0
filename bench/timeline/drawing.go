package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// process is a process of an answer; its number in the file is that of the first process of the answer plus this.
type process int

const (
	device process = iota
	network
	gateway
	processes
)

// track is a group of threads of a process: overlapping bars are on separate threads.
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

func (k track) processAndName() (process, string) {
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

// span is an activity with a duration. Times are since the text began.
type span struct {
	name     string
	from, to time.Duration
	args     args
}

// bar is a sequence of consecutive or nested spans on one thread.
type bar struct {
	track    track
	from, to time.Duration
	spans    []span // sorted by their beginnings
	lane     int    // of its track, from 0
}

// point is the end of an arrow at a bar.
type point struct {
	bar *bar
	at  time.Duration
}

func (b *bar) nearestPoint(t time.Duration) point {
	if b == nil {
		return point{}
	}
	return point{b, min(max(t, b.from), b.to-1)}
}

// drawing converts the recording of a text to events.
type drawing struct {
	t      *Text
	first  int // number of the first process
	arrows int // in the file so far
	wall   time.Duration
	bars   []*bar
	touch  []arrowPoint
	all    []event
}

// arrowPoint is a part of an arrow, before its bar has a thread.
type arrowPoint struct {
	event
	bar *bar
}

// least is the minimum length of a bar at the end of an arrow.
const least = time.Microsecond

func (d *drawing) buildEvents() []event {
	d.wall = d.t.wallTime()
	d.drawSteps()
	d.drawOperations()
	tokens := d.drawTokens()
	d.drawAsks(tokens)
	d.assignLanes()
	for _, b := range d.bars {
		for _, s := range b.spans {
			p, thread := d.threadNumbers(b)
			d.all = append(d.all, event{
				Name: s.name, Phase: spans, Time: inMicroseconds(s.from), Dur: inMicroseconds(s.to - s.from),
				Process: p, Thread: thread, Args: s.args,
			})
		}
	}
	for _, a := range d.touch {
		a.Process, a.Thread = d.threadNumbers(a.bar)
		d.all = append(d.all, a.event)
	}
	sortEvents(d.all)
	return d.all
}

// wallTime returns how long the answer took; of one that has not ended, the time so far.
func (t *Text) wallTime() time.Duration {
	wall := t.wall
	if wall == 0 {
		wall = 1
		for _, e := range t.events {
			wall = max(wall, t.zero+e.At)
		}
	}
	return wall
}

// addBar adds a bar of spans, within the time of the answer. It leaves out empty spans, and returns nil if none remain.
func (d *drawing) addBar(k track, all ...span) *bar {
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

// assignLanes puts overlapping bars of a track on separate lanes, as few as possible, and names processes and threads.
func (d *drawing) assignLanes() {
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
			d.nameThread(&bar{track: k, lane: lane})
		}
	}
}

func (d *drawing) threadNumbers(b *bar) (p, thread int) {
	const lanes = 1000 // more than the number of concurrent tokens
	of, _ := b.track.processAndName()
	return d.first + int(of), int(b.track)*lanes + b.lane + 1
}

func (d *drawing) nameThread(b *bar) {
	p, thread := d.threadNumbers(b)
	of, name := b.track.processAndName()
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

// drawArrow draws an arrow through points, in the order of time; those without a bar are left out. It needs at least
// two.
func (d *drawing) drawArrow(name string, points ...point) {
	points = slices.DeleteFunc(points, func(p point) bool { return p.bar == nil })
	if len(points) < 2 {
		return
	}
	d.arrows++
	for i, p := range points {
		e := event{Name: name, Cat: name, ID: d.arrows, Time: inMicroseconds(p.at), Bind: "e", Phase: arrowStep}
		switch i {
		case 0:
			e.Phase = arrow
		case len(points) - 1:
			e.Phase = arrowEnd
		}
		d.touch = append(d.touch, arrowPoint{e, p.bar})
	}
}
