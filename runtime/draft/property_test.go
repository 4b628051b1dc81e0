package draft

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// schedule is one random case: a world, options, and all times.
type schedule struct {
	Options
	world  world
	seed   uint64
	slots  int // in addition to those that serial decoding needs
	delays int // kind of network
	speed  time.Duration
	dear   int // an additional row costs this share of a forward call
	rude   float64
	twice  bool // answers are delivered twice, and eager: a guess is made for every free row; see TestMistakes
	eager  bool
	warms  bool
	prompt []int32
	seen   *checks // nil: not counted
}

func newSchedule(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	of := func(n int) int { return r.IntN(n) }
	s := &schedule{seed: seed}
	s.Options = Options{
		Branches: 1 + of(4), InFlight: 1 + of(8), Window: 1 + of(64), Rows: 1 + of(11),
		Deadline: -1, MaxTokens: 1 + of(60), K: of(3),
	}
	s.world = world{
		seed: r.Uint64(), vocab: int32(fakeTop * (2 + of(20))), ends: int32(of(3)),
		share: r.Float64() * r.Float64(), agree: r.Float64(), failures: max(0, r.Float64()-0.7),
	}
	switch of(10) {
	case 0:
		s.world.share = 1
	case 1:
		s.world.share = 0
	case 2:
		s.Window = 1 + of(3)
	}
	s.slots, s.delays, s.rude = of(4)*of(20), of(5), r.Float64()*float64(of(2))
	s.speed = time.Duration(of(4)) * time.Duration(of(10)) * time.Millisecond
	s.twice = of(2) == 0
	for range 1 + of(5) {
		s.prompt = append(s.prompt, int32(of(int(s.world.vocab))))
	}
	s.Explain = seed%2 == 0
	s.Audit, s.warms, s.Warm = of(2) == 0, of(2) == 0, 1+of(20)
	s.Vocab, s.End, s.Pick = int(s.world.vocab), s.world.end, s.world.pick
	if of(4) > 0 {
		s.world.repeats = 1 - r.Float64()*r.Float64()*r.Float64()
		s.world.vocab = int32(fakeTop * (2 + of(3)))
		s.world.share *= []float64{1, 0.3, 0.1}[of(3)]
		s.Vocab, s.Lookup = int(s.world.vocab), []int{0, 0, 2 + of(7), -1}[of(4)]
	}
	s.eager = of(2) == 0
	s.dear = []int{1, 2, 16, 64}[of(4)]
	if seed%4 == 1 {
		s.Branches = AutoBranches
	}
	for range of(2) * of(40) { // the prompt is a text of the small model, including end tokens
		head := s.world.head(hashOf(s.prompt))
		s.prompt = append(s.prompt, s.world.pick(len(s.prompt), &head))
	}
	if s.world.failures == 0 && seed%3 == 0 {
		s.Deadline = 10 * time.Minute // never exceeded, and the breaker stays closed
	}
	return s
}

// delay returns a random time of answers: zero, fixed, uniform, with a long tail, or slower for earlier questions.
func (s *schedule) delay(r *rand.Rand) func() time.Duration {
	turn := 0
	return func() time.Duration {
		turn++
		switch s.delays {
		case 0:
			return 0
		case 1:
			return 100 * time.Millisecond
		case 2:
			return time.Duration(r.IntN(200)) * time.Millisecond
		case 3:
			if r.IntN(5) == 0 {
				return time.Duration(r.IntN(10)) * time.Second
			}
			return time.Duration(r.IntN(20)) * time.Millisecond
		}
		return time.Duration(200-turn*37%200) * time.Millisecond
	}
}

// fakes are the parts of one run of a schedule.
type fakes struct {
	model *fakeModel
	cloud *fakeCloud
}

