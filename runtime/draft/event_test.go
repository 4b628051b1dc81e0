package draft

import (
	"cmp"
	"context"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
)

const ms = time.Millisecond

// script is a small model with candidates 10p, 10p+1 and 10p+2 at position p on every path; a forward call takes 10 ms.
// Its router escalates at some positions, and its cloud takes 45 ms, including 5 ms in a queue and 20 ms of computing.
type script struct {
	fakeModel
	escalate []int
	answers  map[int]int32 // by position; otherwise the small model's
	sure     float32       // logit of the small model's token over the others; 0: 1
}

func (s *script) at(pos int) backend.Output {
	var out backend.Output
	for i := range int32(3) {
		out.Top = append(out.Top, backend.Candidate{ID: int32(10*pos) + i, Logit: -float32(i) - 1})
	}
	if s.sure > 0 {
		out.Top[0].Logit = -float32(math.Log1p(2 * math.Exp(-float64(s.sure))))
		out.Top[1].Logit, out.Top[2].Logit = out.Top[0].Logit-s.sure, out.Top[0].Logit-s.sure
	}
	return out
}

func (s *script) Prefill(_ context.Context, prompt []int32) (backend.Output, error) {
	s.settled, s.nodes = len(prompt), map[ID]Node{}
	return s.at(len(prompt)), nil
}

func (s *script) Extend(_ context.Context, nodes []Node) (out []backend.Output, err error) {
	time.Sleep(10 * ms)
	for _, n := range nodes {
		s.nodes[n.ID] = n
		out = append(out, s.at(n.Pos+1))
	}
	return out, nil
}

func (s *script) Decide(path uint64, pos int, _ *backend.Output) (float32, bool, uint64) {
	return 0.25, slices.Contains(s.escalate, pos), path
}

func (s *script) Ask(ctx context.Context, q Question) (Answer, error) {
	pos := len(q.Context)
	id, ok := s.answers[pos]
	if !ok {
		id = int32(10 * pos)
	}
	return Answer{BytesUp: 30, BytesDown: 7,
		Reply: terms.Reply{Token: id, Queue: 5 * ms, Compute: 20 * ms}}, sleep(ctx, 45*ms)
}

// TestWarmed: the prompt that is sent early counts; without a connection it is not sent.
func TestWarmed(t *testing.T) {
	var s Summary
	s.Add(Event{Warming: &Warming{Tokens: 30, New: 30}})
	assert.Zero(t, s.Warmed+s.Prefilled)
	s.Add(Event{Warming: &Warming{Tokens: 30, New: 30, BytesUp: 60}})
	s.Add(Event{Warming: &Warming{Tokens: 160, New: 130, BytesUp: 90}})
	assert.Equal(t, 30, s.Warmed)
}

// TestPlus: each figure is added to the same figure.
func TestPlus(t *testing.T) {
	counted := func(k int) (s Summary) {
		v := reflect.ValueOf(&s).Elem()
		for i := range v.NumField() {
			if v.Field(i).CanInt() {
				v.Field(i).SetInt(int64(k * (i + 1)))
			}
		}
		return s
	}
	sum := counted(1)
	sum.Plus(counted(100))
	assert.Equal(t, counted(101), sum)
}

// eventCase is a text with questions, and the escalations that its events report.
type eventCase struct {
	name     string
	o        Options
	escalate []int
	answers  map[int]int32
	want     []Escalation
}

