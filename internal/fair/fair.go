// Package fair shares work between clients, and the share of each client between its owners: it chooses the owner that
// is next, however many jobs each has and however large they are. It has no goroutine, no lock, no clock and no I/O. A
// job costs O(log n) for n owners.
package fair

import (
	"container/list"
	"iter"
	"math"
	"slices"
)

// Queue shares work by start-time fair queueing (Goyal, Vin and Cheng, "Start-time Fair Queuing", SIGCOMM 1996) on two
// levels. Each client has a start tag: the virtual time at which its next work begins, which grows with the work that
// it has caused. The client with the smallest tag is next, however many owners it has. Its owners have tags in a
// virtual time of its own, and the one with the smallest is next. A client or owner that comes back gets at least the
// present virtual time, so that it cannot save up a claim while it is idle.
//
// The jobs of one owner are in order of arrival. A client or owner without jobs is forgotten when its tag is not after
// now.
type Queue[J any] struct {
	came    uint64       // jobs
	clock   virtualClock // of the clients, in 1/MaxWeight of work
	clients map[uint64]*client[J]
	flows   map[uint64]*Flow[J] // by owner
	active  Heap[*client[J]]    // with jobs
	short   Heap[*client[J]]    // with a short owner that may go first among those of the client
	long    Heap[*client[J]]    // with owners that are not short
	idle    Heap[*client[J]]    // without jobs, with a tag after now
	charged []*client[J]        // since the time advanced
	aside   []*Flow[J]
	owners  int // in order
	debtors int // owners without jobs, with a tag after now
	rules   Rules
}

// virtualClock is a virtual time.
type virtualClock struct {
	now   uint64
	spent uint64 // work since it advanced
	slow  uint64 // see newcomerDelay
	rest  uint64 // of the work, what is too little for slow
}

// advanceTo sets the time to the tag of what is next, but adds no more than the work since the last time: so nobody
// loses a claim by waiting for nothing for a moment.
func (c *virtualClock) advanceTo(next uint64, waiting int) {
	c.now = max(c.now, min(next, c.now+c.spent))
	if waiting > 0 {
		c.rest += c.spent
		c.slow += c.rest / uint64(overtakes*waiting)
		c.rest %= uint64(overtakes * waiting)
	}
	c.slow = max(c.slow, c.now)
	c.spent = 0
}

// overtakes is by what factor a large job may take longer than with its share, while others come anew.
const overtakes = 4

// newcomerDelay returns by how much who comes now counts as later than now. Usually the time advances faster than
// slow, which advances by a quarter of a share of the work for each that waits. But where small jobs of ever new owners
// come, whose tags are now, the time stands still, and all would end before a large one.
func (c *virtualClock) newcomerDelay() uint64 { return c.slow - c.now }

func (c *virtualClock) startTag(before uint64) (start, later uint64) {
	if before > c.now {
		return before, 0
	}
	return c.now, c.newcomerDelay()
}

// Rules say which owners go before others. The zero value is plain start order.
type Rules struct {
	// Price is what the owner is charged for a unit of a job's work. With a price the owner is next whose first job
	// would end first; of jobs that would end at the same time, the one that came first. So a small job does not wait
	// for large ones with the same tag, and of equal jobs one is ended before the next is begun. Without a price, and
	// among short owners, the one is next whose first job would begin first.
	Price uint64

	// An owner is short if its first job needs up to Short, and all its jobs up to Whole. Short owners may go first
	// while their tags are at most Lead after now, and those of their clients at most ClientLead (borrowed virtual
	// time; Duda and Cheriton, SOSP 1999).
	Short, Whole, Lead, ClientLead uint64
}