func (s *schedule) fakes() *fakes {
	r := rand.New(rand.NewPCG(s.seed, 2))
	c := &fakeCloud{
		world: &s.world, most: s.InFlight, delay: s.delay(r), rude: s.rude, random: r,
		open: map[*Question]context.Context{},
	}
	m := &fakeModel{
		world: &s.world, slots: len(s.prompt) + s.MaxTokens + s.slots, most: s.Rows, calls: 1000 * (s.MaxTokens + 1),
		lookup: s.Lookup, last: len(s.prompt) + s.MaxTokens - 1,
		time: func(rows int) time.Duration { return s.speed + s.speed*time.Duration(rows)/time.Duration(s.dear) },
		window: func(pos int) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if n, oldest := c.stillOpen(); n > 0 && pos-oldest >= s.Window {
				return fmt.Errorf("position %d is drafted, %d after the oldest open question; the window is %d",
					pos, pos-oldest+1, s.Window)
			}
			return nil
		},
	}
	return &fakes{m, c}
}

// clean returns an error if a run left slots or questions, or called the model in a wrong order.
func (f *fakes) clean(sum Summary) error {
	f.cloud.mu.Lock()
	defer f.cloud.mu.Unlock()
	rejected := sum.Proposed - sum.Accepted
	switch {
	case f.model.wrong != nil:
		return f.model.wrong
	case f.cloud.wrong != nil:
		return f.cloud.wrong
	case f.model.passes != sum.Passes || f.model.guesses != sum.Proposed ||
		sum.Stop != "" && f.model.rows != f.model.kept+sum.Wasted+rejected:
		return fmt.Errorf("%d calls of %d rows, %d of them guesses, %d kept; "+
			"the events report %d calls, %d and %d wasted and %d rejected",
			f.model.passes, f.model.rows, f.model.guesses, f.model.kept,
			sum.Passes, sum.Proposed, sum.Wasted, rejected)
	case len(f.model.nodes) > 0:
		return fmt.Errorf("%d slots are still in use", len(f.model.nodes))
	case len(f.cloud.open) > 0:
		return fmt.Errorf("%d questions are still open", len(f.cloud.open))
	case f.cloud.asks != sum.Asks:
		return fmt.Errorf("%d questions were asked, the events report %d", f.cloud.asks, sum.Asks)
	}
	return nil
}

// collect adds an event to the visible result.
func (s *shown) collect(e Event) {
	if e.Token != nil {
		t := *e.Token
		if t.Reason != nil {
			if s.Reasons = append(s.Reasons, *t.Reason); t.Local != t.Reason.Local {
				panic(fmt.Sprintf("the small model's token is %d, and its decision about %d", t.Local, t.Reason.Local))
			}
		}
		t.Local, t.Asked, t.CommitDelay, t.Reason, t.LogProbs = 0, false, 0, nil, nil
		s.Tokens = append(s.Tokens, t)
	} else if q := e.Escalation; q != nil && q.Outcome != Dropped && q.Outcome != Probed && q.Outcome != Probing &&
		q.Outcome != Checked {
		s.Escalated = append(s.Escalated, q.Pos)
	}
}

// kept holds events, and what they said when they were emitted.
type kept struct {
	events []Event
	said   []string
}

// written returns all values of an event.
func written(e Event) string {
	var b strings.Builder
	add := func(v reflect.Value) {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
				fmt.Fprintf(&b, "%+v ", f.Elem().Interface())
			}
		}
	}
	add(reflect.ValueOf(e))
	if e.Token != nil {
		add(reflect.ValueOf(*e.Token))
	}
	return b.String()
}

// add keeps an event; k may be nil.
func (k *kept) add(e Event) {
	if k != nil {
		k.events, k.said = append(k.events, e), append(k.said, written(e))
	}
}

// check returns an error if an event has changed since it was emitted, or if the traced events of a whole text are
// inconsistent.
func (k *kept) check(s *schedule, sum Summary) error {
	if k == nil {
		return nil
	}
	for i, e := range k.events {
		if now := written(e); now != k.said[i] {
			return fmt.Errorf("an event was %s, and has become %s", k.said[i], now)
		}
	}
	if sum.Stop == "" {
		return nil
	}
	return k.traced(len(s.prompt), sum.Wasted)
}

