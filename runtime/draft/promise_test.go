package draft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// TestPromise2: with deadlines and any behavior of the cloud, each text is complete and equals that of routed decoding
// with the same results of questions. Each question ends according to the deadline and the breaker, waiting for a cloud
// that does not answer takes one deadline each time the breaker opens, and the events report all of this.
func TestPromise2(t *testing.T) {
	batches, size := 30, 100
	if testing.Short() {
		batches = 2
	}
	var seen weathered
	for _, seeds := range randomCases(t, batches, size) {
		bubble.Test(t, func(t *testing.T) {
			for _, seed := range seeds {
				for _, mode := range []Mode{Serial, Pipelined} {
					require.NoError(t, newSession(seed).check(mode, &seen), "mode %d, %s=%d", mode, oneSeed, seed)
				}
			}
		})
	}
	t.Logf("%+v", seen)
	if seed := os.Getenv(oneSeed); seed != "" {
		return
	}
	for _, o := range []Outcome{Hit, Miss, Late, Failed, Unasked, Dropped, Probing, Probed} {
		assert.Positive(t, seen.outcomes[o], "the cases must reach all paths: %s", o)
	}
	assert.Positive(t, seen.early, "questions that failed with another one")
	assert.Positive(t, seen.warmed)
	assert.Greater(t, seen.accepted, seen.proposed/20, "accepted guesses from the text")
	assert.Less(t, seen.accepted, seen.proposed*19/20, "and rejected ones")
}

// weathered counts what happened in the cases.
type weathered struct {
	outcomes      map[Outcome]int
	early, warmed int
	proposed      int
	accepted      int
}

// check decodes the texts one after the other.
func (s *session) check(mode Mode, seen *weathered) error {
	cloud, h := s.cloud(), &health{lost: map[int]time.Duration{}}
	s.Breaker, s.Mode = new(Breaker), mode
	for i, text := range s.texts {
		time.Sleep(text.pause)
		asked, warmed := len(cloud.asked), len(cloud.warmed)
		d, err := s.decode(cloud, text)
		if cloud.busy > 0 {
			err = errors.Join(err, fmt.Errorf("%d calls of the cloud have not returned", cloud.busy))
		}
		if err == nil {
			d.asked, d.warmed = cloud.asked[asked:], cloud.warmed[warmed:]
			err = d.check(h)
		}
		if err == nil && h.open != s.Breaker.Open() {
			err = fmt.Errorf("is the breaker open? %t, want %t", !h.open, h.open)
		}
		if err != nil {
			return fmt.Errorf("text %d: %w", i+1, err)
		}
		d.count(seen)
	}
	return nil
}

// decoded is a text with everything that an observer can see of its decoding.
type decoded struct {
	*session
	text
	sum      Summary
	model    *fakeModel
	asked    []*asking
	warmed   []*warmed
	began    time.Time
	tokens   []Event
	others   []Event
	replay   *replay
	mentions map[int]*Escalation // by question number
	passed   map[int]*Escalation // escalations that the text passed, by position
}

// decode runs a text. It returns an error if slots or questions are left.
func (s *session) decode(cloud *stormy, t text) (d *decoded, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Hour, errors.New("a hang"))
	defer cancel()
	m := s.schedule.fakes().model
	m.account = &account{of: map[ID]int{}, rooms: map[int64]int{}}
	m.slots, m.window = len(t.prompt)+s.MaxTokens+s.slots, nil
	m.last = len(t.prompt) + s.MaxTokens - 1
	m.time = func(rows int) time.Duration { return s.speed + time.Duration(rows)*time.Millisecond }
	d = &decoded{session: s, text: t, model: m, began: time.Now()}
	var c Cloud = struct{ Cloud }{cloud}
	if s.warms {
		c = cloud
	}
	decoder, err := New(m, &s.world, c, s.Options)
	if err != nil {
		return nil, err
	}
	d.sum, err = decoder.Decode(ctx, t.prompt, d.emit)
	switch {
	case err != nil:
		return nil, err
	case m.wrong != nil:
		return nil, m.wrong
	case len(m.nodes) > 0:
		return nil, fmt.Errorf("%d slots are still in use", len(m.nodes))
	case len(d.tokens) == 0:
		return nil, errors.New("no token is shown")
	}
	return d, d.index()
}

