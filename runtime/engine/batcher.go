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
	// These rows go to the prompts with the fewest rows left, so that a short one does not wait for long ones. But a
	// prompt that had none in most passes goes first in the next one.
	mostSkipped = 7
	// A pass waits up to 1/patience of the last pass for the sessions of that pass, so that they meet again.
	patience = 8
)

// batcher lets sessions that decode at the same time share passes over the weights. It has no goroutine of its own: the
// first call runs passes until it is complete, and then makes the next call the leader. Calls that arrive meanwhile are
// computed together in the next pass. A call gives the same bits alone and together with others, see [backend.Pass].
//
// Calls are in order of arrival, and where not all fit into a pass, those that took part in the fewest come first. That
// is what package fair does too; with it, passes of four sessions took 9% longer.
//
// In the steady state n sessions meet in every pass: a pass waits for the sessions of the last pass, for a share of its
// time, but only for those that came back in time before.
type batcher struct {
	acquire func(ctx context.Context) (done func(), err error)
	forward forwardFunc

	mu            sync.Mutex
	queue         []*forwardCall // calls with rows that are not in a pass yet, in order
	led           bool           // a call gathers others, or runs a pass
	met           []*batchSession
	passes, calls uint64 // so far
	served        uint64 // min of those of the last pass
	// of the last pass
	ended time.Time
	took  time.Duration
	// of the call that gathers
	missing int           // sessions to wait for
	came    chan struct{} // capacity 1: no session is missing
	timer   *time.Timer

	// of the call that runs a pass
	taken []*forwardCall
	rows  []backend.Row
	out   []backend.Output
	want  backend.Want
}

// batchSession is a session of a batcher.
type batchSession struct {
	decodes bool          // a text is under way
	missed  bool          // the next pass waits for it
	given   time.Time     // when its last call was answered
	away    time.Duration // from then until its next call
	served  uint64        // passes that it took part in, as if it had been there from the start
	call    forwardCall
}

// forwardCall is a forward call that waits for its pass or takes part in one.
type forwardCall struct {
	*batchSession
	ctx   context.Context
	kv    backend.KV
	rows  []backend.Row
	out   []backend.Output
	want  backend.Want
	long  bool // rows may be evaluated a few at a time, as no row sees a later one: a prompt
	alone bool // it shares no pass

	ready chan struct{} // capacity 1: the call is over, or becomes the leader

	// under the lock of the batcher
	begun int  // rows evaluated, or about to be
	now   int  // of these, rows of the pass that runs; 0: none
	share int  // of a prompt: rows that it may have in the next pass
	skips int  // of a prompt: passes since it had some
	heads int  // of its heads, those that are computed
	over  bool // with err
	leads bool
	err   error
}

// forwardFunc is a forward call. The caller holds the model or waits for it.
type forwardFunc func(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error

func (e *Engine) forwardShared(
	ctx context.Context, m *batchSession, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	if e.batcher == nil {
		return e.forwardExclusive(ctx, kv, rows, out, want)
	}
	return e.batcher.runCall(ctx, m, kv, rows, out, want, false)
}

func (e *Engine) forwardExclusive(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	done, err := e.acquireModel(ctx)
	if err != nil {
		return err
	}
	defer done()
	return e.forwardModel(ctx, kv, rows, out, want)
}

// The caller holds the model.
func (e *Engine) forwardModel(
	ctx context.Context, kv backend.KV, rows []backend.Row, out []backend.Output, want backend.Want,
) error {
	err := e.model.Forward(ctx, kv, rows, out, want)
	e.countForward()
	return err
}

func newBatcher() *batcher {
	b := &batcher{came: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	b.timer.Stop()
	return b
}

func newBatchSession() *batchSession {
	m := new(batchSession)
	m.call.ready, m.call.batchSession = make(chan struct{}, 1), m
	return m
}

// addSession begins a text of m. After [batcher.removeSession] no pass waits for m.
func (b *batcher) addSession(m *batchSession) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.decodes, m.given, m.away, m.served = true, time.Time{}, 0, max(m.served, b.served)
}

func (b *batcher) removeSession(m *batchSession) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.decodes = false
	b.markArrived(m)
}

func (b *batcher) markArrived(m *batchSession) {
	if !m.missed {
		return
	}
	m.missed = false
	if b.missing--; b.missing == 0 {
		select {
		case b.came <- struct{}{}:
		default:
		}
	}
}

