package draft

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// escalation is a question to the cloud: which token follows at? Its Outcome is also its state.
type escalation struct {
	Escalation
	at      *node
	guesses []guess
	local   *LogProbs // of the small model's token
	wanted  time.Time // decided
	sent    time.Time // asked
	cancel  context.CancelCauseFunc
	back    bool        // its ask has returned
	due     bool        // to be reported when its ask returns, or that of after
	after   *escalation // the failed question because of which it was not asked, until the ask of that returns

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

// answered reports whether the token that follows is known.
func (e *escalation) answered() bool { return e.Outcome != waiting && e.Outcome != inFlight }

// ask sends the questions that there is room for, the likeliest to matter first, and guesses their answers. While the
// breaker is open, local tokens stand at once.
func (r *run) ask(ctx context.Context) {
	if len(r.unsent) == 0 {
		return
	}
	if r.Deadline > 0 && r.Breaker.Open() {
		r.narrow()
	}
	defer runtime.Gosched() // questions leave before a forward call takes the processors
	slices.SortStableFunc(r.unsent, func(a, b *escalation) int { return cmp.Compare(r.chance(b.at), r.chance(a.at)) })
	for i := 0; i < len(r.unsent); {
		e := r.unsent[i]
		_, covered := r.covered(e, r.now())
		switch {
		case r.Deadline > 0 && r.Breaker.Open():
			r.probe(ctx, e)
			if r.silent != nil && !r.silent.back {
				e.after = r.silent
				r.silent.followers = append(r.silent.followers, e)
			}
			r.resolve(e, Unasked, e.Local, EdgeTimeout, r.Breaker.refusal())
			i = 0
		case covered: // a stream or a check is about to bring its answer
			r.branch(e)
			i++
		case r.idle(e):
			i++
		case len(r.asked)+r.open < r.InFlight:
			r.unsent = slices.Delete(r.unsent, i, i+1)
			r.send(ctx, e)
		default:
			return
		}
	}
}

// likely is the min chance that the text comes through its place for a question that can wait.
const likely = 0.8

// idle reports whether e waits for other answers, as it would often be in vain: it rests on guesses that are not
// likely, and is for verification, or rests on a guess at the answer to such a question.
func (r *run) idle(e *escalation) bool {
	if r.chance(e.at) >= likely {
		return false
	}
	if e.Why != Routed {
		return true
	}
	for n := e.at; n != r.tip; n = n.parent {
		if n.alt || n.parent.open() && n.parent.esc.Why != Routed {
			return true
		}
	}
	return false
}

// branch makes branches of the guesses at the answer to e.
func (r *run) branch(e *escalation) {
	if e.guessed {
		return
	}
	e.guessed, e.Branches = true, r.branches(e)
	for _, g := range e.guesses[:e.Branches] {
		c := r.child(e.at, g.token, e.Confidence)
		c.guess, c.sure = g.p, g.p
	}
}

// send asks e, and makes branches of its guesses.
func (r *run) send(ctx context.Context, e *escalation) {
	e.sent, e.Outcome = r.now(), inFlight
	e.Held = e.sent.Sub(e.wanted)
	r.asked = append(r.asked, e)
	r.branch(e)
	r.start(ctx, result{of: e})
}

// probe asks e if the breaker lets a probe through. No token waits for the answer.
func (r *run) probe(ctx context.Context, e *escalation) {
	if now := r.now(); r.Breaker.startProbe(now) {
		p := &escalation{at: e.at, wanted: now, sent: now}
		p.Escalation = Escalation{
			Pos: e.Pos, Decided: now.Sub(r.began), Outcome: Probing, Local: e.Local, Confidence: e.Confidence,
		}
		r.start(ctx, result{of: p, probe: true})
	}
}

// start asks in a goroutine, which ends soon after ctx is done.
func (r *run) start(ctx context.Context, res result) {
	e := res.of
	q := Question{Context: r.context(e.at), K: r.K, Sampling: r.Sampling, Times: r.Trace}
	if !res.probe || !r.Verify {
		q.AuditFrom, q.Verify = r.auditFrom(e.at)
	}
	if !res.probe && r.Verify {
		e.compare, e.how = r.comparisons(e.at, q.AuditFrom), q.Verify
	}
	if !res.probe && r.Ahead > 1 {
		q.Ahead = r.Ahead - 1
		e.stream = &stream{of: e, at: e.at, pos: e.Pos, fact: e.at.fact, live: true}
		r.streams = append(r.streams, e.stream)
	}
	ask, cancel := context.WithCancelCause(ctx)
	e.cancel = cancel
	limit := r.patience()
	r.beside(func() {
		defer cancel(nil)
		ask, answered := r.bound(ask, &q, limit, cancel)
		res.answer, res.err = r.cloud.Ask(ask, q)
		cause := context.Cause(ask)
		answered()
		if cause == ErrDeadline {
			res.err = late(res.err)
		} else if ctx.Err() != nil {
			res.err = errDecodeOver // the cloud did not fail
		} else if cause != nil {
			res.err = cause
		} else if res.err == nil {
			res.err = r.refuse(q, res.answer)
		}
		res.at = r.now()
		r.results.put(res)
		if e.stream != nil {
			r.more(e, cancel, res)
		}
	})
}

func (r *run) refuse(q Question, a Answer) error {
	if a.Token < 0 || r.Vocab > 0 && int(a.Token) >= r.Vocab {
		return ErrToken
	}
	if q.Verify != terms.AsItComes && a.Audited != len(q.Context)-q.AuditFrom {
		return ErrVerify
	}
	return nil
}
