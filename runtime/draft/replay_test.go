package draft

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
)

// health is the state of a breaker, by its documentation.
type health struct {
	open, probing bool
	since, next   time.Time // when the failed question that opened it was sent; no probe before
	pause         time.Duration
	cause         error
	answers       int                   // number of received answers
	lost          map[int]time.Duration // time waited for unanswered questions, by number of answers before
}

func (h *health) failed(sent, now time.Time, why error) {
	if !h.open {
		h.open, h.since, h.next, h.pause, h.cause = true, sent, now, 200*time.Millisecond, why
	}
}

func (h *health) answered() {
	h.open = false
	h.answers++
}

func (h *health) probeFailed(now time.Time, why error) {
	h.next, h.pause, h.cause = now.Add(h.pause), min(2*h.pause, 5*time.Second), why
}

// question is the expected result of a call of Ask.
type question struct {
	*asking
	deadline time.Duration
	probe    bool
	open     bool // a question that the text waits for
	taken    bool // its return was processed
	decided  bool // its answer decided how the text continues
	dropped  bool
	outcome  Outcome
	token    int32
	wait     time.Duration
	closed   time.Time             // when the decoder decided or dropped it
	waited   map[int]time.Duration // by the number of answers received before
}

// waits returns how long the text waited for q.
func (q *question) waits() (sum time.Duration) {
	for _, w := range q.waited {
		sum += w
	}
	return sum
}

// failure returns why there is no answer.
func (q *question) failure() error {
	if q.outcome == Late || !q.inTime() {
		return deadlineError(q.err)
	}
	return q.err
}

func (q *question) inTime() bool { return q.back.Before(q.sent.Add(q.deadline)) }

// moment is a time at which the decoder processed results.
type moment struct {
	at       time.Time
	refusing bool // the breaker was open when the decoder could ask
	probes   bool // and would have allowed a probe
	open     bool // state of the breaker after that
	asked    int  // number of open questions then
	cause    error
	silent   *question // the cause will come with it
}

// replay computes the expected result of each question of a text only from the times of its asks, their results, and
// the times of forward calls. The decoder processes results when a forward call ends, and at once while it waits.
type replay struct {
	*session
	branches func(*asking) int   // number of guesses at an answer
	mentions map[int]*Escalation // what was reported, by question number
	*health
	prompt    []int32
	serial    bool
	began     time.Time
	over      time.Time // when the last token was shown
	forwards  []forward
	asked     []*asking
	questions []*question // those of asked that have been sent so far
	moments   []moment
	known     map[uint64]time.Time // when the head after a text was computed
	silent    *question            // the first question that was late and has not returned
	wrong     error
}

func (r *replay) run() error {
	r.known = map[uint64]time.Time{hashOf(r.prompt): r.began}
	if err := r.hold(); err != nil {
		return err
	}
	for x := r.began; r.wrong == nil; x = r.next(x) {
		if r.serial {
			r.send(x)
		}
		r.take(x)
		r.expire(x)
		if !r.serial {
			r.send(x)
		}
		m := &r.moments[len(r.moments)-1]
		m.open, m.asked = r.open, len(r.opens())
		if !x.Before(r.over) {
			break
		}
	}
	if len(r.questions) < len(r.asked) && r.wrong == nil {
		return fmt.Errorf("%d questions are asked at unexpected times", len(r.asked)-len(r.questions))
	}
	r.end()
	return r.wrong
}

// hold computes which nodes of the forward calls are in the draft tree: the leaves, and the guesses after them that are
// accepted because the small model chooses them and the router does not escalate.
func (r *replay) hold() error {
	after := map[uint64]step{}
	decide := func(text, path uint64, pos int) {
		var s step
		head := r.world.head(text)
		s.local = r.world.pick(pos, &head)
		_, s.escalate, s.path = r.world.Decide(path, pos, &head)
		after[text] = s
	}
	decide(hashOf(r.prompt), 0, len(r.prompt))
	for i := range r.forwards {
		f := &r.forwards[i]
		f.held = make([]bool, len(f.nodes))
		for j, n := range f.nodes {
			parent := f.above[j][len(f.above[j])-1]
			if f.held[j] = true; j >= len(f.nodes)-f.guesses {
				at := slices.Index(f.texts[:j], parent)
				f.held[j] = at >= 0 && f.held[at] && !after[parent].escalate && after[parent].local == n.Token
			}
			if !f.held[j] {
				continue
			}
			text := f.texts[j]
			if _, twice := r.known[text]; twice {
				return fmt.Errorf("a text is evaluated twice")
			}
			r.known[text] = f.to
			decide(text, after[parent].path, n.Pos+1)
		}
	}
	return nil
}