// traced checks the nodes of the draft tree and the times in the events: each row has a known parent, and those that
// are dropped together are a branch. A token that replaced another has the log-probability of the finding, if known.
func (k *kept) traced(prompt, wasted int) error {
	nodes, dropped := map[ID]Drafted{0: {Pos: prompt - 1}}, map[ID]bool{}
	var turn Turn // the last one
	for i, e := range k.events {
		ends := e.At
		switch {
		case e.Prompt != nil:
			if ends = e.Prompt.Began + e.Prompt.Took; e.Prompt.Tokens != prompt {
				return fmt.Errorf("event %d: a prompt of %d tokens, not %d", i, e.Prompt.Tokens, prompt)
			}
		case e.Turn != nil:
			turn = *e.Turn
		case e.Token != nil && e.Token.Pos == turn.Pos:
			if p := float64(e.Token.LogProbs.Token); p != float64(turn.LogProb) && (turn.LogProb != 0 || p == p) {
				return fmt.Errorf("event %d: the log-probability is %v after %+v", i, p, turn)
			}
		case e.Waited != nil:
			if ends = e.Waited.Began + e.Waited.Took; e.Waited.Took <= 0 || e.Waited.Pos < prompt {
				return fmt.Errorf("event %d: %+v", i, *e.Waited)
			}
		case e.Pass != nil:
			for _, n := range e.Pass.Nodes {
				parent, known := nodes[n.Parent]
				if _, twice := nodes[n.ID]; twice || !known || dropped[n.Parent] || n.Pos != parent.Pos+1 {
					return fmt.Errorf("event %d: node %+v after %+v", i, n, parent)
				}
				nodes[n.ID] = n
			}
			if len(e.Pass.Nodes) != e.Pass.Rows {
				return fmt.Errorf("event %d: %d nodes in %d rows", i, len(e.Pass.Nodes), e.Pass.Rows)
			}
		case e.Rollback != nil:
			if err := dropBranch(nodes, dropped, *e.Rollback); err != nil {
				return fmt.Errorf("event %d: %w", i, err)
			}
		}
		if ends != e.At {
			return fmt.Errorf("event %d, at %v, reports %v as its end: %s", i, e.At, ends, k.said[i])
		}
	}
	if len(dropped) != wasted {
		return fmt.Errorf("%d nodes are dropped, and %d are wasted", len(dropped), wasted)
	}
	return nil
}

// dropBranch adds the nodes of a rollback to those dropped, and returns an error if they are not one branch.
func dropBranch(nodes map[ID]Drafted, dropped map[ID]bool, r Rollback) error {
	if r.Of != 0 && r.Of != r.Pos {
		return fmt.Errorf("%+v", r)
	}
	first := ID(0)
	for _, id := range r.Nodes {
		if nodes[id].Pos == r.Pos && first == 0 {
			first = id
		}
	}
	for _, id := range r.Nodes {
		at := id
		for nodes[at].Pos > r.Pos {
			at = nodes[at].Parent
		}
		if at != first || id == 0 || dropped[id] {
			return fmt.Errorf("node %+v of %+v", nodes[id], r)
		}
		dropped[id] = true
	}
	return nil
}

// keeps returns where the events of some of the schedules are kept, else nil.
func (s *schedule) keeps() *kept {
	if s.seed%8 == 3 {
		return new(kept)
	}
	return nil
}

// run decodes once and returns the visible result; the error includes that of clean.
func (s *schedule) run(mode Mode) (got shown, sum Summary, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Hour, errors.New("a hang"))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v %s", p, debug.Stack())
		}
	}()
	f := s.fakes()
	o, all := s.Options, s.keeps()
	if o.Mode = mode; all != nil {
		o.Trace, o.Top = true, 2
	}
	var cloud Cloud = f.cloud
	if s.warms {
		cloud = warmCloud{f.cloud}
	}
	d, err := New(f.model, &s.world, cloud, o)
	if err != nil {
		return got, sum, err
	}
	sum, err = d.Decode(ctx, s.prompt, func(e Event) bool { got.collect(e); all.add(e); return true })
	got.Stop, got.Needless, got.audit = sum.Stop, sum.Needless, auditOf(sum)
	if err == nil {
		err = errors.Join(f.clean(sum), all.check(s, sum))
	}
	for _, text := range f.cloud.warmed {
		if err == nil && !s.settled(text, got) {
			err = fmt.Errorf("%v was sent early but not settled", text)
		}
	}
	if err == nil && f.model.settled < len(s.prompt)+len(got.Tokens)-1 {
		err = fmt.Errorf("%d tokens are settled after %d and %d shown", f.model.settled, len(s.prompt), len(got.Tokens))
	}
	return got, sum, err
}