// sharerCount returns n, of those that wait, as [virtualClock.advanceTo] takes it: 0 without a price.
func (r Rules) sharerCount(n int) int {
	if r.Price == 0 {
		return 0
	}
	return n
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

// client is the owners of one client.
type client[J any] struct {
	number uint64
	start  uint64         // tag of its next work
	clock  virtualClock   // of its owners, in units of work
	short  Heap[*Flow[J]] // with jobs that are short
	long   Heap[*Flow[J]] // with others
	idle   Heap[*Flow[J]] // without jobs, with a tag after now
	jobs   int            // of all its owners
	work   uint64         // of these
	weight uint64         // at least 1
	later  uint64         // [virtualClock.newcomerDelay] when the first of these came
	places [4]int         // in the heaps of the queue
}

// chargeFor returns what the client is charged for work, in the virtual time of clients.
func (c *client[J]) chargeFor(work uint64) uint64 { return work * MaxWeight / c.weight }

func (c *client[J]) finishTag(f *Flow[J]) uint64 { return c.start + c.later + c.chargeFor(f.end) }

// nextFlow returns the owner that is next, or nil.
func (c *client[J]) nextFlow() *Flow[J] {
	a, b := c.short.First(), c.long.First()
	if a == nil || b != nil && (b.finishTag() < a.finishTag() || b.finishTag() == a.finishTag() && b.first < a.first) {
		return b
	}
	return a
}

// Flow is the jobs of one owner.
type Flow[J any] struct {
	owner  uint64
	client *client[J]
	start  uint64    // tag of its next work
	later  uint64    // [virtualClock.newcomerDelay] when the oldest job came, or one before it
	jobs   list.List // of *Entry[J], in order of arrival
	work   uint64    // of all jobs

	in    *Heap[*Flow[J]] // or nil
	place int             // there
	order uint64          // there
	end   uint64          // with a price: that of the oldest job
	first uint64          // with a price: number of the oldest job
}

// finishTag returns the virtual time at which the oldest job would end; without a price, at which it would begin.
func (f *Flow[J]) finishTag() uint64 { return f.start + f.later + f.end }

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
	q := &Queue[J]{clients: map[uint64]*client[J]{}, flows: map[uint64]*Flow[J]{}, rules: r}
	q.active = newClientHeap(0, (*client[J]).nextFlow)
	q.short = Heap[*client[J]]{
		Before: func(a, b *client[J]) bool {
			return a.start < b.start || a.start == b.start && a.short.First().first < b.short.First().first
		},
		Place: func(c *client[J]) *int { return &c.places[1] },
	}
	q.long = newClientHeap(2, func(c *client[J]) *Flow[J] { return c.long.First() })
	q.idle = Heap[*client[J]]{
		Before: func(a, b *client[J]) bool { return a.start < b.start },
		Place:  func(c *client[J]) *int { return &c.places[3] },
	}
	return q
}

func newClientHeap[J any](place int, of func(*client[J]) *Flow[J]) Heap[*client[J]] {
	return Heap[*client[J]]{
		Before: func(a, b *client[J]) bool {
			f, g := of(a), of(b)
			x, y := a.finishTag(f), b.finishTag(g)
			return x < y || x == y && f.first < g.first
		},
		Place: func(c *client[J]) *int { return &c.places[place] },
	}
}

func flowLess[J any](a, b *Flow[J]) bool {
	return a.order < b.order || a.order == b.order && a.first < b.first
}

// Forget ends all claims. No job waits.
func (q *Queue[J]) Forget() {
	if len(q.clients) > 0 {
		*q = *New[J](q.rules)
	}
}

// Add appends a job of an owner, who belongs to a client with a weight, with its work, at least 1. The entry is a field
// of the job.
func (q *Queue[J]) Add(client, owner, weight uint64, job J, e *Entry[J], work uint64) {
	f := q.ensureFlow(client, owner, weight)
	q.came++
	*e = Entry[J]{job: job, flow: f, element: f.jobs.PushBack(e), work: work, number: q.came}
	f.work += work
	f.client.jobs, f.client.work = f.client.jobs+1, f.client.work+work
	q.requeueFlow(f)
}

// ensureFlow returns the jobs of an owner, which may be none. An owner without jobs may have come to another client.
func (q *Queue[J]) ensureFlow(number, owner, weight uint64) *Flow[J] {
	f := q.flows[owner]
	if f != nil && f.jobs.Len() == 0 && f.client.number != number {
		q.dropFlow(f)
		f = nil
	}
	if f == nil {
		f = &Flow[J]{owner: owner, client: q.ensureClient(number)}
		q.flows[owner] = f
	}
	c := f.client
	c.weight = max(weight, 1)
	if q.owners == 0 { // nobody has waited for long
		q.clock.slow = q.clock.now
	}
	if c.jobs == 0 {
		c.start, c.later = q.clock.startTag(c.start)
	}
	if f.jobs.Len() == 0 {
		f.start, f.later = c.clock.startTag(f.start)
	}
	return f
}

func (q *Queue[J]) ensureClient(number uint64) *client[J] {
	c := q.clients[number]
	if c == nil {
		heap := Heap[*Flow[J]]{Before: flowLess[J], Place: func(f *Flow[J]) *int { return &f.place }}
		c = &client[J]{number: number, short: heap, long: heap, idle: heap}
		q.clients[number] = c
	}
	return c
}

