// Package fair shares work between owners: it chooses the owner that is next, however many jobs each has and however
// large they are. It has no goroutine, no lock, no clock and no I/O. A job costs O(log n) for n owners.
package fair

import (
	"container/list"
)

// Queue shares work between owners by start-time fair queueing (Goyal, Vin and Cheng, "Start-time Fair Queuing",
// SIGCOMM 1996). Each owner has a start tag: the virtual time at which its next work begins, which grows with the work
// that it has caused. The owner with the smallest tag is next. An owner that comes back gets at least the present
// virtual time, so that it cannot save up a claim while it is idle.
//
// The jobs of one owner are in order of arrival. An owner without jobs is forgotten when its tag is not after now.
type Queue[J any] struct {
	count uint64 // of jobs that came
	now   uint64 // virtual time, in units of work
	spent uint64 // work since it advanced
	flows map[uint64]*Flow[J]
	short Heap[*Flow[J]] // with jobs that are short
	long  Heap[*Flow[J]] // with others
	idle  Heap[*Flow[J]] // without jobs, with a tag after now
	aside []*Flow[J]
	rules Rules
}

// Rules say which owners go before others. The zero value is plain start order.
type Rules struct {
	// ByEnd makes the owner next whose first job would end first, instead of begin first; of jobs that would end at the
	// same time, the one that came first. It is for jobs that run to their end once they have begun: a small one then
	// does not wait for large ones with the same tag.
	ByEnd bool

	// An owner is short if its first job needs up to Short, and all its jobs up to Whole. Short owners may go first
	// while their tags are at most Lead after now (borrowed virtual time; Duda and Cheriton, SOSP 1999).
	Short, Whole, Lead uint64
}

// Entry is what a job J has in a queue, as a field of it. The job waits from [Queue.Add] to [Queue.Remove].
type Entry[J any] struct {
	job     J
	flow    *Flow[J]
	element *list.Element // in flow.jobs
	work    uint64
	number  uint64 // in order of arrival
}

// Waits reports whether the job is in a queue.
func (e *Entry[J]) Waits() bool { return e.element != nil }

// Work returns the estimated work of the job that is left.
func (e *Entry[J]) Work() uint64 { return e.work }

// Flow is the jobs of one owner.
type Flow[J any] struct {
	owner uint64
	start uint64    // tag of its next work
	jobs  list.List // of *Entry[J], in order of arrival
	work  uint64    // of all jobs

	in    *Heap[*Flow[J]] // or nil
	place int             // there
	order uint64          // there
	first uint64          // by end: number of the oldest job
}

// Len returns the number of jobs that wait.
func (f *Flow[J]) Len() int { return f.jobs.Len() }

// First returns the oldest job. There must be one.
func (f *Flow[J]) First() J { return f.jobs.Front().Value.(*Entry[J]).job }

// Last returns the newest job. There must be one.
func (f *Flow[J]) Last() J { return f.jobs.Back().Value.(*Entry[J]).job }

// All yields the jobs, oldest first.
func (f *Flow[J]) All(yield func(J) bool) {
	for e := f.jobs.Front(); e != nil && yield(e.Value.(*Entry[J]).job); e = e.Next() {
	}
}

// New returns an empty queue.
func New[J any](r Rules) *Queue[J] {
	heap := Heap[*Flow[J]]{Before: before[J], Place: func(f *Flow[J]) *int { return &f.place }}
	return &Queue[J]{flows: map[uint64]*Flow[J]{}, short: heap, long: heap, idle: heap, rules: r}
}

func before[J any](a, b *Flow[J]) bool {
	return a.order < b.order || a.order == b.order && a.first < b.first
}

// Forget ends all claims. No job waits.
func (q *Queue[J]) Forget() {
	if len(q.flows) > 0 {
		*q = *New[J](q.rules)
	}
}

// Add appends a job of an owner with its work, at least 1. The entry is a field of the job.
func (q *Queue[J]) Add(owner uint64, job J, e *Entry[J], work uint64) {
	f := q.flow(owner)
	q.count++
	*e = Entry[J]{job: job, flow: f, element: f.jobs.PushBack(e), work: work, number: q.count}
	f.work += work
	q.place(f)
}

// flow returns the jobs of an owner, which may be none.
func (q *Queue[J]) flow(owner uint64) *Flow[J] {
	f := q.flows[owner]
	if f == nil {
		f = &Flow[J]{owner: owner}
		q.flows[owner] = f
	}
	if f.jobs.Len() == 0 {
		f.start = max(f.start, q.now)
	}
	return f
}

