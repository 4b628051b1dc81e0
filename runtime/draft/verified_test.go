package draft

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// gap returns by how much the large model's choice after a text is better than another token, in nats.
func (w *world) gap(text uint64, token int32) float32 {
	return float32(3 * share(mix(mix(text, uint64(token)), w.seed+70)))
}

// gauge is a dial: its margins and states are hashes of the path.
type gauge uint64

func (g gauge) Margin(path uint64) float64 {
	return []float64{0, 1, 2, math.Inf(1), math.Inf(1)}[mix(path, uint64(g))%5]
}

func (g gauge) Count(path uint64, replaced bool) uint64 {
	if replaced {
		return mix(path, 1)
	}
	return mix(path, 0)
}

// small holds the outputs of the small model and the router after a text.
type small struct {
	token    int32
	c        float32
	escalate bool
	why      Reason
	next     uint64
}

func (w *world) small(text, path uint64, pos int) (s small) {
	head := w.head(text)
	s.token = w.local(text, pos, &head)
	s.why.Local = s.token
	s.why.Margin, s.why.Entropy, s.why.Threshold = w.Explain(path, pos, &head)
	s.c, s.escalate, s.next = w.Decide(path, pos, &head)
	return s
}

// verified returns the result of verified decoding by its definition, without code of this package.
func (w *world) verified(prompt []int32, most int, o Options) shown {
	v := &verifying{world: w, most: most, o: o, start: len(prompt), since: len(prompt)}
	v.texts, v.paths = []uint64{hashOf(prompt)}, []uint64{0}
	for v.Stop == "" {
		v.step()
	}
	return v.shown
}

// verifying is the state of a text during verification.
type verifying struct {
	*world
	shown
	most, start, since int
	o                  Options
	texts, paths       []uint64 // before each token
	pending            audit    // of verified tokens that no escalation has reported yet
	asked              bool     // the next token was asked for
}

// step adds a token, or replaces one.
func (v *verifying) step() {
	i := len(v.Tokens)
	pos, text := v.start+i, v.texts[i]
	s := v.at(i)
	t := Token{Pos: pos, ID: s.token, Origin: Edge, Confidence: s.c}
	last := v.end(s.token) || i+1 == v.most
	if !s.escalate && !last && pos-v.since < v.o.VerifyEvery {
		v.add(t, s)
		return
	}
	id, err := v.answer(text)
	if err != nil {
		for j := v.since - v.start; j < i; j++ {
			v.Tokens[j].Unverified = true
		}
		t.Origin, t.Unverified = EdgeTimeout, true
		v.since = pos + 1
		v.Escalated = append(v.Escalated, pos)
		v.add(t, s)
		return
	}
	for j := v.since - v.start; j < i; j++ {
		if choice, _ := v.answer(v.texts[j]); v.turns(j, choice) {
			v.turn(j, choice)
			return
		}
	}
	v.look(i)
	v.Audited, v.Missed = v.Audited+v.pending.Audited, v.Missed+v.pending.Missed
	v.pending = audit{}
	v.Escalated, v.since, v.asked = append(v.Escalated, pos), pos+1, true
	if v.allowed(text, id) && (id == t.ID || !math.IsInf(v.margin(i), 1)) {
		if s.escalate && id == t.ID {
			v.Needless++
		}
		if s.escalate || id != t.ID {
			t.ID, t.Origin = id, FromCloud
		}
	}
	v.add(t, s)
}

// turns reports whether the large model's choice takes the place of the token at j.
func (v *verifying) turns(j int, choice int32) bool {
	text, token, margin := v.texts[j], v.Tokens[j].ID, v.margin(j)
	return choice != token && v.allowed(text, choice) && (margin == 0 || float64(v.gap(text, token)) > margin)
}

func (v *verifying) margin(j int) float64 {
	if v.o.Dial == nil {
		return v.o.Margin
	}
	return v.o.Dial.Margin(v.paths[j])
}

// at is small for the token at i. With a dial the router asks for nothing.
func (v *verifying) at(i int) small {
	s := v.small(v.texts[i], v.paths[i], v.start+i)
	if v.o.Dial != nil {
		s.escalate, s.why.Threshold = false, 0
	}
	return s
}

// look counts the small model's tokens from since to position i.
func (v *verifying) look(i int) {
	for j := v.since - v.start; j < i; j++ {
		v.pending.Audited++
		if choice, _ := v.answer(v.texts[j]); choice != v.Tokens[j].ID {
			v.pending.Missed++
		}
	}
}