// runCall is a forward call of a session, one at a time. If ctx ends before the pass begins, runCall returns at once;
// otherwise it returns with the pass, which ends early if it has no other calls. After an error m.call.begun is the
// number of rows that were evaluated; the slots of the others are undefined.
func (b *batcher) runCall(
	ctx context.Context, m *batchSession, kv backend.KV,
	rows []backend.Row, out []backend.Output, want backend.Want, long bool,
) error {
	l, alone := &m.call, backend.IsWatched(ctx)
	b.mu.Lock()
	*l = forwardCall{
		batchSession: m, ctx: ctx, kv: kv, rows: rows, out: out, want: want, long: long, alone: alone, ready: l.ready,
	}
	if !m.given.IsZero() {
		m.away = time.Since(m.given)
	}
	b.queue = append(b.queue, l)
	b.markArrived(m)
	if !b.led {
		b.led = true
		b.mu.Unlock()
		return b.leadPasses(l)
	}
	b.mu.Unlock()
	select {
	case <-l.ready:
	case <-ctx.Done():
		if b.withdrawCall(l) {
			return context.Cause(ctx)
		}
		<-l.ready
	}
	if l.over {
		return l.err
	}
	return b.leadPasses(l)
}

// withdrawCall removes a call from the queue, unless it takes part in the running pass, or leads.
func (b *batcher) withdrawCall(l *forwardCall) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.now > 0 || l.over || l.leads {
		return false
	}
	b.removeCall(l)
	return true
}

func (b *batcher) removeCall(l *forwardCall) {
	b.queue = slices.DeleteFunc(b.queue, func(x *forwardCall) bool { return x == l })
	l.ctx, l.kv, l.rows, l.out, l.want = nil, nil, nil, nil, backend.Want{}
}

func (b *batcher) leadPasses(l *forwardCall) error {
	defer b.handOverLead(l)
	for !l.over {
		if err := b.runPass(l); err != nil {
			return err
		}
	}
	return l.err
}

// handOverLead makes the first call of the queue the leader in place of l. If a pass panics, for example in the
// function of a [Watcher], its other calls go into the next pass.
func (b *batcher) handOverLead(l *forwardCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.taken {
		t.now = 0
	}
	if b.taken = b.taken[:0]; !l.over {
		b.removeCall(l)
	}
	if b.led = len(b.queue) > 0; b.led {
		next := b.queue[0]
		next.leads = true
		next.ready <- struct{}{}
	}
}

// runPass returns an error of the leader if there was no pass.
func (b *batcher) runPass(leader *forwardCall) error {
	if err := b.awaitSessions(leader.ctx); err != nil {
		return err
	}
	done, err := b.acquire(leader.ctx)
	if err != nil {
		return err
	}
	defer done()
	b.mu.Lock()
	b.chooseCalls()
	b.mu.Unlock()
	begin := time.Now()
	b.computeCalls()
	b.finishPass(leader, begin)
	return nil
}

