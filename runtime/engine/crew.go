package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// Bounds of a pass that sessions share.
const (
	// maxShared is the max number of rows of one pass, unless one call alone has more.
	maxShared = 128
	// promptAlone is the number of prompt rows in a pass while no session decodes: a new session waits for them.
	// promptBeside is the number of rows of all prompts in a pass with sessions that decode: they delay each token of
	// these sessions.
	promptAlone, promptBeside = 128, 16
	// A pass waits up to 1/patience of the last pass for the sessions of that pass, so that they meet again.
	patience = 8
)

// crew lets sessions that decode at the same time share passes over the weights. It has no goroutine of its own: the
// first call runs passes until it is complete, and then makes the next call the leader. Calls that arrive meanwhile are
// computed together in the next pass. A call gives the same bits alone and together with others, see [backend.Pass].
//
// Calls are in order of arrival, and where not all fit into a pass, those that took part in the fewest come first. That
// is what package fair does too; with it, passes of four sessions took 9% longer.
//
// In the steady state n sessions meet in every pass: a pass waits for the sessions of the last pass, for a share of its
// time, but only for those that came back in time before.
type crew struct {
	acquire func(ctx context.Context) (done func(), err error)
	forward forward

	mu            sync.Mutex
	queue         []*entry // calls with rows that are not in a pass yet, in order
	led           bool     // a call gathers others, or runs a pass
	met           []*member
	passes, calls uint64 // so far
	served        uint64 // min of those of the last pass
	// of the last pass
	ended time.Time
	took  time.Duration
	// of the call that gathers
	missing int           // members to wait for
	came    chan struct{} // capacity 1: no member is missing
	timer   *time.Timer

	// of the call that runs a pass
	taken []*entry
	rows  []backend.Row
	out   []backend.Output
	want  backend.Want
}

// member is a session of a crew.
type member struct {
	decodes bool          // a text is under way
	missed  bool          // the next pass waits for it
	given   time.Time     // when its last call was answered
	away    time.Duration // from then until its next call
	served  uint64        // passes that it took part in, as if it had been there from the start
	call    entry
}

// entry is a forward call that waits for its pass or takes part in one.
type entry struct {
	*member
	ctx   context.Context
	kv    backend.KV
	rows  []backend.Row
	out   []backend.Output
	want  backend.Want
	long  bool // rows may be evaluated a few at a time: no row sees a later one
	alone bool // it shares no pass

	ready chan struct{} // capacity 1: the call is over, or becomes the leader

	// under the lock of the crew
	begun int  // rows evaluated, or about to be
	now   int  // of these, rows of the pass that runs; 0: none
	heads int  // of its heads, those that are computed
	over  bool // with err
	leads bool
	err   error
}

// forward is a forward call. The caller holds the model or waits for it.
type forward func(ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want) error

// share runs a forward call of a session.
func (e *Engine) share(
	ctx context.Context, m *member, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	if e.crew == nil {
		return e.run(ctx, kv, rows, out, want)
	}
	return e.crew.run(ctx, m, kv, rows, out, want, false)
}

// run runs a forward call after waiting for its turn.
func (e *Engine) run(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	done, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	return e.pass(ctx, kv, rows, out, want)
}

// pass runs a forward call. The caller holds the model.
func (e *Engine) pass(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	err := e.model.Forward(ctx, kv, rows, out, want)
	e.called()
	return err
}