// timedEscalations returns texts with one or two escalations; their times are computed by hand.
func timedEscalations() []eventCase {
	base := Escalation{
		Pos: 1, Confidence: 0.25, Local: 10, Wait: 45 * ms, Queue: 5 * ms, Cloud: 20 * ms, Wire: 20 * ms,
		BytesUp: 30, BytesDown: 7,
	}
	with := func(change func(e *Escalation)) Escalation {
		e := base
		change(&e)
		return e
	}
	return []eventCase{
		{"hit on the second branch: five calls for two branches each, and the answer in the middle of the last",
			Options{}, []int{1}, map[int]int32{1: 11}, []Escalation{with(func(e *Escalation) {
				e.Outcome, e.Token, e.Hidden, e.Drafted, e.Wasted = Hit, 11, 45*ms, 10, 5
			})}},
		{"miss: five calls are lost, 5 ms of the last beyond the wait", Options{},
			[]int{1}, map[int]int32{1: 12}, []Escalation{with(func(e *Escalation) {
				e.Outcome, e.Token, e.Exposed, e.Drafted, e.Wasted = Miss, 12, 50*ms, 10, 10
			})}},
		{"window: two calls, then 25 ms of waiting", Options{Window: 2, Branches: 1},
			[]int{1}, nil, []Escalation{with(func(e *Escalation) {
				e.Outcome, e.Token, e.Hidden, e.Exposed, e.Drafted = Hit, 10, 20*ms, 25*ms, 2
			})}},
		{"in flight: the second waits for the first", Options{InFlight: 1, Branches: 1, MaxTokens: 3},
			[]int{1, 3}, nil, []Escalation{
				with(func(e *Escalation) {
					e.Outcome, e.Token, e.Hidden, e.Exposed, e.Drafted = Hit, 10, 20*ms, 25*ms, 2
				}),
				with(func(e *Escalation) {
					e.Pos, e.Decided, e.Local = 3, 20*ms, 30
					e.Outcome, e.Token, e.Held, e.Exposed = Hit, 30, 25*ms, 45*ms
				}),
			}},
		{"two open: the second waits only the 20 ms that the first leaves it", Options{Branches: 1, MaxTokens: 3},
			[]int{1, 3}, nil, []Escalation{
				with(func(e *Escalation) {
					e.Outcome, e.Token, e.Hidden, e.Exposed, e.Drafted = Hit, 10, 20*ms, 25*ms, 2
				}),
				with(func(e *Escalation) {
					e.Pos, e.Decided, e.Local = 3, 20*ms, 30
					e.Outcome, e.Token, e.Hidden, e.Exposed = Hit, 30, 25*ms, 20*ms
				}),
			}},
		{"serial", Options{Mode: Serial}, []int{1}, nil, []Escalation{with(func(e *Escalation) {
			e.Outcome, e.Token, e.Exposed = Miss, 10, 45*ms
		})}},
		{"late", Options{Deadline: 32 * ms, Branches: 1}, []int{1}, nil, []Escalation{{
			Pos: 1, Confidence: 0.25, Local: 10, Outcome: Late, Err: ErrDeadline, Token: 10, Wait: 40 * ms, Drafted: 4,
			BytesUp: 30, BytesDown: 7,
		}}},
	}
}

// TestEvents checks the times of single escalations.
func TestEvents(t *testing.T) {
	for _, c := range timedEscalations() {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &script{escalate: c.escalate, answers: c.answers}
				s.slots = 1000
				if c.o.MaxTokens == 0 {
					c.o.MaxTokens = 8
				}
				d, err := New(s, s, s, c.o)
				require.NoError(t, err)
				var got []Escalation
				var total Summary
				sum, err := d.Decode(t.Context(), []int32{0}, func(e Event) bool {
					total.Add(e)
					if q := e.Escalation; q != nil {
						assert.Equal(t, q.isAnswered(), q.Decoded,
							"an answer arrived, unless the deadline was exceeded")
						q.Decoded = false
					}
					if e.Escalation != nil && e.Escalation.Outcome != Dropped {
						got = append(got, *e.Escalation)
					}
					return true
				})
				require.NoError(t, err)
				for i := range c.want {
					c.want[i].Branches = map[Mode]int{Pipelined: cmp.Or(c.o.Branches, 2)}[c.o.Mode]
				}
				assert.Equal(t, c.want, got)
				total.Stop = "length"
				assert.Equal(t, total, sum, "the summary is the sum of the events")
			})
		})
	}
}

// TestCommitDelay: tokens after an open escalation are shown when it is answered, with the time that they waited.
func TestCommitDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &script{escalate: []int{1}}
		s.slots = 1000
		d, err := New(s, s, s, Options{Branches: 1, Window: 2, MaxTokens: 4})
		require.NoError(t, err)
		var delays, at []time.Duration
		_, err = d.Decode(t.Context(), []int32{0}, func(e Event) bool {
			if e.Token != nil {
				delays, at = append(delays, e.Token.CommitDelay), append(at, e.At)
			}
			return true
		})
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{45 * ms, 35 * ms, 25 * ms, 0}, delays)
		assert.Equal(t, []time.Duration{45 * ms, 45 * ms, 45 * ms, 55 * ms}, at)
	})
}

