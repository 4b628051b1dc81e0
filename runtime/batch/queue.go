package batch

import (
	"container/list"

	"github.com/pilotfish-ai/pilotfish/internal/sorted"
)

// fair shares work between devices by start-time fair queueing (Goyal, Vin and Cheng, "Start-time Fair Queuing",
// SIGCOMM 1996). Each device has a start tag: the virtual time at which its next work begins, which grows with the work
// that it has caused. The device with the smallest tag is next. A device that returns gets at least the current virtual
// time as its tag, so that it cannot save up a claim while it is idle.
//
// Devices with short waiting asks go before all others, as long as their tag is not too far ahead of virtual time
// (after borrowed virtual time; Duda and Cheriton, SOSP 1999).
type fair struct {
	now    uint64 // virtual time, in units of work
	spent  uint64 // work since it advanced
	flows  map[uint64]*flow
	active sorted.Heap[*flow] // with waiting asks
	light  sorted.Heap[*flow] // of these, the devices with short asks
	heavy  sorted.Heap[*flow] // of active, the other devices
	idle   sorted.Heap[*flow] // without waiting asks, with a tag after now
	bounds
}

// bounds say which devices go before others.
type bounds struct {
	short uint64 // maximum tokens of the first ask of a device with short asks
	whole uint64 // maximum tokens of all its waiting asks
	lead  uint64 // units of work by which its tag may be ahead
}

// flow holds the asks of one device.
type flow struct {
	device              uint64
	start               uint64    // tag of its next work, in units of work
	asks                list.List // of *ask, in order of arrival
	work                uint64    // estimate of the tokens that they still need
	active, light, idle int       // places
	heavy               int
}

func newFair(b bounds) *fair {
	before := func(a, b *flow) bool { return a.start < b.start }
	return &fair{
		flows:  map[uint64]*flow{},
		active: sorted.Heap[*flow]{Before: before, Place: func(f *flow) *int { return &f.active }},
		light:  sorted.Heap[*flow]{Before: before, Place: func(f *flow) *int { return &f.light }},
		heavy:  sorted.Heap[*flow]{Before: before, Place: func(f *flow) *int { return &f.heavy }},
		idle:   sorted.Heap[*flow]{Before: before, Place: func(f *flow) *int { return &f.idle }},
		bounds: b,
	}
}

// add queues a. a.work is the estimate of its tokens.
func (q *fair) add(a *ask) {
	f := q.flows[a.Device]
	if f == nil {
		f = &flow{device: a.Device}
		q.flows[a.Device] = f
	}
	if f.asks.Len() == 0 {
		f.start = max(f.start, q.now)
	}
	a.flow, a.element = f, f.asks.PushBack(a)
	f.work += a.work
	q.place(f)
}

// remove removes a, which is answered or given up.
func (q *fair) remove(a *ask) {
	f := a.flow
	f.asks.Remove(a.element)
	f.work -= a.work
	a.element = nil
	q.place(f)
}

// estimate corrects the number of tokens that a needs.
func (a *ask) estimate(tokens int) {
	a.flow.work += uint64(tokens) - a.work
	a.work = uint64(tokens)
}

// place puts f into the heaps that it belongs to.
func (q *fair) place(f *flow) {
	waits := f.asks.Len() > 0
	q.active.Set(f, waits)
	light := waits && f.work <= q.whole && f.asks.Front().Value.(*ask).work <= q.short
	q.light.Set(f, light)
	q.heavy.Set(f, waits && !light)
	q.idle.Set(f, !waits && f.start > q.now)
	if !waits && f.idle == 0 {
		delete(q.flows, f.device)
	}
}

// aside removes f from the order until it is placed again.
func (q *fair) aside(f *flow) {
	q.active.Set(f, false)
	q.light.Set(f, false)
	q.heavy.Set(f, false)
}

// charge adds units of work to the tag of f.
func (q *fair) charge(f *flow, work uint64) {
	f.start += work
	q.spent += work
}

// chargeLate is charge for a device that may have no asks any more and may have been removed.
func (q *fair) chargeLate(f *flow, work uint64) {
	f.start = max(f.start, q.now)
	q.flows[f.device] = f
	q.charge(f, work)
	q.place(f)
}

// advance sets the virtual time to the smallest tag of an active device, but adds no more than the work since the last
// call: a device does not lose its claim if it has no asks for a moment. It removes idle devices with a tag that is not
// ahead.
func (q *fair) advance() {
	if q.active.Len() > 0 {
		q.now = max(q.now, min(q.active.First().start, q.now+q.spent))
	}
	q.spent = 0
	for q.idle.Len() > maxIdle || q.idle.Len() > 0 && q.idle.First().start <= q.now {
		f := q.idle.First()
		q.idle.Set(f, false)
		delete(q.flows, f.device)
	}
}

// maxIdle is the maximum number of idle devices to keep, those with the largest tags.
const maxIdle = 1024

// all returns all waiting asks.
func (q *fair) all() (asks []*ask) {
	for _, f := range q.flows {
		for e := f.asks.Front(); e != nil; e = e.Next() {
			asks = append(asks, e.Value.(*ask))
		}
	}
	return asks
}
