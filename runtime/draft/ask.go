package draft

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

// escalation is a question to the cloud: which token follows at? Its Outcome tells how far it is.
type escalation struct {
	Escalation
	at      *node
	guesses []guess
	wanted  time.Time // decided
	sent    time.Time // asked
	cancel  context.CancelCauseFunc
}

// guess is a token that the answer may be, and its probability under the small model.
type guess struct {
	token int32
	p     float64
}

// result is what became of an ask.
type result struct {
	of     *escalation
	answer Answer
	err    error
	at     time.Time
	probe  bool
}

// answered reports whether the token after it is known.
func (e *escalation) answered() bool { return e.Outcome != waiting && e.Outcome != inFlight }

// guesses returns the tokens that become branches: the local one, then the best others, most probable first.
func (r *run) guesses(local int32, head *backend.Output) []guess {
	if r.Mode == Serial {
		return nil
	}
	g := []guess{{token: local}}
	for _, c := range head.Top {
		p := math.Exp(float64(c.Logit - head.LogSumExp))
		if c.ID == local {
			g[0].p = p
		} else if len(g) < r.Branches {
			g = append(g, guess{c.ID, p})
		}
	}
	return g
}

// ask sends the questions that there is room for, the likeliest to matter first, and guesses their answers. While the
// breaker is open the local tokens stand at once.
func (r *run) ask(ctx context.Context) {
	slices.SortStableFunc(r.held, func(a, b *escalation) int { return cmp.Compare(r.chance(b.at), r.chance(a.at)) })
	for len(r.held) > 0 {
		e := r.held[0]
		room := r.InFlight
		if r.fault.has(faultInFlight) {
			room++
		}
		switch {
		case r.Deadline > 0 && r.Breaker.Open():
			r.held = r.held[1:]
			r.probe(ctx, e)
			r.resolve(e, Unasked, e.Local, EdgeTimeout, ErrBreaker)
		case len(r.asked) < room:
			r.held = r.held[1:]
			r.send(ctx, e)
		case r.fault.has(faultForgetHeld):
			r.held = r.held[1:]
			r.resolve(e, Unasked, e.Local, Edge, nil)
		default:
			return
		}
	}
}

// send asks the question e and makes its guesses branches.
func (r *run) send(ctx context.Context, e *escalation) {
	e.sent, e.Outcome = time.Now(), inFlight
	e.Held = e.sent.Sub(e.wanted)
	r.asked = append(r.asked, e)
	for _, g := range e.guesses {
		r.child(e.at, g.token, e.Confidence).guess = g.p
	}
	r.start(ctx, result{of: e})
}

// probe asks the question e as well, though nobody waits for the answer, if the breaker wants to know whether the cloud
// is back.
func (r *run) probe(ctx context.Context, e *escalation) {
	if now := time.Now(); r.Breaker.startProbe(now) {
		p := &escalation{at: e.at, wanted: now, sent: now}
		p.Escalation = Escalation{Pos: e.Pos, Outcome: Probing, Local: e.Local, Confidence: e.Confidence}
		r.start(ctx, result{of: p, probe: true})
	}
}

// start asks in a goroutine of its own, which ends soon after ctx is done.
func (r *run) start(ctx context.Context, res result) {
	q := Question{Context: r.context(res.of.at), K: r.K, Sampling: r.Sampling}
	ask, cancel := context.WithCancelCause(ctx)
	res.of.cancel = cancel
	r.asks.Go(func() {
		defer cancel(nil)
		ask, done := ask, context.CancelFunc(func() {})
		if r.Deadline > 0 {
			ask, done = context.WithTimeoutCause(ask, r.Deadline, ErrDeadline)
		}
		defer done()
		res.answer, res.err = r.cloud.Ask(ask, q)
		if cause := context.Cause(ask); cause != nil {
			res.err = cause
		} else if id := res.answer.Token; res.err == nil && (id < 0 || r.Vocab > 0 && int(id) >= r.Vocab) {
			res.err = ErrToken
		}
		res.at = time.Now()
		times := 1
		if r.fault.has(faultTwice) && !res.probe {
			times++
		}
		for range times {
			select {
			case r.results <- res:
			case <-ctx.Done():
				if res.probe {
					r.Breaker.endProbe()
				}
				return
			}
		}
	})
}

// absorb takes the answers that have come, and gives up the questions whose time is over.
func (r *run) absorb() {
	for {
		select {
		case res := <-r.results:
			r.take(res)
		default:
			r.expire(time.Now())
			return
		}
	}
}