func (r *replay) opens() (open []*question) {
	for _, q := range r.questions {
		if q.open {
			open = append(open, q)
		}
	}
	return open
}

// noticed returns when the decoder processes an event at x.
func (r *replay) noticed(x time.Time) time.Time {
	i, _ := slices.BinarySearchFunc(r.forwards, x, func(f forward, x time.Time) int { return f.to.Compare(x) })
	if i < len(r.forwards) && x.After(r.forwards[i].from) {
		return r.forwards[i].to
	}
	return x
}

// next returns the first moment after x. Outside of forward calls the decoder waits for the first open question.
func (r *replay) next(x time.Time) time.Time {
	next := r.over
	at := func(y time.Time) {
		if y = r.noticed(y); y.After(x) && y.Before(next) {
			next = y
		}
	}
	i, _ := slices.BinarySearchFunc(r.forwards, x.Add(1), func(f forward, x time.Time) int { return f.to.Compare(x) })
	busy := i < len(r.forwards) && !r.forwards[i].from.After(x)
	if i < len(r.forwards) {
		at(r.forwards[i].to)
	}
	for _, q := range r.questions {
		if !q.taken {
			at(q.back)
		}
		if q.open {
			at(r.due(q))
		}
	}
	if open := r.opens(); !busy && len(open) == 0 {
		r.wrong = fmt.Errorf("at %v the decoder waits without an open question", x.Sub(r.began))
	} else if !busy {
		tip := slices.MinFunc(open, func(a, b *question) int { return cmp.Compare(len(a.Context), len(b.Context)) })
		tip.waited[r.answers] += next.Sub(x)
	}
	return next
}

// due returns the deadline of q: after it was asked, or after a failed one was asked.
func (r *replay) due(q *question) time.Time {
	if r.open && r.since.Before(q.sent) {
		return r.since.Add(r.Deadline)
	}
	return q.sent.Add(r.Deadline)
}

// send processes the questions asked at x: probes while the breaker is open, at most one at a time and not too often.
func (r *replay) send(x time.Time) {
	m := moment{at: x, refusing: r.open, probes: r.open && !r.probing && !x.Before(r.health.next)}
	if m.cause = r.cause; r.silent != nil && !r.silent.taken {
		m.silent = r.silent
	}
	r.moments = append(r.moments, m)
	for _, a := range r.asked[len(r.questions):] {
		if !a.sent.Equal(x) {
			break
		}
		q := &question{asking: a, deadline: r.Deadline, probe: r.open, open: !r.open, waited: map[int]time.Duration{}}
		if q.probe && (r.probing || !m.probes) {
			r.wrong = fmt.Errorf("at %v question %d is asked although the breaker is open and no probe is due",
				x.Sub(r.began), a.answer.BytesUp)
		}
		r.probing = r.probing || q.probe
		r.questions = append(r.questions, q)
	}
}

// take processes the results that have arrived by x.
func (r *replay) take(x time.Time) {
	var back []*question
	for _, q := range r.questions {
		if !q.taken && !q.back.After(x) {
			q.taken = true
			back = append(back, q)
		}
	}
	slices.SortFunc(back, func(a, b *question) int { return a.back.Compare(b.back) })
	for _, q := range back {
		r.explain(q)
		switch ok := q.err == nil && q.inTime(); {
		case q.probe:
			r.probed(q, x, ok)
		case q.open && ok:
			r.answered()
			q.wait = q.back.Sub(q.sent)
			r.resolve(q, Hit, q.answer.Token, x)
		case q.open && q.inTime():
			r.fail(q, Failed, x, q.err)
		case q.open:
			r.fail(q, Late, x, deadlineError(q.err))
		}
	}
}

func (r *replay) probed(q *question, x time.Time, ok bool) {
	r.probing, q.outcome, q.wait = false, Probing, q.back.Sub(q.sent)
	if ok {
		r.answered()
		q.outcome, q.token = Probed, q.answer.Token
	} else {
		r.probeFailed(x, q.failure())
	}
}

// explain sets the cause of a failure that was processed before its question returned.
func (r *replay) explain(q *question) {
	if q == r.silent && r.open && r.cause == ErrDeadline {
		r.cause = deadlineError(q.err)
	}
}