func newCrew() *crew {
	c := &crew{came: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

func newMember() *member {
	m := new(member)
	m.call.ready, m.call.member = make(chan struct{}, 1), m
	return m
}

// join begins a text of m. leave ends it: after leave no pass waits for m.
func (c *crew) join(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.decodes, m.given, m.away, m.served = true, time.Time{}, 0, max(m.served, c.served)
}

func (c *crew) leave(m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.decodes = false
	c.found(m)
}

func (c *crew) found(m *member) {
	if !m.missed {
		return
	}
	m.missed = false
	if c.missing--; c.missing == 0 {
		select {
		case c.came <- struct{}{}:
		default:
		}
	}
}

// run is a forward call of a member, one at a time. If ctx ends before the pass begins, run returns at once; otherwise
// it returns with the pass, which ends early if it has no other calls. After an error m.call.begun is the number of
// rows that were evaluated; the slots of the others are undefined.
func (c *crew) run(
	ctx context.Context, m *member, kv backend.KV,
	rows []backend.Row, out []backend.Output, want backend.Want, long bool,
) error {
	l, alone := &m.call, backend.IsWatched(ctx)
	c.mu.Lock()
	*l = entry{member: m, ctx: ctx, kv: kv, rows: rows, out: out, want: want, long: long, alone: alone, ready: l.ready}
	if !m.given.IsZero() {
		m.away = time.Since(m.given)
	}
	c.queue = append(c.queue, l)
	c.found(m)
	if !c.led {
		c.led = true
		c.mu.Unlock()
		return c.lead(l)
	}
	c.mu.Unlock()
	select {
	case <-l.ready:
	case <-ctx.Done():
		if c.withdraw(l) {
			return context.Cause(ctx)
		}
		<-l.ready
	}
	if l.over {
		return l.err
	}
	return c.lead(l)
}

// withdraw removes a call from the queue, unless it takes part in the running pass, or leads.
func (c *crew) withdraw(l *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.now > 0 || l.over || l.leads {
		return false
	}
	c.remove(l)
	return true
}

// remove removes a call from the queue for good and drops its references.
func (c *crew) remove(l *entry) {
	c.queue = slices.DeleteFunc(c.queue, func(x *entry) bool { return x == l })
	l.ctx, l.kv, l.rows, l.out, l.want = nil, nil, nil, nil, backend.Want{}
}

// lead runs passes until l is over, and then makes the next call the leader.
func (c *crew) lead(l *entry) error {
	defer c.handOn(l)
	for !l.over {
		if err := c.pass(l); err != nil {
			return err
		}
	}
	return l.err
}

// handOn makes the first call of the queue the leader in place of l. If a pass panics, for example in the function of a
// [Watcher], its other calls go into the next pass.
func (c *crew) handOn(l *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.taken {
		t.now = 0
	}
	if c.taken = c.taken[:0]; !l.over {
		c.remove(l)
	}
	if c.led = len(c.queue) > 0; c.led {
		next := c.queue[0]
		next.leads = true
		next.ready <- struct{}{}
	}
}

// pass runs one pass for the calls of the queue. It returns an error of the leader if there was no pass.
func (c *crew) pass(leader *entry) error {
	if err := c.gather(leader.ctx); err != nil {
		return err
	}
	done, err := c.acquire(leader.ctx)
	if err != nil {
		return err
	}
	defer done()
	c.mu.Lock()
	c.take()
	c.mu.Unlock()
	begin := time.Now()
	c.compute()
	c.finish(leader, begin)
	return nil
}

// gather waits a short time for the members of the last pass.
func (c *crew) gather(ctx context.Context) error {
	c.mu.Lock()
	most := c.took / patience
	left := most - time.Since(c.ended)
	for _, m := range c.met {
		if left > 0 && m.decodes && m.call.ctx == nil && m.away <= most {
			m.missed = true
			c.missing++
		}
	}
	wait := c.missing > 0
	select {
	case <-c.came: // from an earlier pass
	default:
	}
	c.mu.Unlock()
	if !wait {
		return context.Cause(ctx)
	}
	c.timer.Reset(left)
	defer c.timer.Stop()
	select {
	case <-c.came:
	case <-c.timer.C:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.met {
		m.missed = false
	}
	c.missing = 0
	return context.Cause(ctx)
}

// take chooses the calls of the next pass, and the number of rows of each: the first call, and the calls after it that
// fit. If there are many, the calls of members that took part in the fewest passes come first.
func (c *crew) take() {
	piece := c.piece()
	c.taken = c.taken[:0]
	rows := 0
	if len(c.queue) > maxShared/2 { // not all may fit
		slices.SortStableFunc(c.queue, func(a, b *entry) int { return cmp.Compare(a.served, b.served) })
	}
	for _, l := range c.queue {
		n := len(l.rows) - l.begun
		if l.long {
			n = min(n, piece)
		}
		if rows > 0 && (rows+n > maxShared || l.alone) {
			continue
		}
		l.now = n
		c.taken = append(c.taken, l)
		if rows += n; l.alone {
			return
		}
	}
}

// piece returns the number of rows of each prompt in the next pass.
func (c *crew) piece() int {
	prompts, decode := 0, false
	for _, l := range c.queue {
		if l.long {
			prompts++
		} else {
			decode = true
		}
	}
	for _, m := range c.met {
		decode = decode || m.decodes && m.call.ctx == nil // its next call is about to come
	}
	if decode {
		return max(1, promptBeside/max(1, prompts))
	}
	return max(1, promptAlone/max(1, prompts))
}

// part returns the rows of l that are in the pass, and the heads that it asks for.
func (l *entry) part() (rows []backend.Row, out []backend.Output, want backend.Want) {
	if l.now == len(l.rows) {
		return l.rows, l.out, l.want
	}
	end := l.begun + l.now
	want = l.want
	want.Rows = nil
	for _, r := range l.want.Rows[l.heads:] {
		if r >= end {
			break
		}
		want.Rows = append(want.Rows, r-l.begun)
	}
	return l.rows[l.begun:end], l.out[l.heads : l.heads+len(want.Rows)], want
}

// compute runs the calls of the pass, together if there are several. If that fails, each call runs separately, so that
// one call's error does not fail the others.
func (c *crew) compute() {
	if len(c.taken) > 1 {
		if err := c.together(); err == nil {
			for _, l := range c.taken {
				l.err = context.Cause(l.ctx)
			}
			return
		}
	}
	for _, l := range c.taken {
		if l.err = context.Cause(l.ctx); l.err == nil {
			rows, out, want := l.part()
			l.err = c.forward(l.ctx, l.kv, rows, out, want)
		}
	}
}

// together runs the calls in one pass, which ends early when the contexts of all calls have ended.
func (c *crew) together() error {
	defer func() { // drop references
		clear(c.rows)
		clear(c.out)
		c.rows, c.out, c.want.Rows, c.want.Each = c.rows[:0], c.out[:0], c.want.Rows[:0], c.want.Each[:0]
	}()
	for _, l := range c.taken {
		rows, out, want := l.part()
		for i, r := range want.Rows {
			c.want.Rows = append(c.want.Rows, len(c.rows)+r)
			c.want.Each = append(c.want.Each, want.Of(i))
		}
		for _, r := range rows {
			r.KV = l.kv
			c.rows = append(c.rows, r)
		}
		c.out = append(c.out, out...)
	}
	if err := c.forward(present{context.Background(), c.taken}, c.taken[0].kv, c.rows, c.out, c.want); err != nil {
		return err
	}
	found := c.out
	for _, l := range c.taken {
		_, out, _ := l.part()
		found = found[copy(out, found):]
	}
	return nil
}

// finish counts the rows of the pass, and wakes the calls that are complete.
func (c *crew) finish(leader *entry, begin time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = time.Now()
	c.took = c.ended.Sub(begin)
	c.met = c.met[:0]
	c.passes++
	c.calls += uint64(len(c.taken))
	c.served++
	for _, l := range c.taken {
		if l.served++; l.decodes {
			c.served = min(c.served, l.served)
		}
		for l.heads < len(l.want.Rows) && l.want.Rows[l.heads] < l.begun+l.now {
			l.heads++
		}
		if l.err == nil {
			l.begun += l.now
		}
		l.now = 0
		if !l.alone {
			c.met = append(c.met, l.member)
		}
		if l.over = l.err != nil || l.begun == len(l.rows); !l.over {
			continue
		}
		c.remove(l)
		l.given = c.ended
		if l != leader {
			l.ready <- struct{}{}
		}
	}
	clear(c.taken)
	c.taken = c.taken[:0]
}

// present is the context of a pass. It ends when the contexts of all its calls have ended. It has no Done channel.
type present struct {
	context.Context
	calls []*entry
}

func (p present) Err() error {
	for _, l := range p.calls {
		if l.ctx.Err() == nil {
			return nil
		}
	}
	return context.Canceled
}

// Value implements [context.Context]. The calls do not share their values.
func (present) Value(any) any { return nil }