// Remove removes a waiting job, because it is done or was given up.
func (q *Queue[J]) Remove(e *Entry[J]) {
	f := e.flow
	f.jobs.Remove(e.element)
	f.work -= e.work
	f.client.jobs, f.client.work = f.client.jobs-1, f.client.work-e.work
	e.element = nil
	q.requeueFlow(f)
}

// Estimate corrects the work of a job that waits.
func (q *Queue[J]) Estimate(e *Entry[J], work uint64) {
	e.flow.work += work - e.work
	e.flow.client.work += work - e.work
	e.work = work
	q.requeueFlow(e.flow)
}

// MaxWeight is the maximum weight of a client. The virtual time of clients has as many units for a unit of work.
const MaxWeight = 256

// Charge adds work to the accounts of a client and of its owner, which need not have jobs. A client with a weight, 1 to
// [MaxWeight], gets as many times the work of others; 0 means 1.
func (q *Queue[J]) Charge(client, owner, work, weight uint64) {
	f := q.ensureFlow(client, owner, weight)
	c := f.client
	pays := c.chargeFor(work)
	f.start, c.start = f.start+work, c.start+pays
	q.clock.spent += pays
	if c.clock.spent == 0 {
		q.charged = append(q.charged, c)
	}
	c.clock.spent += work
	q.requeueFlow(f)
}

// Ahead returns at least how much work of waiting jobs is done before the job ends, in the order of [Queue.Next], if no
// others come. There is a price. It takes as long as there are jobs.
func (q *Queue[J]) Ahead(e *Entry[J]) (work uint64) {
	for at := e.flow.jobs.Front(); at != e.element; at = at.Next() {
		work += at.Value.(*Entry[J]).work
	}
	mine, price := e.flow.client, q.rules.Price
	end := e.flow.start + e.flow.later + (work+e.work)*price
	for f := range mine.waitingFlows {
		if begin := f.start + f.later; f != e.flow && begin < end {
			work += e.minWorkBefore((end-begin)/price, f.work, func(yield func(*Flow[J]) bool) { yield(f) })
		}
	}
	end = mine.start + mine.later + mine.chargeFor((work+e.work)*price)
	for _, c := range q.clients {
		if begin := c.start + c.later; c != mine && begin < end {
			work += e.minWorkBefore((end-begin)*c.weight/(price*MaxWeight), c.work, c.waitingFlows)
		}
	}
	return work
}

// minWorkBefore returns at least how much of the work of some owners is done before the job ends, which is when share
// of it could be done: what would end later is not begun.
func (e *Entry[J]) minWorkBefore(share, work uint64, of iter.Seq[*Flow[J]]) uint64 {
	if work < share {
		return work
	}
	largest, first := uint64(0), uint64(math.MaxUint64)
	for f := range of {
		for at := f.jobs.Front(); at != nil; at = at.Next() {
			one := at.Value.(*Entry[J])
			largest, first = max(largest, one.work), min(first, one.number)
		}
	}
	if work == share && first < e.number {
		return work
	}
	return share - min(share, largest)
}

func (c *client[J]) waitingFlows(yield func(*Flow[J]) bool) {
	for _, f := range slices.Concat(c.short.items, c.long.items) {
		if !yield(f) {
			return
		}
	}
}

func (q *Queue[J]) requeueFlow(f *Flow[J]) {
	c := f.client
	f.order, f.end, f.first = f.start, 0, 0
	switch {
	case f.jobs.Len() > 0:
		first := f.jobs.Front().Value.(*Entry[J])
		if q.rules.Price > 0 {
			f.end, f.first = first.work*q.rules.Price, first.number
		}
		if f.work <= q.rules.Whole && first.work <= q.rules.Short {
			q.moveFlow(f, &c.short)
		} else {
			f.order = f.finishTag()
			q.moveFlow(f, &c.long)
		}
	case f.start > c.clock.now:
		q.moveFlow(f, &c.idle)
		if q.debtors > maxIdle {
			q.dropFlow(c.idle.First())
		}
	default:
		q.dropFlow(f)
	}
	q.requeueClient(c)
}

// moveFlow puts f into a heap, or where it belongs there, and out of any other one.
func (q *Queue[J]) moveFlow(f *Flow[J], to *Heap[*Flow[J]]) {
	q.countFlow(f, -1)
	if f.in != nil && f.in != to {
		f.in.Set(f, false)
	}
	if f.in = to; to != nil {
		to.Set(f, true)
	}
	q.countFlow(f, 1)
}

func (q *Queue[J]) countFlow(f *Flow[J], n int) {
	switch f.in {
	case nil:
	case &f.client.idle:
		q.debtors += n
	default:
		q.owners += n
	}
}