// Remove removes a waiting job, because it is done or was given up.
func (q *Queue[J]) Remove(e *Entry[J]) {
	f := e.flow
	f.jobs.Remove(e.element)
	f.work -= e.work
	e.element = nil
	q.place(f)
}

// Estimate corrects the work of a job that waits.
func (q *Queue[J]) Estimate(e *Entry[J], work uint64) {
	e.flow.work += work - e.work
	e.work = work
	q.place(e.flow)
}

// Charge adds work to the account of an owner, which need not have jobs.
func (q *Queue[J]) Charge(owner, work uint64) {
	f := q.flow(owner)
	f.start += work
	q.spent += work
	q.place(f)
}

func (q *Queue[J]) place(f *Flow[J]) {
	f.order = f.start
	if f.jobs.Len() == 0 {
		if f.start > q.now {
			f.move(&q.idle)
		} else if f.move(nil); q.flows[f.owner] == f { // else it was forgotten while it was aside
			delete(q.flows, f.owner)
		}
		return
	}
	first := f.jobs.Front().Value.(*Entry[J])
	if q.rules.ByEnd {
		f.order, f.first = f.order+first.work, first.number
	}
	if f.work <= q.rules.Whole && first.work <= q.rules.Short {
		f.move(&q.short)
	} else {
		f.move(&q.long)
	}
}

// move puts f into a heap, or where it belongs there, and out of any other one.
func (f *Flow[J]) move(to *Heap[*Flow[J]]) {
	if f.in != nil && f.in != to {
		f.in.Set(f, false)
	}
	if f.in = to; to != nil {
		to.Set(f, true)
	}
}

// Aside takes an owner out of the order until [Queue.Restore], or until one of its jobs changes.
func (q *Queue[J]) Aside(f *Flow[J]) {
	f.move(nil)
	q.aside = append(q.aside, f)
}

// Restore puts all owners that are aside where they belong.
func (q *Queue[J]) Restore() {
	for _, f := range q.aside {
		q.place(f)
	}
	clear(q.aside)
	q.aside = q.aside[:0]
}

// maxIdle is the maximum number of owners without jobs that are remembered: those with the largest tags.
const maxIdle = 1024

// Advance sets the virtual time to that of the owner that is next, but adds no more than the work since the last time:
// so an owner does not lose its claim when it waits for nothing for a moment. Call it before owners are chosen.
func (q *Queue[J]) Advance() {
	if f := q.Next(); f != nil {
		q.now = max(q.now, min(f.start, q.now+q.spent))
	}
	q.spent = 0
	for q.idle.Len() > maxIdle || q.idle.Len() > 0 && q.idle.First().start <= q.now {
		f := q.idle.First()
		f.move(nil)
		delete(q.flows, f.owner)
	}
}

// Len returns the number of owners with jobs, but for those aside.
func (q *Queue[J]) Len() int { return q.short.Len() + q.long.Len() }

// Next returns the owner that is next, or nil.
func (q *Queue[J]) Next() *Flow[J] {
	a, b := q.short.First(), q.long.First()
	if a == nil || b != nil && before(b, a) {
		return b
	}
	return a
}

// NextShort returns the short owner that is next, or nil if there is none that may go first.
func (q *Queue[J]) NextShort() *Flow[J] {
	if f := q.short.First(); f != nil && f.start <= q.now+q.rules.Lead {
		return f
	}
	return nil
}

// NextLong returns the owner that is next of those that are not short, or nil.
func (q *Queue[J]) NextLong() *Flow[J] { return q.long.First() }

// Of returns the jobs of an owner, or nil if it is not remembered.
func (q *Queue[J]) Of(owner uint64) *Flow[J] { return q.flows[owner] }

// Tag returns the virtual time at which the next work of an owner begins.
func (q *Queue[J]) Tag(owner uint64) uint64 {
	if f := q.flows[owner]; f != nil {
		return max(f.start, q.now)
	}
	return q.now
}

// Owners returns the number of owners that are remembered, with jobs or without.
func (q *Queue[J]) Owners() int { return len(q.flows) }

// All yields every job that waits, in no order of owners.
func (q *Queue[J]) All(yield func(J) bool) {
	for _, f := range q.flows {
		for e := f.jobs.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*Entry[J]).job) {
				return
			}
		}
	}
}
