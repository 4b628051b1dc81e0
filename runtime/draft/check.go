package draft

import (
	"context"
)

// A check is a question that no token waits for. It asks the large model to verify the tokens of the draft so far, and
// to decode on from there. Its answer only brings facts, so it never changes a token: where escalations are is still a
// function of the path, see [rules.verificationDue]. The first check of a text has the prompt alone: the large
// model then streams its own text, which is the answer if drafts are not faster. Later ones let it skip tokens that are
// drafted already.

// checksEnabled reports whether checks are asked: with verification, if their number is not fixed by
// [Options.VerifyEvery], and tokens may come ahead.
func (o *rules) checksEnabled() bool { return o.auto && o.Ahead > 1 && o.InFlight > 1 }

func (r *decodeRun) maybeStartCheck(ctx context.Context, n *node) {
	if r.checksEnabled() && (r.Deadline <= 0 || !r.Breaker.Open()) {
		r.startCheck(ctx, n)
	}
}

func (r *decodeRun) startCheck(ctx context.Context, n *node) {
	now := r.sched.currentTime()
	n.check = &escalation{at: n, wanted: now, sent: now, checks: true, before: r.questions.waited}
	n.check.Escalation = Escalation{Pos: n.pos + 1, Decided: now.Sub(r.out.began), Outcome: inFlight, Why: Early}
	r.questions.checks++
	r.startAsk(ctx, result{of: n.check})
}

func (r *decodeRun) checkSerially(ctx context.Context) (checked bool, err error) {
	n := r.tree.lastCertain()
	if !r.Verify || r.CheckEvery == 0 || n.pos-r.tree.tip.pos < r.CheckEvery {
		return false, nil
	}
	r.startCheck(ctx, n)
	for r.questions.checks > 0 && err == nil {
		err = r.waitForAnswer(ctx)
	}
	return true, err
}

// checkAhead asks about the text up to the end of the draft, if that is worth it: at once if there is nothing to draft,
// and not if tokens ahead are as soon. If nothing else will bring an answer, it asks however sure the draft is.
func (r *decodeRun) checkAhead(ctx context.Context, idle bool) {
	if !r.checksEnabled() || r.questions.openCount() >= r.InFlight {
		return
	}
	n, lost := r.tree.draftEnd()
	stuck := idle && r.questions.openCount() == 0 && !r.streams.hasLiveStream()
	if !stuck && (lost == 0 || lost*r.guesser.cost.One() < r.lately.pace.Seconds()*rowShare && !idle) {
		return
	}
	soonest := r.sched.currentTime().Add(r.lately.median)
	for _, s := range r.streams.all {
		if at, may := r.streams.tokenExpectedAt(s, n, n.pos+1); may && !at.After(soonest) {
			return
		}
	}
	r.maybeStartCheck(ctx, n)
}

// rowShare is the share of a pass of the large model that a check costs: a row of a batch of eight.
const rowShare = 1. / 8

// draftEnd returns the last token of the likeliest draft, and what waiting has cost the tokens about which no question
// was asked, in tokens.
func (t *draftTree) draftEnd() (n *node, lost float64) {
	w := delay{}
	for n = t.tip; n.evaluated && len(n.children) > 0 && !n.children[0].final; {
		n = n.children[0]
		if w.addToken(1 - n.sure); n.check != nil || n.looked {
			w = delay{}
		}
	}
	if n.evaluated && len(n.children) > 0 && n.check == nil { // the text may end here
		w.addToken(1)
	}
	return n, w.lost
}

// delay is what drafts lose that wait for a check. A token that is rejected with the probability p loses p for each
// token that is drafted from it on until the check.
//
// With a constant p the sum is p·W·(W+1)/2 after W tokens. If a check costs c, checks of W tokens each cost, for each
// token,
//
//	L(W) = p·(W+1)/2 + c/W,    which is least at W = √(2c/p), where p·W²/2 = c:
//
// when waiting has cost what the check costs. Tokens with different p are treated in this way as they come.
type delay struct{ risk, lost float64 }

func (w *delay) addToken(p float64) {
	w.risk += p
	w.lost += w.risk
}

func (r *decodeRun) applyCheckResult(e *escalation, res result) {
	e.recordTimes(res)
	if e.Outcome != inFlight {
		return // its text does not hold
	}
	r.questions.checks--
	if e.Err = res.err; e.Err != nil || r.closed {
		e.Outcome = Dropped
		r.stopChecks() // escalations ask for themselves
		r.out.emitEscalation(e)
		return
	}
	e.Outcome = Checked
	e.Hidden = max(0, e.Wait-(r.questions.waited-e.before))
	r.lately.recordWait(e.Wait)
	r.streams.beginStream(e, res)
	e.at.fact.recordChoice(res.answer.Token, nil)
	e.recordFacts(res.answer)
	r.applyFacts()
	r.out.emitEscalation(e)
}

// knownTokens returns the tokens that follow n by facts alone, at most most.
func (o *rules) knownTokens(n *node, most int) (tokens []int32) {
	f := n.fact
	for ; o.checksEnabled() && f != nil && f.known && len(tokens) < most && !o.End(f.token); f = f.next[f.token] {
		tokens = append(tokens, f.token)
	}
	return tokens
}