// turn replaces the token at j by the large model's choice.
func (v *verifying) turn(j int, choice int32) {
	v.look(j)
	v.Turned = append(v.Turned, v.start+j)
	t := v.Tokens[j]
	s := v.at(j)
	v.Tokens, v.Reasons = v.Tokens[:j], v.Reasons[:j]
	v.texts, v.paths = v.texts[:j+1], v.paths[:j+1]
	t.ID, t.Origin, v.since = choice, FromCloud, t.Pos+1
	v.add(t, s)
}

func (v *verifying) add(t Token, s small) {
	t.End = v.end(t.ID)
	if v.o.Dial != nil {
		s.next = v.o.Dial.Count(v.paths[len(v.paths)-1], t.ID != s.token)
	}
	v.Tokens, v.Reasons = append(v.Tokens, t), append(v.Reasons, s.why)
	v.texts, v.paths = append(v.texts, then(v.texts[len(v.texts)-1], t.ID)), append(v.paths, s.next)
	sure := t.Origin != Edge || v.asked // a small model's token that would end the text is verified
	v.asked = false
	switch {
	case t.End && sure:
		v.Stop = "end"
	case len(v.Tokens) == v.most && sure:
		v.Stop = "length"
	}
}

// newVerified returns a schedule with verification, answers ahead, or both.
func newVerified(seed uint64) *schedule {
	s := newSchedule(seed)
	r := rand.New(rand.NewPCG(seed, 6))
	s.Audit = s.Audit && r.IntN(2) == 0
	if s.Verify = r.IntN(5) > 0; s.Verify {
		if s.Margin = []float64{0, 0, 0, 0.5, 1.5, 2.5, -1}[r.IntN(7)]; s.Margin < 0 {
			s.Margin, s.Dial = 0, gauge(seed)
		}
		s.VerifyEvery = 1 + r.IntN(1+r.IntN(40))
		s.Preview = r.IntN(3) == 0
		s.Audit = false
	}
	if !s.Verify || r.IntN(2) == 0 {
		s.Ahead = 2 + r.IntN(12)
		s.world.failures = 0 // which questions fail would depend on which are asked
	}
	if r.IntN(2) == 0 {
		s.world.agree = 1 - r.Float64()*r.Float64()*r.Float64()
		s.world.ranks = []float64{s.world.agree * s.world.agree, s.world.agree}
	}
	if r.IntN(2) == 0 {
		s.world.share *= r.Float64()
	}
	if s.Verify && r.IntN(2) == 0 { // checks
		s.MaxTokens = 1 + r.IntN(1+r.IntN(150)) // also beyond the tokens that need no question
		s.VerifyEvery, s.Ahead, s.world.failures = 0, []int{0, 2 + r.IntN(12)}[r.IntN(2)], 0
	}
	if s.Verify && s.world.failures == 0 && r.IntN(3) == 0 {
		s.CheckEvery = 1 + r.IntN(10)
	}
	return s
}

// streamCloud is a cloud that decodes ahead.
type streamCloud struct {
	*fakeCloud
	running int
}

// CannotVerify implements [Verifier].
func (c *streamCloud) CannotVerify(terms.Sampling, string) error { return nil }