func (b *batcher) awaitSessions(ctx context.Context) error {
	b.mu.Lock()
	most := b.took / patience
	left := most - time.Since(b.ended)
	for _, m := range b.met {
		if left > 0 && m.decodes && m.call.ctx == nil && m.away <= most {
			m.missed = true
			b.missing++
		}
	}
	wait := b.missing > 0
	select {
	case <-b.came: // from an earlier pass
	default:
	}
	b.mu.Unlock()
	if !wait {
		return context.Cause(ctx)
	}
	b.timer.Reset(left)
	defer b.timer.Stop()
	select {
	case <-b.came:
	case <-b.timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.met {
		m.missed = false
	}
	b.missing = 0
	return context.Cause(ctx)
}

// chooseCalls chooses the calls of the next pass, and the number of rows of each: the first call, and the calls after
// it that fit. If there are many, the calls of sessions that took part in the fewest passes come first.
func (b *batcher) chooseCalls() {
	b.dividePromptRows()
	b.taken = b.taken[:0]
	rows := 0
	if len(b.queue) > maxShared/2 { // not all may fit
		slices.SortStableFunc(b.queue, func(a, b *forwardCall) int { return cmp.Compare(a.served, b.served) })
	}
	for _, l := range b.queue {
		n := len(l.rows) - l.begun
		if l.long {
			n = min(n, l.share)
		}
		if n == 0 || rows > 0 && (rows+n > maxShared || l.alone) {
			continue
		}
		l.now = n
		b.taken = append(b.taken, l)
		if rows += n; l.alone {
			return
		}
	}
}

// dividePromptRows sets the shares of the prompts in the queue.
func (b *batcher) dividePromptRows() {
	var prompts []*forwardCall
	decode := false
	for _, l := range b.queue {
		switch {
		case !l.long:
			decode = true
		case l.alone:
			l.share = promptAlone
		default:
			prompts = append(prompts, l)
		}
	}
	for _, m := range b.met {
		decode = decode || m.decodes && m.call.ctx == nil // its next call is about to come
	}
	left := promptAlone
	if decode {
		left = promptBeside
	}
	slices.SortStableFunc(prompts, func(a, b *forwardCall) int { return cmp.Compare(a.promptRank(), b.promptRank()) })
	ends := false
	for _, l := range prompts {
		rest := len(l.rows) - l.begun
		l.share = min(left, rest)
		if ends && l.share < rest {
			l.share = 0 // the pass that ends a prompt is not made longer by a piece of another one
		}
		ends = ends || l.share == rest
		left -= l.share
		if l.skips++; l.share > 0 {
			l.skips = 0
		}
	}
}

// promptRank returns 0 if a prompt goes first, and else the rows that are left of it.
func (l *forwardCall) promptRank() int {
	if l.skips >= mostSkipped {
		return 0
	}
	return len(l.rows) - l.begun
}

func (l *forwardCall) passRows() (rows []backend.Row, out []backend.Output, want backend.Want) {
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

// computeCalls runs the calls of the pass, together if there are several. If that fails, each call runs separately, so
// that one call's error does not fail the others.
func (b *batcher) computeCalls() {
	if len(b.taken) > 1 {
		if err := b.computeTogether(); err == nil {
			for _, l := range b.taken {
				l.err = context.Cause(l.ctx)
			}
			return
		}
	}
	for _, l := range b.taken {
		if l.err = context.Cause(l.ctx); l.err == nil {
			rows, out, want := l.passRows()
			l.err = b.forward(l.ctx, l.kv, rows, out, want)
		}
	}
}

// computeTogether runs the calls in one pass, which ends early when the contexts of all calls have ended.
func (b *batcher) computeTogether() error {
	defer func() { // drop references
		clear(b.rows)
		clear(b.out)
		b.rows, b.out, b.want.Rows, b.want.Each = b.rows[:0], b.out[:0], b.want.Rows[:0], b.want.Each[:0]
	}()
	for _, l := range b.taken {
		rows, out, want := l.passRows()
		for i, r := range want.Rows {
			b.want.Rows = append(b.want.Rows, len(b.rows)+r)
			b.want.Each = append(b.want.Each, want.Of(i))
		}
		for _, r := range rows {
			r.KV = l.kv
			b.rows = append(b.rows, r)
		}
		b.out = append(b.out, out...)
	}
	if err := b.forward(passContext{context.Background(), b.taken}, b.taken[0].kv, b.rows, b.out, b.want); err != nil {
		return err
	}
	found := b.out
	for _, l := range b.taken {
		_, out, _ := l.passRows()
		found = found[copy(out, found):]
	}
	return nil
}

func (b *batcher) finishPass(leader *forwardCall, begin time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = time.Now()
	b.took = b.ended.Sub(begin)
	b.met = b.met[:0]
	b.passes++
	b.calls += uint64(len(b.taken))
	b.served++
	for _, l := range b.taken {
		if l.served++; l.decodes {
			b.served = min(b.served, l.served)
		}
		for l.heads < len(l.want.Rows) && l.want.Rows[l.heads] < l.begun+l.now {
			l.heads++
		}
		if l.err == nil {
			l.begun += l.now
		}
		l.now = 0
		if !l.alone {
			b.met = append(b.met, l.batchSession)
		}
		if l.over = l.err != nil || l.begun == len(l.rows); !l.over {
			continue
		}
		b.removeCall(l)
		l.given = b.ended
		if l != leader {
			l.ready <- struct{}{}
		}
	}
	clear(b.taken)
	b.taken = b.taken[:0]
}

// passContext is the context of a pass. It ends when the contexts of all its calls have ended. It has no Done channel.
type passContext struct {
	context.Context
	calls []*forwardCall
}

func (p passContext) Err() error {
	for _, l := range p.calls {
		if l.ctx.Err() == nil {
			return nil
		}
	}
	return context.Canceled
}

// Value implements [context.Context]. The calls do not share their values.
func (passContext) Value(any) any { return nil }