// index sorts the escalations by number and position.
func (d *decoded) index() error {
	d.mentions, d.passed = map[int]*Escalation{}, map[int]*Escalation{}
	for _, e := range d.others {
		q := e.Escalation
		if q == nil {
			continue
		}
		if q.Outcome == Unasked || q.isAnswered() || q.Outcome == Late || q.Outcome == Failed {
			if d.passed[q.Pos] != nil {
				return fmt.Errorf("the escalation at %d is reported twice", q.Pos)
			}
			d.passed[q.Pos] = q
		}
		if q.Outcome != Unasked {
			if d.mentions[q.BytesUp] != nil {
				return fmt.Errorf("question %d is reported twice", q.BytesUp)
			}
			d.mentions[q.BytesUp] = q
		}
	}
	return nil
}

func (d *decoded) emit(e Event) bool {
	if e.Token != nil {
		d.tokens = append(d.tokens, e)
	} else {
		d.others = append(d.others, e)
	}
	return d.stop == 0 || len(d.tokens) < d.stop
}

func (d *decoded) count(seen *weathered) {
	if seen.outcomes == nil {
		seen.outcomes = map[Outcome]int{}
	}
	for _, e := range d.others {
		if q := e.Escalation; q != nil {
			seen.outcomes[q.Outcome]++
			if q.Outcome == Late && q.Wait < d.Deadline {
				seen.early++
			}
		} else if e.Warming != nil {
			seen.warmed++
		} else {
			seen.proposed += e.Pass.Proposed
			seen.accepted += e.Pass.Accepted
		}
	}
}