// wait waits for an answer or for the end of a deadline. The time is charged to the oldest question.
func (r *run) wait(ctx context.Context) error {
	oldest, start := r.tip.esc, time.Now()
	if oldest == nil || oldest.Outcome != inFlight {
		panic("draft: waiting while no question is open")
	}
	var timer <-chan time.Time
	if due, ok := r.nextDue(); ok {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		timer = t.C
	}
	select {
	case res := <-r.results:
		oldest.Exposed += time.Since(start)
		r.take(res)
	case <-timer:
		oldest.Exposed += time.Since(start)
		r.expire(time.Now())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// take applies a result. One for a question that is no longer open is stale and means nothing.
func (r *run) take(res result) {
	if res.probe {
		r.takeProbe(res)
		return
	}
	e := res.of
	if e.Outcome != inFlight && r.fault.has(faultStaleAnswer) && r.tip.open() {
		e = r.tip.esc
	}
	if e.Outcome != inFlight {
		return
	}
	e.cost(res)
	if res.err != nil {
		r.fail(e, res.err)
		return
	}
	if r.Deadline > 0 {
		r.Breaker.succeeded()
	}
	r.resolve(e, Miss, res.answer.Token, FromCloud, nil)
}

// takeProbe tells the breaker what became of a probe.
func (r *run) takeProbe(res result) {
	e := res.of
	e.cost(res)
	if e.Err = res.err; e.Err == nil {
		e.Outcome, e.Token = Probed, res.answer.Token
		r.Breaker.succeeded()
		r.Breaker.endProbe()
	} else {
		r.Breaker.probeFailed(time.Now())
	}
	r.report(e)
}

// cost notes what an answer took.
func (e *escalation) cost(res result) {
	e.Wait = res.at.Sub(e.sent)
	e.Queue, e.Cloud = res.answer.Queue, res.answer.Cloud
	e.Wire = max(0, e.Wait-e.Queue-e.Cloud)
	e.BytesUp, e.BytesDown = res.answer.BytesUp, res.answer.BytesDown
}

// fail lets the local token of e stand.
func (r *run) fail(e *escalation, err error) {
	outcome := Failed
	if errors.Is(err, ErrDeadline) {
		outcome = Late
	}
	now := time.Now()
	e.Wait = now.Sub(e.sent)
	if r.Deadline > 0 {
		r.Breaker.failed(e.sent, now)
	}
	r.resolve(e, outcome, e.Local, EdgeTimeout, err)
}

// resolve makes token the one that follows e.at: its branch stays, the others are dropped.
func (r *run) resolve(e *escalation, outcome Outcome, token int32, origin Origin, err error) {
	r.shut(e, err)
	var keep *node
	for i, c := range e.at.children {
		if c.token == token && !r.fault.has(faultFirstBranch) || r.fault.has(faultFirstBranch) && i == 0 {
			keep = c
		}
	}
	if keep == nil && r.fault.has(faultKeepBelowMiss) && len(e.at.children) > 0 {
		keep = e.at.children[0]
		keep.token, keep.end = token, r.End(token)
		keep.final = keep.final || keep.end
	}
	if outcome == Miss && keep != nil && (keep.evaluated || keep.final) {
		outcome = Hit
	}
	e.Outcome, e.Token, e.Err = outcome, token, err
	for _, c := range e.at.children {
		if c != keep {
			r.drop(c, e)
		}
	}
	if keep == nil {
		keep = r.child(e.at, token, e.Confidence)
	}
	keep.origin = origin
	if r.fault.has(faultLocalOrigin) && token == e.Local {
		keep.origin = Edge
	}
	e.at.children = append(e.at.children[:0], keep)
	e.Hidden = max(0, e.Wait-e.Exposed)
}

// abandon gives a question up because what it rests on is dropped. What it had lost was lost by the question that it
// rests on.
func (r *run) abandon(e, by *escalation) {
	if e.Outcome == inFlight {
		e.Wait = time.Since(e.sent)
	}
	by.Exposed += e.Exposed
	asked := e.Outcome != waiting && e.Outcome != Unasked
	r.shut(e, errDropped)
	e.Outcome, e.Hidden, e.Exposed = Dropped, 0, 0
	if asked {
		r.report(e)
	}
}

// shut takes e off the lists of questions and tells its goroutine, if it has one.
func (r *run) shut(e *escalation, why error) {
	same := func(x *escalation) bool { return x == e }
	r.held = slices.DeleteFunc(r.held, same)
	r.asked = slices.DeleteFunc(r.asked, same)
	if e.cancel != nil && !(r.fault.has(faultSkipCancel) && why == errDropped) {
		e.cancel(why)
	}
}

// report tells the stream of e.
func (r *run) report(e *escalation) {
	told := e.Escalation
	r.tell(Event{Escalation: &told})
}
