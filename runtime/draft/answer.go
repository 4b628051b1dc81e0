package draft

import (
	"cmp"
	"context"
	"errors"
)

func (r *decodeRun) processResults() {
	for res, ok := r.sched.results.popResult(); ok; res, ok = r.sched.results.popResult() {
		r.applyResult(res)
	}
	r.warm.emitWarming(r.out)
	r.expireEscalations(r.sched.currentTime())
	r.streams.cancelUselessStreams()
}

func (r *decodeRun) drainAsks() {
	for r.sched.waitForResult() {
		if res, ok := r.sched.results.popResult(); ok {
			r.applyResult(res)
		}
	}
	r.warm.emitWarming(r.out)
	r.streams.emitAhead(r.out)
	if f := r.fanned; f.Wasted > 0 || r.won > 0 {
		r.out.emitEvent(Event{Fan: &Fan{r.won, f.Wasted, f.Exposed}})
	}
}

// waitForAnswer waits for an answer, for tokens ahead or for a deadline. The time counts as the oldest question's or
// check's.
func (r *decodeRun) waitForAnswer(ctx context.Context) error {
	front, start := r.tree.lastCertain(), r.sched.currentTime()
	oldest := cmp.Or(front.esc, front.check)
	if oldest == nil || r.questions.openCount() == 0 && !r.streams.hasLiveStream() {
		panic("draft: waiting while no question is open")
	}
	came := r.sched.waitForResultUntil(ctx, r.nextWakeup(start))
	if !came && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	took := r.sched.elapsedSince(start)
	oldest.Exposed += took
	r.questions.waited += took
	if r.Trace && took > 0 {
		r.out.emitEvent(Event{Waited: &Waited{Pos: oldest.Pos, Began: start.Sub(r.out.began), Took: took}})
	}
	if !came {
		r.expireEscalations(r.sched.currentTime())
	} else if res, ok := r.sched.results.popResult(); ok {
		r.applyResult(res)
	}
	return nil
}

// applyResult counts only the cost if the question is no longer open.
func (r *decodeRun) applyResult(res result) {
	e := res.of
	if res.ended || res.ahead != nil {
		if r.streams.applyAhead(res) {
			r.applyFacts()
		}
		return
	}
	if e.returned {
		return // a duplicate
	}
	e.returned = true
	e.BytesUp, e.BytesDown, e.Prefilled = res.answer.BytesUp, res.answer.BytesDown, res.answer.Prefilled
	e.Decoded = res.err == nil
	r.questions.heard = r.questions.heard || e.Decoded
	for _, f := range r.questions.recordAskError(e, res.err) {
		r.out.emitEscalation(f)
	}
	switch {
	case res.probe:
		r.applyProbeResult(e, res)
	case e.checks:
		r.applyCheckResult(e, res)
	case e.Outcome != inFlight || errors.Is(res.err, errDecodeOver):
	case res.err != nil:
		r.failEscalation(e, res.err)
	default:
		r.applyAnswer(e, res)
	}
}

// applyAnswer applies the answer to an open question. A fact about the tokens before the question can drop it.
func (r *decodeRun) applyAnswer(e *escalation, res result) {
	e.recordTimes(res)
	r.lately.recordWait(e.Wait)
	e.audited, e.findings = res.answer.Audited, res.answer.Audit
	e.Top = res.answer.Top
	if r.Deadline > 0 {
		r.Breaker.recordSuccess()
	}
	r.streams.beginStream(e, res)
	e.recordFacts(res.answer)
	r.applyFacts()
	if !e.isResolved() {
		token, origin := r.tokenFromAnswer(e, res.answer)
		e.Kept = origin == Edge
		r.resolveEscalation(e, Miss, token, origin, nil)
	}
}

func (r *decodeRun) applyProbeResult(e *escalation, res result) {
	e.recordTimes(res)
	failed := res.err
	if e.Err = res.err; e.Err == nil {
		e.Outcome, e.Token = Probed, res.answer.Token
		r.Breaker.recordSuccess()
	} else if errors.Is(e.Err, errDecodeOver) {
		e.Outcome, failed = Dropped, nil
	}
	r.Breaker.endProbe(r.sched.currentTime(), failed)
	r.out.emitEscalation(e)
}

func (e *escalation) recordTimes(res result) {
	e.Wait = res.at.Sub(e.sent)
	e.Queue, e.Cloud = res.answer.Queue, res.answer.Compute
	e.Wire = max(0, e.Wait-e.Queue-e.Cloud)
	e.Times = res.answer.Times
}

func (r *decodeRun) failEscalation(e *escalation, err error) {
	outcome := Failed
	if errors.Is(err, ErrDeadline) {
		outcome = Late
	}
	now := r.sched.currentTime()
	e.Wait = now.Sub(e.sent)
	if r.Deadline > 0 {
		r.Breaker.recordFailure(e.sent, now, err)
	}
	r.questions.markSilent(e)
	r.resolveEscalation(e, outcome, e.Local, EdgeTimeout, err)
}

// resolveEscalation makes token follow e.at: its branch stays, the others are dropped. Where verification asked, the
// small model's token stays its own if the large model agrees.
func (r *decodeRun) resolveEscalation(e *escalation, outcome Outcome, token int32, origin Origin, err error) {
	r.questions.closeEscalation(e, err)
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
			r.dropBranch(c, e)
		}
	}
	if keep == nil {
		keep = r.tree.addChild(e.at, token, e.Confidence)
	}
	keep.origin, keep.looked, keep.probs = origin, true, e.local
	if origin == FromCloud {
		keep.probs = r.answerLogProbs(e.Top, token)
	}
	if origin == EdgeTimeout && r.Verify {
		keep.unverified = true
		r.acceptUnverified(e)
	}
	e.at.children = append(e.at.children[:0], keep)
	if e.isAnswered() {
		e.Hidden = max(0, e.Wait-e.Exposed)
	}
}

// dropEscalation cancels a question because a token that it depends on is dropped. The time that it lost is added to
// by.
func (r *decodeRun) dropEscalation(e, by *escalation) {
	if e.Outcome == inFlight {
		e.Wait = r.sched.elapsedSince(e.sent)
	}
	by.Exposed += e.Exposed
	asked := e.Outcome != waiting && e.Outcome != Unasked && e.Outcome != Known
	r.questions.closeEscalation(e, errDropped)
	e.Outcome, e.Hidden, e.Exposed = Dropped, 0, 0
	if asked {
		r.out.emitEscalation(e)
	} else {
		by.Wasted += e.Wasted
	}
}
