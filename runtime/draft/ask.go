package draft

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"
)

// escalation is a question to the cloud: which token follows at? Its Outcome tells how far it is.
type escalation struct {
	Escalation
	at      *node
	guesses []guess
	wanted  time.Time // decided
	sent    time.Time // asked
	cancel  context.CancelCauseFunc
	back    bool        // its ask has returned
	due     bool        // to be told of when its ask returns, or that of after
	after   *escalation // not asked since this one failed, whose ask has not returned yet

	followers []*escalation // those whose after this is

	compared int       // tokens before it that its answer was compared with
	sampled  int       // the only one of these positions that it looked at; 0: it looked at all
	findings []Finding // among these
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

// ask sends the questions that there is room for, the likeliest to matter first, and guesses their answers. While the
// breaker is open the local tokens stand at once.
func (r *run) ask(ctx context.Context) {
	if len(r.held) == 0 {
		return
	}
	defer runtime.Gosched() // the questions leave before a forward call takes the processors
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
			if r.silent != nil && !r.silent.back {
				e.after = r.silent
				r.silent.followers = append(r.silent.followers, e)
			}
			r.resolve(e, Unasked, e.Local, EdgeTimeout, r.Breaker.refusal())
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
	e.Branches = r.branches(e)
	for _, g := range e.guesses[:e.Branches] {
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

// start asks in a goroutine of its own, which ends soon after ctx is done and its result has been taken.
func (r *run) start(ctx context.Context, res result) {
	q := Question{Context: r.context(res.of.at), K: r.K, AuditFrom: r.auditFrom(res.of.at), Sampling: r.Sampling}
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
		if cause := context.Cause(ask); cause == ErrDeadline {
			res.err = late(res.err)
		} else if ctx.Err() != nil {
			res.err = errDecodeOver // whatever the answer: the cloud did not fail
		} else if cause != nil {
			res.err = cause
		} else if id := res.answer.Token; res.err == nil && (id < 0 || r.Vocab > 0 && int(id) >= r.Vocab) {
			res.err = ErrToken
		}
		res.at = time.Now()
		r.results <- res
		if r.fault.has(faultTwice) {
			r.results <- res
		}
	})
}