// TestNeedless: an answer that equals the small model's token was needless; without an answer that is unknown.
func TestNeedless(t *testing.T) {
	for outcome, want := range map[Outcome]bool{
		Hit: true, Miss: true, Late: false, Failed: false, Unasked: false, Dropped: false, Probed: false,
	} {
		assert.Equal(t, want, (&Escalation{Outcome: outcome, Local: 5, Token: 5}).Needless(), outcome)
		assert.False(t, (&Escalation{Outcome: outcome, Local: 5, Token: 6}).Needless(), outcome)
	}
}

// TestSummaryByOutcome: what an escalation adds to the summary.
func TestSummaryByOutcome(t *testing.T) {
	q := Escalation{
		Wait: 1, Hidden: 2, Exposed: 4, Wasted: 3, Drafted: 5, BytesUp: 6, BytesDown: 7, Prefilled: 8, Decoded: true,
		Audited: 9, Missed: []terms.Finding{{}}, Local: 1, Token: 1, Err: errFake,
	}
	all := Summary{Wasted: 3, BytesUp: 6, BytesDown: 7, Prefilled: 8, Decoded: 1} // of each
	asked := all
	asked.Asks = 1
	passed := all // in the text
	passed.Escalations, passed.Drafted = 1, 5
	passed.Audited, passed.Missed = 9, 1
	for outcome, c := range map[Outcome]struct {
		sum Summary
		add func(s *Summary)
	}{
		Hit: {passed, func(s *Summary) {
			s.Asks, s.Answered, s.Hits, s.Needless, s.Wait, s.Hidden, s.Exposed = 1, 1, 1, 1, 1, 2, 4
		}},
		Miss: {passed, func(s *Summary) {
			s.Asks, s.Answered, s.Needless, s.Wait, s.Hidden, s.Exposed = 1, 1, 1, 1, 2, 4
		}},
		Late:    {passed, func(s *Summary) { s.Asks, s.Late, s.Exposed, s.Lost, s.Err = 1, 1, 4, 4, errFake }},
		Failed:  {passed, func(s *Summary) { s.Asks, s.Failed, s.Exposed, s.Lost, s.Err = 1, 1, 4, 4, errFake }},
		Unasked: {passed, func(s *Summary) { s.Unasked, s.Exposed, s.Lost, s.Err = 1, 4, 4, errFake }},
		Known:   {passed, func(s *Summary) { s.Known, s.Needless, s.Exposed = 1, 1, 4 }},
		Dropped: {asked, func(s *Summary) { s.Dropped = 1 }},
		Probing: {asked, func(*Summary) {}},
		Probed:  {asked, func(*Summary) {}},
		Checked: {asked, func(s *Summary) { s.Wait, s.Hidden = 1, 2 }},
	} {
		want := c.sum
		c.add(&want)
		q.Outcome = outcome
		var got Summary
		got.Add(Event{Escalation: &q})
		assert.Equal(t, want, got, outcome)
	}
	var got Summary
	got.Add(Event{Turn: &Turn{Wasted: 3, Exposed: 4}})
	got.Add(Event{Fan: &Fan{Taken: 9, Wasted: 5, Exposed: 6}})
	got.Add(Event{Ahead: &Ahead{Tokens: 7, Used: 2}})
	got.Add(Event{Pass: &Pass{Rows: 8, Proposed: 3, Accepted: 2, Drafts: 4, DraftsAccepted: 1}})
	got.Add(Event{Pass: &Pass{Rows: 1}})
	got.Add(Event{Warming: &Warming{Tokens: 9, New: 9, BytesUp: 0, BytesDown: 1}})
	got.Add(Event{Warming: &Warming{Tokens: 9, New: 9, BytesUp: 20}})
	got.Add(Event{Warming: &Warming{Tokens: 12, New: 3, BytesUp: 10}})
	assert.Equal(t, Summary{
		Turned: 1, Wasted: 8, Exposed: 10, Ahead: 7, AheadUsed: 2, Passes: 2, Proposed: 3, Accepted: 2, Drafts: 4,
		DraftsAccepted: 1, DraftPasses: 1, BytesUp: 30, BytesDown: 1, Prefilled: 12, Warmed: 9,
	}, got)
}
