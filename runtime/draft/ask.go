package draft

import (
	"context"
	"runtime"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// escalation is a question to the cloud: which token follows at? Its Outcome is also its state.
type escalation struct {
	Escalation
	at       *node
	guesses  []guess
	local    *LogProbs // of the small model's token
	wanted   time.Time // decided
	sent     time.Time // asked
	cancel   context.CancelCauseFunc
	returned bool        // its ask has returned
	due      bool        // to be reported when its ask returns, or that of after
	after    *escalation // the failed question because of which it was not asked, until the ask of that returns

	followers []*escalation // the escalations with this one as after

	compare []comparison  // tokens before it that its answer verifies
	how     terms.Verify  // and how
	stream  *stream       // of the tokens that follow its answer; nil: none
	guessed bool          // its guesses are branches
	checks  bool          // it is a check
	before  time.Duration // of a check: what had been waited when it was asked

	audited  int             // tokens before it that its answer was compared with
	findings []terms.Finding // among these
}

// result is the result of an ask.
type result struct {
	of     *escalation
	ahead  []int32 // not nil: tokens of its stream, and no answer
	ended  bool    // the end of its stream, and no answer
	answer Answer
	err    error
	at     time.Time
	probe  bool
}

func (e *escalation) isResolved() bool { return e.Outcome != waiting && e.Outcome != inFlight }

// sendPendingQuestions sends the questions that there is room for, the likeliest to matter first. While the breaker is
// open, local tokens stand at once.
func (r *decodeRun) sendPendingQuestions(ctx context.Context) {
	if len(r.questions.unsent) == 0 {
		return
	}
	if r.Deadline > 0 && r.Breaker.Open() {
		r.dropAlternatives()
	}
	defer runtime.Gosched() // questions leave before a forward call takes the processors
	r.questions.sortUnsent(r.tree)
	for i := 0; i < len(r.questions.unsent); {
		e := r.questions.unsent[i]
		_, covered := r.streams.waitsForStream(e, r.sched.currentTime(), r.questions.answerTimeout())
		switch {
		case r.Deadline > 0 && r.Breaker.Open():
			r.sendProbe(ctx, e)
			r.questions.followSilent(e)
			r.resolveEscalation(e, Unasked, e.Local, EdgeTimeout, r.Breaker.refusalError())
			i = 0
		case covered: // a stream or a check is about to bring its answer
			r.addGuessBranches(e)
			i++
		case r.tree.shouldDefer(e):
			i++
		case r.questions.openCount() < r.InFlight:
			r.sendQuestion(ctx, e)
		default:
			return
		}
	}
}

// likely is the min chance that the text comes through its place for a question that can wait.
const likely = 0.8

// shouldDefer reports whether e waits for other answers, as it would often be in vain: it rests on guesses that are not
// likely, and is for verification, or rests on a guess at the answer to such a question.
func (t *draftTree) shouldDefer(e *escalation) bool {
	if t.pathProbability(e.at) >= likely {
		return false
	}
	if e.Why != Routed {
		return true
	}
	for n := e.at; n != t.tip; n = n.parent {
		if n.alt || n.parent.hasOpenEscalation() && n.parent.esc.Why != Routed {
			return true
		}
	}
	return false
}

func (r *decodeRun) addGuessBranches(e *escalation) {
	if e.guessed {
		return
	}
	e.guessed, e.Branches = true, r.branchCount(e)
	for _, g := range e.guesses[:e.Branches] {
		c := r.tree.addChild(e.at, g.token, e.Confidence)
		c.guess, c.sure = g.p, g.p
	}
}

func (r *decodeRun) sendQuestion(ctx context.Context, e *escalation) {
	r.questions.markAsked(e, r.sched.currentTime())
	r.addGuessBranches(e)
	r.startAsk(ctx, result{of: e})
}

func (r *decodeRun) sendProbe(ctx context.Context, e *escalation) {
	if now := r.sched.currentTime(); r.Breaker.startProbe(now) {
		p := &escalation{at: e.at, wanted: now, sent: now}
		p.Escalation = Escalation{
			Pos: e.Pos, Decided: now.Sub(r.out.began), Outcome: Probing, Local: e.Local, Confidence: e.Confidence,
		}
		r.startAsk(ctx, result{of: p, probe: true})
	}
}

// startAsk asks in a goroutine, which ends soon after ctx is done.
func (r *decodeRun) startAsk(ctx context.Context, res result) {
	e := res.of
	q := Question{Context: r.tree.contextTokens(e.at), K: r.K, Sampling: r.Sampling, Times: r.Trace}
	if !res.probe || !r.Verify {
		q.AuditFrom, q.Verify = r.audits.auditFrom(e.at, r.tree.firstUnverified(e.at))
	}
	if !res.probe && r.Verify {
		e.compare, e.how = r.tree.listComparisons(e.at, q.AuditFrom), q.Verify
	}
	if !res.probe && r.Ahead > 1 {
		q.Ahead = r.Ahead - 1
		r.streams.openStream(e)
	}
	ask, cancel := context.WithCancelCause(ctx)
	e.cancel = cancel
	limit := r.questions.answerTimeout()
	r.sched.startGoroutine(func() {
		defer cancel(nil)
		ask, answered := r.sched.limitAskTime(ask, &q, limit, cancel)
		res.answer, res.err = r.cloud.Ask(ask, q)
		cause := context.Cause(ask)
		answered()
		if cause == ErrDeadline {
			res.err = deadlineError(res.err)
		} else if ctx.Err() != nil {
			res.err = errDecodeOver // the cloud did not fail
		} else if cause != nil {
			res.err = cause
		} else if res.err == nil {
			res.err = r.validateAnswer(q, res.answer)
		}
		res.at = r.sched.currentTime()
		r.sched.results.pushResult(res)
		if e.stream != nil {
			r.sched.forwardStream(e, cancel, res)
		}
	})
}

func (o *rules) validateAnswer(q Question, a Answer) error {
	if a.Token < 0 || o.Vocab > 0 && int(a.Token) >= o.Vocab {
		return ErrToken
	}
	if q.Verify != terms.AsItComes && a.Audited != len(q.Context)-q.AuditFrom {
		return ErrVerify
	}
	return nil
}