// settled reports whether text is a prefix of the prompt and the shown tokens, and longer than the previous one.
func (s *schedule) settled(text []int32, got shown) bool {
	all := slices.Clone(s.prompt)
	for _, t := range got.Tokens {
		all = append(all, t.ID)
	}
	return (len(text) == len(s.prompt) || len(text) >= len(s.prompt)+s.Warm) && len(text) <= len(all) &&
		slices.Equal(text, all[:len(text)])
}

// check compares a run with the oracle.
func (s *schedule) check(mode Mode) (Summary, error) {
	got, sum, err := s.run(mode)
	if err == nil {
		err = s.compare(mode, got, sum)
	}
	return sum, err
}

func (s *schedule) compare(mode Mode, got shown, sum Summary) error {
	want := s.world.oracle(s.prompt, s.MaxTokens)
	switch {
	case !slices.Equal(got.Tokens, want.Tokens):
		return fmt.Errorf("tokens %v, want %v", got.Tokens, want.Tokens)
	case !slices.Equal(got.Escalated, want.Escalated):
		return fmt.Errorf("escalations at %v, want %v", got.Escalated, want.Escalated)
	case s.Explain && !slices.Equal(got.Reasons, want.Reasons), !s.Explain && got.Reasons != nil:
		return fmt.Errorf("reasons %v, want %v", got.Reasons, want.Reasons)
	case got.Needless != want.Needless:
		return fmt.Errorf("%d needless escalations, want %d", got.Needless, want.Needless)
	case got.Stop != want.Stop:
		return fmt.Errorf("stopped for %q, want %q", got.Stop, want.Stop)
	case s.Audit && got.audit != want.audit:
		return fmt.Errorf("the audit is %v, want %v", got.audit, want.audit)
	case !s.Audit && got.audit != (audit{}):
		return fmt.Errorf("an audit without a request: %v", got.audit)
	case sum.Hidden > sum.Wait, mode == Serial && (sum.Drafted > 0 || sum.Hits > 0 || sum.Hidden > 0):
		return fmt.Errorf("inconsistent statistics: %+v", sum)
	}
	return nil
}

// TestPipelinedEqualsSerial checks Promise 1: with deadlines off, pipelined decoding shows the tokens, origins,
// confidences and escalations of serial decoding for any delays and limits, and leaves no slots or questions.
func TestPipelinedEqualsSerial(t *testing.T) {
	batches := 48
	if testing.Short() {
		batches = 4
	}
	var total sums
	for _, seeds := range randomCases(t, batches, 500) {
		bubble.Test(t, func(t *testing.T) {
			for _, seed := range seeds {
				s := newSchedule(seed)
				_, err := s.check(Serial)
				require.NoError(t, err, "serial, %s=%d", oneSeed, seed)
				sum, err := s.check(Pipelined)
				require.NoError(t, err, "pipelined, %s=%d: %+v", oneSeed, seed, s)
				total.add(sum)
			}
		})
	}
	t.Logf("%+v", total)
	if os.Getenv(oneSeed) != "" {
		return
	}
	assert.Positive(t, total.Hits, "the schedules must reach all paths")
	assert.Positive(t, total.Dropped)
	assert.Positive(t, total.Wasted)
	assert.Greater(t, total.Accepted, total.Proposed/20, "accepted guesses from the text")
	assert.Less(t, total.Accepted, total.Proposed*19/20, "and rejected ones")
}

// sums counts what happened in the schedules.
type sums struct {
	Tokens, Escalations, Hits, Timeouts, Dropped, Drafted, Wasted int
	Passes, Proposed, Accepted                                    int
}

func (t *sums) add(s Summary) {
	t.Tokens += s.Tokens
	t.Escalations += s.Escalations
	t.Hits += s.Hits
	t.Timeouts += s.Timeouts
	t.Dropped += s.Dropped
	t.Drafted += s.Drafted
	t.Wasted += s.Wasted
	t.Passes += s.Passes
	t.Proposed += s.Proposed
	t.Accepted += s.Accepted
}