// expire ends questions after their deadlines; the first one may end others.
func (r *replay) expire(x time.Time) {
	late := func(q *question) bool { return q.open && !r.due(q).After(x) }
	for i := slices.IndexFunc(r.questions, late); i >= 0; i = slices.IndexFunc(r.questions, late) {
		r.fail(r.questions[i], Late, x, ErrDeadline)
		if r.silent == nil || r.silent.taken {
			r.silent = r.questions[i]
		}
	}
}

func (r *replay) fail(q *question, outcome Outcome, x time.Time, why error) {
	r.failed(q.sent, x, why)
	q.wait = x.Sub(q.sent)
	r.resolve(q, outcome, r.local(q.asking), x)
}

func (r *replay) local(a *asking) int32 {
	head := r.world.head(a.text)
	return r.world.pick(len(a.Context), &head)
}

// resolve sets the token after q. Questions about texts with another token there are dropped.
func (r *replay) resolve(q *question, outcome Outcome, token int32, x time.Time) {
	q.open, q.decided, q.outcome, q.token, q.closed = false, outcome == Hit, outcome, token, x
	if outcome == Hit && !r.drafted(q, x) {
		q.outcome = Miss
	}
	n := len(q.Context)
	for _, b := range r.questions {
		if !b.probe && len(b.Context) > n && b.Context[n] != token && slices.Equal(b.Context[:n], q.Context) {
			r.drop(b, x)
		}
	}
}

func (r *replay) drop(q *question, x time.Time) {
	if q.open {
		q.open, q.closed, q.wait = false, x, x.Sub(q.sent)
	}
	q.dropped, q.outcome = true, Dropped
}

// drafted reports whether the answer to q was evaluated by x, or guessed as the last token.
func (r *replay) drafted(q *question, x time.Time) bool {
	at, ok := r.known[then(q.text, q.token)]
	final := r.world.end(q.token) || len(q.Context)+1 == len(r.prompt)+r.MaxTokens
	return ok && !at.After(x) || final && r.guessed(q.asking, q.token)
}

// guessed reports whether a token is on a branch of a question.
func (r *replay) guessed(a *asking, token int32) bool {
	if r.serial {
		return false
	}
	head, pos := r.world.head(a.text), len(a.Context)
	all := branches(&head, r.world.pick(pos, &head), pos, r.Sampling)
	return slices.ContainsFunc(all[:min(r.branches(a), len(all))], func(g guess) bool { return g.token == token })
}

// branches returns all guesses at an answer with their probabilities: the local token, and the best others. With
// sampling, the best ones have the largest sums of logit and temperature times noise.
func branches(head *backend.Output, local int32, pos int, o terms.Sampling) []guess {
	weight := func(c backend.Candidate) float64 {
		if o.Greedy() {
			return math.Exp(float64(c.Logit) - float64(head.LogSumExp))
		}
		return math.Exp(float64(c.Logit) - float64(head.Top[0].Logit) + o.Temperature*sample.Noise(o.Seed, pos, c.ID))
	}
	all, sum := []guess(nil), 0.0
	for _, c := range head.Top {
		all = append(all, guess{c.ID, weight(c)})
		sum += weight(c)
	}
	for i := range all {
		if !o.Greedy() {
			all[i].p /= sum
		}
	}
	slices.SortStableFunc(all, func(a, b guess) int {
		return cmp.Or(cmp.Compare(btoi(b.token == local), btoi(a.token == local)), cmp.Compare(b.p, a.p))
	})
	return all
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// end sets the results of questions that are open at the end of the text. A probe after its deadline has failed, even
// if its call returns only now.
func (r *replay) end() {
	slices.SortFunc(r.questions, func(a, b *question) int { return a.back.Compare(b.back) })
	for _, q := range r.questions {
		if !q.taken {
			r.explain(q)
		}
		late := !q.sent.Add(r.Deadline).After(r.over)
		if e := r.mentions[q.answer.BytesUp]; late && e != nil && q.sent.Add(r.Deadline).Equal(r.over) {
			late = e.Outcome != Dropped // either of two ends at one moment can come first
		}
		switch {
		case q.probe && !q.taken && late:
			r.probed(q, q.back, false)
		case q.probe && !q.taken:
			r.probing = false
			q.outcome, q.wait = Dropped, q.back.Sub(q.sent)
		case q.open:
			r.drop(q, r.over)
		case q.outcome == Late || q.outcome == Failed:
			for answers, w := range q.waited {
				r.lost[answers] += w
			}
		}
	}
}

// answer returns the result of the question about a text.
func (r *replay) answer(text uint64) (int32, error) {
	for _, q := range r.questions {
		if q.text == text && (q.outcome == Hit || q.outcome == Miss) {
			return q.token, nil
		}
	}
	return 0, errFake
}