// check compares the text with the results of its questions.
func (d *decoded) check(h *health) error {
	d.replay = &replay{
		session: d.session, health: h, prompt: d.prompt, serial: d.Mode == Serial, began: d.began,
		over: d.shown(d.tokens[len(d.tokens)-1]), forwards: d.model.account.forwards, asked: d.asked,
		branches: d.branches, mentions: d.mentions,
	}
	if err := d.replay.run(); err != nil {
		return err
	}
	for _, q := range d.asked {
		if hashOf(q.Context) != q.text {
			return fmt.Errorf("the context of question %d has changed", q.answer.BytesUp)
		}
	}
	for _, check := range []func() error{
		d.complete, d.reported, d.fates, d.unasked, d.wanted, d.bounded, d.passes, d.early, d.counted, d.drafts,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// branches returns how many guesses at the answer to a question are drafted: the number in the options, or the number
// in its event if it depends on the price. For a question without an event, since emit ended, only the first guess is
// known: the local token.
func (d *decoded) branches(a *asking) int {
	if d.Branches != AutoBranches {
		return d.Branches
	}
	if e := d.mentions[a.answer.BytesUp]; e != nil {
		return e.Branches
	}
	return 1
}

func (d *decoded) shown(e Event) time.Time { return d.began.Add(e.At) }

// complete checks that the text equals that of routed decoding, to its end or to where emit stopped.
func (d *decoded) complete() error {
	limit := d.MaxTokens
	if d.stop > 0 {
		limit = min(limit, d.stop)
	}
	want := d.world.routed(d.prompt, limit, d.replay.answer)
	var got shown
	for _, e := range d.tokens {
		got.collect(e)
	}
	switch {
	case !slices.Equal(got.Tokens, want.Tokens):
		return fmt.Errorf("tokens %v, want %v", got.Tokens, want.Tokens)
	case limit == d.MaxTokens && d.sum.Stop != want.Stop:
		return fmt.Errorf("stopped for %q, want %q", d.sum.Stop, want.Stop)
	case d.sum.Tokens != len(want.Tokens):
		return fmt.Errorf("%d of %d tokens are counted", d.sum.Tokens, len(want.Tokens))
	case d.model.settled < len(d.prompt)+len(want.Tokens)-1 || d.model.settled > len(d.prompt)+len(want.Tokens):
		return fmt.Errorf("%d tokens are settled", d.model.settled)
	case d.Audit && auditOf(d.sum) != want.audit:
		return fmt.Errorf("the audit is %v, want %v", auditOf(d.sum), want.audit)
	case d.sum.Escalations != len(want.Escalated):
		return fmt.Errorf("%d escalations are counted, want those at %v", d.sum.Escalations, want.Escalated)
	}
	for _, pos := range want.Escalated {
		if d.passed[pos] == nil && d.stop == 0 {
			return fmt.Errorf("no event for the escalation at %d", pos)
		}
	}
	return nil
}

// reported checks that events are in order, and that each token is shown as soon as it is settled.
func (d *decoded) reported() error {
	at := d.began
	for i, e := range d.tokens {
		pos := len(d.prompt) + i
		text := hashOf(d.before(pos))
		due := d.replay.known[text]
		drafted := due
		if q := d.question(text); q != nil {
			due = latest(due, q.closed)
			if drafted = q.closed; d.replay.guessed(q.asking, e.Token.ID) {
				drafted = q.sent
			}
		} else if e.Token.Origin == EdgeTimeout {
			m, err := d.refused(text)
			if err != nil {
				return err
			}
			due = latest(due, m.at)
			drafted = m.at
		}
		if at = latest(at, due); !d.shown(e).Equal(at) {
			return fmt.Errorf("the token at %d is shown after %v, and was settled after %v", pos, e.At, at.Sub(d.began))
		}
		if e.Token.CommitDelay != at.Sub(drafted) {
			return fmt.Errorf("the token at %d was delayed by %v, not %v", pos, at.Sub(drafted), e.Token.CommitDelay)
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// before returns the text before a position.
func (d *decoded) before(pos int) []int32 {
	all := slices.Clone(d.prompt)
	for _, e := range d.tokens[:pos-len(all)] {
		all = append(all, e.Token.ID)
	}
	return all
}

// question returns the question that was asked about a text, for its answer.
func (d *decoded) question(text uint64) *question {
	for _, q := range d.replay.questions {
		if !q.probe && q.text == text {
			return q
		}
	}
	return nil
}

// refused returns the moment when the breaker refused a question about a text: the first one after the decision at
// which it was open.
func (d *decoded) refused(text uint64) (moment, error) {
	for _, m := range d.replay.moments {
		if m.refusing && !m.at.Before(d.replay.known[text]) {
			return m, nil
		}
	}
	return moment{}, errors.New("a question is not asked although the breaker is closed")
}

// fates checks that the event of each question reports its result.
func (d *decoded) fates() error {
	for _, q := range d.replay.questions {
		got := d.mentions[q.answer.BytesUp]
		if got == nil && d.stop > 0 {
			continue
		} else if got == nil {
			return fmt.Errorf("no event for question %d", q.answer.BytesUp)
		}
		if want := d.expected(q, *got); fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", *got) {
			return fmt.Errorf("question %d: %+v, want %+v", q.answer.BytesUp, *got, want)
		}
		if err := d.cause(q, got); err != nil {
			return fmt.Errorf("question %d, %s: %w", q.answer.BytesUp, q.outcome, err)
		}
	}
	return nil
}

// expected returns the expected event of a question; fields that other checks cover are copied from the event.
func (d *decoded) expected(q *question, e Escalation) Escalation {
	answered := e.isAnswered()
	e.Pos, e.Outcome, e.Local, e.Token = len(q.Context), q.outcome, d.replay.local(q.asking), q.token
	e.Wait, e.BytesDown = q.wait, q.answer.BytesDown
	switch {
	case q.probe || d.Mode == Serial:
		e.Branches = 0
	case d.Branches != AutoBranches:
		e.Branches = min(d.Branches, fakeTop)
	default:
		e.Branches = max(1, min(e.Branches, MostBranches, fakeTop))
	}
	if e.Queue, e.Cloud, e.Wire = 0, 0, 0; q.probe || q.decided {
		e.Queue, e.Cloud = q.answer.Queue, q.answer.Compute
		e.Wire = max(0, q.wait-q.answer.Queue-q.answer.Compute)
	}
	e.Held, e.Drafted, e.Decided = 0, 0, q.sent.Sub(d.began)
	if !q.probe {
		known := d.replay.known[q.text]
		e.Held, e.Drafted, e.Decided = q.sent.Sub(known), d.drafted(q), known.Sub(d.began)
	}
	if e.Hidden = max(0, e.Wait-e.Exposed); !answered {
		e.Hidden, e.Audited = 0, 0
	}
	return e
}

// drafted counts the tokens that were evaluated after the text of a question while it was open.
func (d *decoded) drafted(q *question) (n int) {
	for _, f := range d.model.account.forwards {
		if !f.to.After(q.sent) || f.to.After(q.closed) {
			continue
		}
		for i, above := range f.above {
			if f.held[i] && slices.Contains(above, q.text) {
				n++
			}
		}
	}
	return n
}

// cause checks that the error states why the small model's token is used, and wraps the error of the cloud.
func (d *decoded) cause(q *question, got *Escalation) error {
	switch q.outcome {
	case Hit, Miss, Probed:
		return equalErrors(got.Err, nil)
	case Late, Failed, Probing:
		return equalErrors(got.Err, q.failure())
	}
	return nil
}

func equalErrors(got, want error) error {
	if fmt.Sprint(got) != fmt.Sprint(want) || errors.Is(got, ErrDeadline) != errors.Is(want, ErrDeadline) {
		return fmt.Errorf("the cause is %q, want %q", fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

// unasked checks that questions without an ask were refused by the breaker, that a probe is sent with the first
// possible one, and that a question is held back only while too many are open.
func (d *decoded) unasked() error {
	for pos, e := range d.passed {
		text := hashOf(d.before(pos))
		if e.Outcome != Unasked {
			if (e.Err == nil) != e.isAnswered() {
				return fmt.Errorf("the escalation at %d: %s, with the error %w", pos, e.Outcome, e.Err)
			}
			continue
		}
		m, err := d.refused(text)
		if err != nil {
			return err
		}
		sent := func(q *question) bool { return q.probe && q.sent.Equal(m.at) }
		if m.probes && !slices.ContainsFunc(d.replay.questions, sent) {
			return fmt.Errorf("no probe after %v, though one is due", m.at.Sub(d.began))
		}
		want := Escalation{
			Pos: pos, Decided: min(e.Decided, m.at.Sub(d.began)), Outcome: Unasked, Err: e.Err,
			Local: e.Local, Token: e.Local, Confidence: e.Confidence,
		}
		if fmt.Sprint(want) != fmt.Sprint(*e) || !errors.Is(e.Err, ErrBreaker) {
			return fmt.Errorf("not asked: %+v, want %+v", *e, want)
		}
		cause := m.cause
		if m.silent != nil {
			cause = m.silent.failure()
		}
		if err := equalErrors(e.Err, notAskedError(cause)); err != nil {
			return fmt.Errorf("not asked at %d: %w", pos, err)
		}
	}
	for _, q := range d.replay.questions {
		for _, m := range d.replay.moments {
			if !q.probe && m.at.Before(q.sent) && !m.at.Before(d.replay.known[q.text]) && m.asked != d.InFlight {
				return fmt.Errorf("question %d is held back, while %d of %d are open",
					q.answer.BytesUp, m.asked, d.InFlight)
			}
		}
	}
	return nil
}

// wanted checks the fields of each question.
func (d *decoded) wanted() error {
	for _, q := range d.asked {
		from := len(d.prompt)
		for _, e := range d.tokens {
			p := d.passed[e.Token.Pos]
			if p != nil && p.isAnswered() && d.shown(e).Before(q.sent) &&
				d.question(hashOf(d.before(p.Pos))).answer.Audited > 0 {
				from = p.Pos
			}
		}
		if !d.Audit || from >= len(q.Context) {
			from = 0
		}
		if q.AuditFrom != from || q.K != d.K || q.Sampling != d.Sampling {
			return fmt.Errorf("question %d: %+v, want an audit from %d", q.answer.BytesUp, q.Question, from)
		}
	}
	return nil
}

// bounded checks that between two answers, over any texts, waits for missing answers add up to max one deadline, and
// that the events report the time waited and the time of wasted forward calls as exposed.
func (d *decoded) bounded() error {
	for _, lost := range d.replay.lost {
		if lost > d.Deadline {
			return fmt.Errorf("waited %v for a cloud that does not answer, with a deadline of %v", lost, d.Deadline)
		}
	}
	var waited, exposed time.Duration
	for _, q := range d.replay.questions {
		if q.wait > d.Deadline+d.model.time(d.Rows) && !q.probe {
			return fmt.Errorf("question %d was open for %v", q.answer.BytesUp, q.wait)
		}
		waited += q.waits()
		if e := d.mentions[q.answer.BytesUp]; e != nil {
			exposed += e.Exposed
			if !q.dropped && !q.probe && (e.Exposed < q.waits() || e.Wasted == 0 && e.Exposed != q.waits()) {
				return fmt.Errorf("the wait for question %d was %v, not %v", q.answer.BytesUp, q.waits(), e.Exposed)
			}
		}
	}
	a := d.model.account
	dropped := a.dropped - (d.sum.Proposed - d.sum.Accepted)
	if d.stop == 0 && (exposed != waited+a.lost || d.sum.Wasted != dropped) {
		return fmt.Errorf("%v exposed and %d tokens wasted, want %v + %v and %d",
			exposed, d.sum.Wasted, waited, a.lost, dropped)
	}
	return nil
}

// passes checks that each forward call is reported correctly.
func (d *decoded) passes() error {
	var got []Event
	for _, e := range d.others {
		if e.Pass != nil {
			got = append(got, e)
		}
	}
	if len(got) != len(d.model.account.forwards) {
		return fmt.Errorf("%d forward calls are reported, of %d", len(got), len(d.model.account.forwards))
	}
	for i, f := range d.model.account.forwards {
		want := Pass{
			Rows: len(f.nodes), Proposed: f.guesses, Began: f.from.Sub(d.began), Took: f.to.Sub(f.from),
		}
		for _, held := range f.held[len(f.held)-f.guesses:] {
			if held {
				want.Accepted++
			}
		}
		if !reflect.DeepEqual(*got[i].Pass, want) || !d.shown(got[i]).Equal(f.to) {
			return fmt.Errorf("forward call %d is reported as %+v, want %+v", i+1, *got[i].Pass, want)
		}
	}
	return nil
}

// early checks that text is sent early when enough of it is unknown to the cloud, one text at a time, not while the
// breaker is open, and that each has an event.
func (d *decoded) early() error {
	w := &sending{decoded: d, calls: d.warmed, reported: d.warmings(), free: d.began}
	if err := w.look(d.began, len(d.prompt), d.replay.moments[0].refusing, 1); err != nil {
		return err
	}
	shown := 0
	for _, m := range d.replay.moments[:len(d.replay.moments)-1] {
		for shown < len(d.tokens) && !d.shown(d.tokens[shown]).After(m.at) {
			shown++
		}
		if d.Mode == Serial && m.asked > 0 {
			continue // it waits
		}
		if err := w.look(m.at, len(d.prompt)+shown, m.open, d.Warm); err != nil {
			return err
		}
	}
	if len(w.calls) > 0 || len(w.reported) > 0 {
		return fmt.Errorf("%d extra texts are sent early, %d extra ones reported", len(w.calls), len(w.reported))
	}
	return nil
}

// sending computes which text is sent early.
type sending struct {
	*decoded
	calls    []*warmed
	reported []Event
	known    int       // tokens that the cloud has
	old      int       // of these, those before the text that was sent last
	free     time.Time // no text is in flight from then on
}

// look checks whether a text of a length is sent at a time at which it could be, if enough of it is unknown.
func (w *sending) look(at time.Time, length int, open bool, unknown int) error {
	for pos, e := range w.passed {
		if e.isAnswered() && pos < length {
			w.known = max(w.known, pos)
		}
	}
	want := w.warms && w.Warm > 0 && !at.Before(w.free) && length-w.known >= unknown && !open
	if got := len(w.calls) > 0 && w.calls[0].sent.Equal(at) && len(w.calls[0].text) == length; got != want {
		return fmt.Errorf("at %v: are %d tokens sent early, of which %d are known? %t, want %t",
			at.Sub(w.began), length, w.known, got, want)
	}
	if want {
		w.old, w.known = w.known, length
		return w.sent(w.calls[0])
	}
	return nil
}

// sent checks the next call and its event.
func (w *sending) sent(call *warmed) error {
	n := len(call.text)
	w.calls, w.free = w.calls[1:], w.replay.over.Add(1)
	if !slices.Equal(call.text, w.before(n)) {
		return fmt.Errorf("%v is sent early, want %v", call.text, w.before(n))
	}
	if len(w.reported) == 0 && w.stop == 0 {
		return errors.New("no event for text that was sent early")
	} else if len(w.reported) == 0 {
		return nil
	}
	want := Warming{
		Tokens: n, New: n - w.old, Began: call.sent.Sub(w.began), Took: call.back.Sub(call.sent),
		BytesUp: call.up, BytesDown: call.down, Err: call.err,
	}
	if got := *w.reported[0].Warming; got != want {
		return fmt.Errorf("text that is sent early is reported as %+v, want %+v", got, want)
	}
	w.free, w.reported = w.shown(w.reported[0]), w.reported[1:]
	return nil
}

func (d *decoded) warmings() (all []Event) {
	for _, e := range d.others {
		if e.Warming != nil {
			all = append(all, e)
		}
	}
	return all
}

// counted checks that the summary is the sum of the events.
func (d *decoded) counted() error {
	if d.stop > 0 {
		return nil
	}
	want := tally(slices.Concat(d.tokens, d.others))
	want.Stop = d.sum.Stop
	if fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", d.sum) {
		return fmt.Errorf("the summary is %+v, want %+v", d.sum, want)
	}
	return nil
}

// tally sums up events, with the meanings in [Summary].
func tally(events []Event) (s Summary) {
	outcomes := map[Outcome]int{}
	for _, e := range events {
		if t := e.Token; t != nil {
			s.Tokens++
			s.CommitDelay += t.CommitDelay
			s.Cloud += map[Origin]int{FromCloud: 1}[t.Origin]
			s.Timeouts += map[Origin]int{EdgeTimeout: 1}[t.Origin]
		} else if w := e.Warming; w != nil {
			s.BytesUp, s.BytesDown = s.BytesUp+w.BytesUp, s.BytesDown+w.BytesDown
			if w.BytesUp > 0 {
				s.Prefilled += w.New
				s.Warmed += map[bool]int{true: w.Tokens}[w.New == w.Tokens]
			}
		} else if p := e.Pass; p != nil {
			s.Passes, s.Proposed, s.Accepted = s.Passes+1, s.Proposed+p.Proposed, s.Accepted+p.Accepted
		} else {
			outcomes[e.Escalation.Outcome]++
			tallyEscalation(&s, e.Escalation)
		}
	}
	s.Hits, s.Answered = outcomes[Hit], outcomes[Hit]+outcomes[Miss]
	s.Late, s.Failed, s.Unasked, s.Dropped = outcomes[Late], outcomes[Failed], outcomes[Unasked], outcomes[Dropped]
	s.Escalations = s.Answered + s.Late + s.Failed + s.Unasked
	s.Asks = s.Answered + s.Late + s.Failed + s.Dropped + outcomes[Probing] + outcomes[Probed]
	return s
}

func tallyEscalation(s *Summary, q *Escalation) {
	s.BytesUp, s.BytesDown, s.Wasted = s.BytesUp+q.BytesUp, s.BytesDown+q.BytesDown, s.Wasted+q.Wasted
	s.Prefilled += q.Prefilled
	if q.Decoded {
		s.Decoded++
	}
	s.Audited, s.Missed = s.Audited+q.Audited, s.Missed+len(q.Missed)
	switch q.Outcome {
	case Hit, Miss:
		if q.Local == q.Token {
			s.Needless++
		}
		s.Wait, s.Hidden, s.Exposed = s.Wait+q.Wait, s.Hidden+q.Hidden, s.Exposed+q.Exposed
	case Late, Failed:
		s.Exposed, s.Lost = s.Exposed+q.Exposed, s.Lost+q.Exposed
	}
	if q.Outcome != Dropped {
		s.Drafted += q.Drafted
	}
	if s.Err == nil && slices.Contains([]Outcome{Late, Failed, Unasked}, q.Outcome) {
		s.Err = q.Err
	}
}

// TestSharedCloud: texts that are decoded at the same time share a cloud and a breaker. Each text is complete and
// consistent with its answers, each question is reported once, and one probe at a time is open.
func TestSharedCloud(t *testing.T) {
	batches := 4
	if testing.Short() {
		batches = 1
	}
	for _, seeds := range randomCases(t, batches, 100) {
		bubble.Test(t, func(t *testing.T) {
			for _, seed := range seeds {
				require.NoError(t, newSession(seed).together(Mode(seed%2)), "%s=%d", oneSeed, seed)
			}
		})
	}
}

// together decodes the texts concurrently.
func (s *session) together(mode Mode) error {
	cloud := s.cloud()
	s.Breaker, s.Mode = new(Breaker), mode
	all, errs := make([]*decoded, len(s.texts)), make([]error, len(s.texts))
	var done sync.WaitGroup
	for i, text := range s.texts {
		done.Go(func() {
			text.stop = 0
			time.Sleep(time.Duration(i) * text.pause / 8)
			if all[i], errs[i] = s.decode(cloud, text); errs[i] == nil {
				errs[i] = all[i].plausible(cloud)
			}
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	reported, probed := 0, time.Time{}
	for i, a := range cloud.asked {
		for _, d := range all {
			if q := d.mentions[i+1]; q != nil {
				reported++
				if q.Outcome != Probing && q.Outcome != Probed {
					continue
				}
				if a.sent.Before(probed) {
					return fmt.Errorf("question %d is a probe while another one is open", i+1)
				}
				probed = a.back
			}
		}
	}
	if reported != len(cloud.asked) || cloud.busy > 0 {
		return fmt.Errorf("of %d questions %d are reported, %d have not returned",
			len(cloud.asked), reported, cloud.busy)
	}
	return nil
}

// plausible checks what follows for a text without the results of the others.
func (d *decoded) plausible(cloud *stormy) error {
	fates := map[uint64]*Escalation{}
	for pos, e := range d.passed {
		fates[hashOf(d.before(pos))] = e
	}
	want := d.world.routed(d.prompt, d.MaxTokens, func(text uint64) (int32, error) {
		if e := fates[text]; e == nil || !e.isAnswered() {
			return 0, errFake
		}
		return d.world.answer(text)
	})
	var got shown
	for _, e := range d.tokens {
		got.collect(e)
	}
	if !slices.Equal(got.Tokens, want.Tokens) || d.sum.Stop != want.Stop || len(d.passed) != len(want.Escalated) {
		return fmt.Errorf("tokens %v, want %v", got.Tokens, want.Tokens)
	}
	for id, q := range d.mentions {
		cloud.mu.Lock()
		a := cloud.asked[id-1]
		cloud.mu.Unlock()
		err, took := a.err, a.back.Sub(a.sent)
		if q.isAnswered() && (err != nil || took >= d.Deadline || q.Wait != took) ||
			q.Outcome == Failed && (err == nil || took >= d.Deadline) ||
			d.passed[q.Pos] == q && q.Wait > d.Deadline+d.model.time(d.Rows) {
			return fmt.Errorf("%+v is reported as %+v", a, q)
		}
	}
	return d.counted()
}