// Ask checks the question, and sends tokens ahead after the answer. It sometimes stops early, like a cloud under load.
func (c *streamCloud) Ask(ctx context.Context, q Question) (Answer, error) {
	a, err := c.fakeCloud.Ask(ctx, q)
	if err != nil || q.Ahead == 0 || len(q.Context)%11 == 0 {
		return a, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	most, rude := q.Ahead, c.random.IntN(3) == 0
	if c.random.IntN(3) == 0 {
		most = c.random.IntN(most + 1)
	}
	tokens := make(chan int32, c.random.IntN(2)*q.Ahead)
	a.Ahead = tokens
	go c.feed(ctx, c.onward(q, a), tokens, most, rude)
	return a, nil
}

// onward returns the text before the tokens ahead: after the answer, or after the first token that it replaces.
func (w *world) onward(q Question, a Answer) uint64 {
	text := hashOf(q.Context[:max(q.AuditFrom, 1)])
	for pos := q.AuditFrom; q.Verify == terms.EachChoice && pos < len(q.Context); pos++ {
		if choice, _ := w.answer(text); choice != q.Context[pos] {
			return then(text, choice)
		}
		text = then(text, q.Context[pos])
	}
	return then(hashOf(q.Context), a.Token)
}

func (c *streamCloud) feed(ctx context.Context, text uint64, tokens chan<- int32, most int, rude bool) {
	defer close(tokens)
	for range most {
		c.mu.Lock()
		wait := c.delay() / 8
		c.mu.Unlock()
		if sleep(ctx, wait) != nil && !rude {
			break
		}
		t, _ := c.answer(text)
		select {
		case tokens <- t:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		text = then(text, t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// runVerified is run for these schedules. It ends after a number of events; 0: never.
func (s *schedule) runVerified(mode Mode, stop int) (got shown, sum Summary, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Hour, errors.New("a hang"))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v %s", p, debug.Stack())
		}
	}()
	f := s.fakes()
	far := &streamCloud{fakeCloud: f.cloud}
	o, all := s.Options, s.keeps()
	if o.Mode = mode; all != nil {
		o.Trace, o.Top = true, 2
	}
	f.model.lookup = max(0, f.model.lookup) // known tokens are evaluated together in any case
	if s.Verify && s.VerifyEvery == 0 {
		f.model.window = nil // a check is no reason to wait
	}
	d, err := New(f.model, &s.world, far, o)
	if err != nil {
		return got, sum, err
	}
	screen := &screen{prompt: len(s.prompt)}
	sum, err = d.Decode(ctx, s.prompt, func(e Event) bool {
		got.collect(e)
		all.add(e)
		err := screen.take(e)
		s.seen.add(e)
		f.model.wrong = errors.Join(f.model.wrong, err)
		stop--
		return stop != 0
	})
	got.Stop, got.Needless, got.audit = sum.Stop, sum.Needless, auditOf(sum)
	// an escalation that tokens ahead answered while its ask was in flight is reported when the ask returns
	slices.Sort(got.Escalated)
	if err == nil {
		err = errors.Join(f.clean(sum), all.check(s, sum))
	}
	if err == nil && stop < 0 {
		err = screen.over(sum, s.Options)
	}
	if err == nil && far.running > 0 {
		err = fmt.Errorf("%d streams are still open", far.running)
	}
	return got, sum, err
}

// screen collects what is shown, with previews.
type screen struct {
	prompt  int
	sure    []int32
	preview []int32
	sum     Summary // by previews, turns, tokens ahead
}

// take checks an event against the state.
func (s *screen) take(e Event) error {
	s.sum.Add(e)
	switch {
	case e.Token != nil:
		if e.Token.Pos != s.prompt+len(s.sure) {
			return fmt.Errorf("the token at %d follows %d tokens", e.Token.Pos, s.prompt+len(s.sure))
		}
		s.sure = append(s.sure, e.Token.ID)
		if len(s.preview) > 0 && s.preview[0] == e.Token.ID {
			s.preview = s.preview[1:]
		}
	case e.Preview != nil:
		if e.Preview.Pos != s.prompt+len(s.sure) {
			return fmt.Errorf("the preview at %d follows %d tokens", e.Preview.Pos, s.prompt+len(s.sure))
		}
		s.preview = e.Preview.Tokens
	case e.Ahead != nil && (e.Ahead.Used > e.Ahead.Tokens || e.Ahead.Tokens < 1):
		return fmt.Errorf("inconsistent tokens ahead: %+v", *e.Ahead)
	case e.Turn != nil && (e.Turn.Token == e.Turn.Local || e.Turn.Pos != s.prompt+len(s.sure)):
		return fmt.Errorf("inconsistent turn after %d: %+v", s.prompt+len(s.sure), *e.Turn)
	}
	return nil
}

// over checks the end.
func (s *screen) over(sum Summary, o Options) error {
	s.sum.Stop = sum.Stop
	if fmt.Sprint(s.sum) != fmt.Sprint(sum) {
		return fmt.Errorf("the summary is %+v, want %+v", sum, s.sum)
	}
	if o.Ahead <= 1 && !o.withDefaults().auto && sum.Ahead+sum.AheadUsed > 0 {
		return fmt.Errorf("tokens ahead without a request: %+v", sum)
	}
	if sum.Known > sum.AheadUsed && !o.Verify {
		return fmt.Errorf("%d escalations are answered by %d tokens ahead", sum.Known, sum.AheadUsed)
	}
	return nil
}

func (s *schedule) checkVerified(mode Mode) (Summary, error) {
	got, sum, err := s.runVerified(mode, 0)
	if err != nil {
		return sum, err
	}
	if !s.Verify {
		want, edge := s.world.oracle(s.prompt, s.MaxTokens), 0
		for _, t := range want.Tokens {
			if t.Origin == Edge {
				edge++
			}
		}
		if got.Audited > edge || got.Missed > got.Audited {
			return sum, fmt.Errorf("an audit of %v, with %d tokens of the small model", got.audit, edge)
		}
		if got.audit = (audit{}); s.Audit { // an escalation that tokens ahead answer has none, and others have more
			got.audit = want.audit
		}
		return sum, s.compare(mode, got, sum)
	}
	o := s.Options
	if o.VerifyEvery == 0 {
		o.VerifyEvery = 64
	}
	want := s.world.verified(s.prompt, s.MaxTokens, o)
	turned := len(want.Turned)
	want.Turned = nil
	if !s.Explain {
		want.Reasons = nil
	}
	if fmt.Sprintf("%+v", want) != fmt.Sprintf("%+v", got) {
		return sum, fmt.Errorf("\ngot  %+v\nwant %+v", got, want)
	}
	if sum.Turned != turned {
		return sum, fmt.Errorf("%d tokens replaced, want %d", sum.Turned, turned)
	}
	if s.Margin == 0 && s.Dial == nil && s.world.failures == 0 && s.world.masked == 0 {
		for i, text := 0, hashOf(s.prompt); i < len(got.Tokens); i++ {
			choice, _ := s.world.answer(text)
			if got.Tokens[i].ID != choice {
				return sum, fmt.Errorf("token %d is not from the large model", i)
			}
			text = then(text, choice)
		}
	}
	return sum, nil
}

// TestVerifiedEqualsSerial checks Promise 1 with verification and answers ahead: for any margin, delays, limits and
// tokens ahead, pipelined decoding shows the result of serial decoding by its definition. With a margin of 0 that is
// the large model's own text.
func TestVerifiedEqualsSerial(t *testing.T) {
	batches, cases := 48, 500
	if testing.Short() {
		batches, cases = 2, 100
	}
	var total verifiedSums
	for _, seeds := range randomCases(t, batches, cases) {
		bubble.Test(t, func(t *testing.T) {
			for _, seed := range seeds {
				s := newVerified(seed)
				s.seen = &total.checks
				for _, mode := range []Mode{Serial, Pipelined} {
					sum, err := s.checkVerified(mode)
					require.NoError(t, err, "mode %d, %s=%d: %+v", mode, oneSeed, seed, s)
					total.add(sum)
					stop := 1 + int(mix(seed, 9)%40)
					_, _, err = s.runVerified(mode, stop)
					require.NoError(t, err,
						"mode %d, stopped after %d events, %s=%d: %+v", mode, stop, oneSeed, seed, s)
				}
			}
		})
	}
	t.Logf("%+v", total)
	if os.Getenv(oneSeed) != "" {
		return
	}
	assert.Positive(t, total.Turned, "the schedules must reach all paths")
	assert.Positive(t, total.Known)
	assert.Positive(t, total.Unverified)
	assert.Positive(t, total.Audited)
	assert.Positive(t, total.Missed)
	assert.Positive(t, total.checks.answered)
	assert.Positive(t, total.checks.taken)
	assert.Greater(t, total.AheadUsed, total.Ahead/20, "tokens ahead that are of use")
	assert.Less(t, total.AheadUsed, total.Ahead*19/20, "and some that are not")
}

// verifiedSums counts what happened in the schedules.
type verifiedSums struct {
	sums
	Turned, Known, Unverified, Ahead, AheadUsed, Audited, Missed, Asks int
	checks                                                             checks
}

// checks are what was seen of checks and alternatives.
type checks struct{ answered, taken int }

func (c *checks) add(e Event) {
	if c == nil {
		return
	}
	if q := e.Escalation; q != nil && q.Outcome == Checked {
		c.answered++
	}
	if f := e.Fan; f != nil {
		c.taken += f.Taken
	}
}

func (t *verifiedSums) add(s Summary) {
	t.sums.add(s)
	t.Turned += s.Turned
	t.Known += s.Known
	t.Unverified += s.Unverified
	t.Ahead += s.Ahead
	t.AheadUsed += s.AheadUsed
	t.Audited += s.Audited
	t.Missed += s.Missed
	t.Asks += s.Asks
}
