package draft

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// absorb takes the answers that have come, and gives up the questions that are past their deadline.
func (r *run) absorb() {
	for res, ok := r.results.take(); ok; res, ok = r.results.take() {
		r.take(res)
	}
	r.tellWarmed()
	r.expire(r.now())
	r.leave()
}

// drain waits for the questions to return after their context is done.
func (r *run) drain() {
	for r.returning() {
		if res, ok := r.results.take(); ok {
			r.take(res)
		}
	}
	r.tellWarmed()
	r.tellAhead()
	if f := r.fanned; f.Wasted > 0 || r.won > 0 {
		r.tell(Event{Fan: &Fan{r.won, f.Wasted, f.Exposed}})
	}
}

// wait waits for an answer, for tokens ahead or for a deadline. The time counts as the oldest question's or check's.
func (r *run) wait(ctx context.Context) error {
	front, start := r.front(), r.now()
	oldest := cmp.Or(front.esc, front.check)
	if oldest == nil || len(r.asked) == 0 && r.open == 0 && !r.streaming() {
		panic("draft: waiting while no question is open")
	}
	came := r.pause(ctx, r.next(start))
	if !came && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	took := r.since(start)
	oldest.Exposed += took
	r.waited += took
	if r.Trace && took > 0 {
		r.tell(Event{Waited: &Waited{Pos: oldest.Pos, Began: start.Sub(r.began), Took: took}})
	}
	if !came {
		r.expire(r.now())
	} else if res, ok := r.results.take(); ok {
		r.take(res)
	}
	return nil
}

// take applies a result. If its question is no longer open, only its cost counts.
func (r *run) take(res result) {
	e := res.of
	if res.ended || res.ahead != nil {
		r.takeAhead(res)
		return
	}
	if e.back {
		return // a duplicate
	}
	e.back = true
	e.BytesUp, e.BytesDown, e.Prefilled = res.answer.BytesUp, res.answer.BytesDown, res.answer.Prefilled
	e.Decoded = res.err == nil
	r.heard = r.heard || e.Decoded
	r.explain(e, res.err)
	switch {
	case res.probe:
		r.takeProbe(e, res)
	case e.checks:
		r.takeCheck(e, res)
	case e.Outcome != inFlight || errors.Is(res.err, errDecodeOver):
	case res.err != nil:
		r.fail(e, res.err)
	default:
		r.answer(e, res)
	}
}

// answer applies the answer to an open question. A fact about the tokens before the question can drop it.
func (r *run) answer(e *escalation, res result) {
	e.timed(res)
	r.lately.learn(e.Wait)
	e.audited, e.findings = res.answer.Audited, res.answer.Audit
	e.Top = res.answer.Top
	if r.Deadline > 0 {
		r.Breaker.succeeded()
	}
	r.begins(e, res)
	r.learn(e, res.answer)
	r.review()
	if !e.answered() {
		token, origin := r.taken(e, res.answer)
		e.Kept = origin == Edge
		r.resolve(e, Miss, token, origin, nil)
	}
}

// explain sets the error of an escalation that ended at its deadline, and of those that were not asked because of it,
// to the error that its ask has now returned. It reports the escalations that are due.
func (r *run) explain(e *escalation, err error) {
	if errors.Is(err, ErrDeadline) {
		if e.Outcome == Late {
			e.Err = err
		}
		if e == r.silent {
			r.Breaker.explain(err)
		}
		for _, f := range e.followers {
			f.Err = notAsked(err)
		}
	}
	for _, f := range append([]*escalation{e}, e.followers...) {
		if f.due {
			r.report(f)
		}
	}
}

func (r *run) takeProbe(e *escalation, res result) {
	e.timed(res)
	failed := res.err
	if e.Err = res.err; e.Err == nil {
		e.Outcome, e.Token = Probed, res.answer.Token
		r.Breaker.succeeded()
	} else if errors.Is(e.Err, errDecodeOver) {
		e.Outcome, failed = Dropped, nil
	}
	r.Breaker.endProbe(r.now(), failed)
	r.report(e)
}

func (e *escalation) timed(res result) {
	e.Wait = res.at.Sub(e.sent)
	e.Queue, e.Cloud = res.answer.Queue, res.answer.Compute
	e.Wire = max(0, e.Wait-e.Queue-e.Cloud)
	e.Times = res.answer.Times
}

// fail ends e with an error: the small model's token stands.
func (r *run) fail(e *escalation, err error) {
	outcome := Failed
	if errors.Is(err, ErrDeadline) {
		outcome = Late
	}
	now := r.now()
	e.Wait = now.Sub(e.sent)
	if r.Deadline > 0 {
		r.Breaker.failed(e.sent, now, err)
	}
	if !e.back && (r.silent == nil || r.silent.back) {
		r.silent = e
	}
	r.resolve(e, outcome, e.Local, EdgeTimeout, err)
}

// resolve makes token follow e.at: its branch stays, the others are dropped. Where verification asked, the small
// model's token stays its own if the large model agrees.
func (r *run) resolve(e *escalation, outcome Outcome, token int32, origin Origin, err error) {
	r.shut(e, err)
	if origin == FromCloud && e.Why != Routed && token == e.Local {
		origin = Edge
	}
	var keep *node
	for _, c := range e.at.children {
		if c.token == token {
			keep = c
		}
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
	keep.origin, keep.looked, keep.probs = origin, true, e.local
	if origin == FromCloud {
		keep.probs = r.answered(e.Top, token)
	}
	if origin == EdgeTimeout && r.Verify {
		keep.unverified = true
		r.giveUp(e)
	}
	e.at.children = append(e.at.children[:0], keep)
	if e.answer() {
		e.Hidden = max(0, e.Wait-e.Exposed)
	}
}

// abandon cancels a question because a token that it depends on is dropped. The time that it lost is added to by.
func (r *run) abandon(e, by *escalation) {
	if e.Outcome == inFlight {
		e.Wait = r.since(e.sent)
	}
	by.Exposed += e.Exposed
	asked := e.Outcome != waiting && e.Outcome != Unasked && e.Outcome != Known
	r.shut(e, errDropped)
	e.Outcome, e.Hidden, e.Exposed = Dropped, 0, 0
	if asked {
		r.report(e)
	} else {
		by.Wasted += e.Wasted
	}
}

// shut removes e from the lists of questions and cancels its ask.
func (r *run) shut(e *escalation, why error) {
	same := func(x *escalation) bool { return x == e }
	r.unsent = slices.DeleteFunc(r.unsent, same)
	r.asked = slices.DeleteFunc(r.asked, same)
	if s := e.stream; s != nil && !s.turned && (why != nil || len(s.tokens) == 0) {
		s.live = false
	}
	if e.cancel != nil && (e.stream == nil || !e.stream.live) {
		e.cancel(why)
	}
}

// report emits e once its ask has returned, so that its cost and its error are known.
func (r *run) report(e *escalation) {
	if e.cancel != nil && !e.back || e.after != nil && !e.after.back {
		e.due = true
		return
	}
	r.tell(Event{Escalation: new(e.Escalation)})
}