func (q *Queue[J]) dropFlow(f *Flow[J]) {
	q.moveFlow(f, nil)
	delete(q.flows, f.owner)
}

func (q *Queue[J]) requeueClient(c *client[J]) {
	f := c.short.First()
	q.active.Set(c, c.nextFlow() != nil)
	q.short.Set(c, f != nil && f.start <= c.clock.now+q.rules.Lead)
	q.long.Set(c, c.long.Len() > 0)
	q.idle.Set(c, c.jobs == 0 && c.start > q.clock.now)
	if c.jobs == 0 && c.start <= q.clock.now {
		q.dropClient(c)
	}
}

func (q *Queue[J]) dropClient(c *client[J]) {
	q.idle.Set(c, false)
	for c.idle.Len() > 0 {
		q.dropFlow(c.idle.First())
	}
	if q.clients[c.number] == c {
		delete(q.clients, c.number)
	}
}

// Aside takes an owner out of the order until [Queue.Restore], or until one of its jobs changes.
func (q *Queue[J]) Aside(f *Flow[J]) {
	q.moveFlow(f, nil)
	q.requeueClient(f.client)
	q.aside = append(q.aside, f)
}

// Restore puts all owners that are aside where they belong.
func (q *Queue[J]) Restore() {
	for _, f := range q.aside {
		if q.flows[f.owner] == f { // else it was forgotten
			q.requeueFlow(f)
		}
	}
	clear(q.aside)
	q.aside = q.aside[:0]
}

// maxIdle is the maximum number of clients without jobs that are remembered, those with the largest tags, and of owners
// without jobs of all clients: if there are more, the client of the last one loses its owner with the smallest tag.
const maxIdle = 1024

// Advance sets the virtual times to those of the client and of the owners that are next. Call it before owners are
// chosen.
func (q *Queue[J]) Advance() {
	for i, c := range q.charged {
		q.charged[i] = nil
		next := c.clock.now
		if f := c.nextFlow(); f != nil {
			next = f.start
		}
		c.clock.advanceTo(next, q.rules.sharerCount(c.short.Len()+c.long.Len()))
		for c.idle.Len() > 0 && c.idle.First().start <= c.clock.now {
			q.dropFlow(c.idle.First())
		}
		if q.clients[c.number] == c {
			q.requeueClient(c)
		}
	}
	q.charged = q.charged[:0]
	next := q.clock.now
	if c := q.active.First(); c != nil {
		next = c.start
	}
	q.clock.advanceTo(next, q.rules.sharerCount(q.active.Len()))
	for q.idle.Len() > maxIdle || q.idle.Len() > 0 && q.idle.First().start <= q.clock.now {
		q.dropClient(q.idle.First())
	}
}

// Len returns the number of owners with jobs, but for those aside.
func (q *Queue[J]) Len() int { return q.owners }

// Clients returns the number of clients with jobs, but for those with all owners aside.
func (q *Queue[J]) Clients() int { return q.active.Len() }

// Next returns the owner that is next, or nil.
func (q *Queue[J]) Next() *Flow[J] {
	if c := q.active.First(); c != nil {
		return c.nextFlow()
	}
	return nil
}

// NextShort returns the short owner that is next, or nil if there is none that may go first.
func (q *Queue[J]) NextShort() *Flow[J] {
	if c := q.short.First(); c != nil && c.start <= q.clock.now+q.rules.ClientLead*MaxWeight {
		return c.short.First()
	}
	return nil
}

// NextLong returns the owner that is next of those that are not short, or nil.
func (q *Queue[J]) NextLong() *Flow[J] {
	if c := q.long.First(); c != nil {
		return c.long.First()
	}
	return nil
}

// Of returns the jobs of an owner, or nil if it is not remembered.
func (q *Queue[J]) Of(owner uint64) *Flow[J] { return q.flows[owner] }

// Tag returns the virtual time at which the next work of a client begins, in units of work.
func (q *Queue[J]) Tag(client uint64) uint64 {
	at := q.clock.now
	if c := q.clients[client]; c != nil {
		at = max(at, c.start)
	}
	return at / MaxWeight
}

// Owners returns the number of owners that are remembered, with jobs or without.
func (q *Queue[J]) Owners() int { return len(q.flows) }

// All yields every job that waits, in no order.
func (q *Queue[J]) All(yield func(J) bool) {
	for _, f := range q.flows {
		for e := f.jobs.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*Entry[J]).job) {
				return
			}
		}
	}
}
