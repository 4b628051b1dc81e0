package draft

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// verifier is a script with a cloud that verifies, and decodes a token in every step.
type verifier struct {
	script
	gap  float32 // by how much its choices are better than other tokens
	step time.Duration
	fail error                                  // returned by each ask
	odd  func(q Question, a Answer) Answer      // changes an answer
	next func(i int, token int32) (int32, bool) // changes a token ahead; false: no more tokens

	mu    sync.Mutex
	asked []Question
	fed   int // number of tokens ahead that were received
	ended []time.Time
}

func (v *verifier) choice(pos int) int32 {
	if id, ok := v.answers[pos]; ok {
		return id
	}
	return int32(10 * pos)
}

func (v *verifier) Ask(ctx context.Context, q Question) (a Answer, err error) {
	v.mu.Lock()
	v.asked = append(v.asked, q)
	v.mu.Unlock()
	if a, err = v.script.Ask(ctx, q); err != nil || v.fail != nil {
		return Answer{}, errors.Join(err, v.fail)
	}
	for pos := q.AuditFrom; q.AuditFrom > 0 && pos < len(q.Context); pos++ {
		a.Audited++
		if id := v.choice(pos); id != q.Context[pos] {
			a.Audit = append(a.Audit, terms.Finding{Pos: pos, Token: id, LogProb: -0.5, Score: -0.5,
				Stands: -0.5 - v.gap})
		}
	}
	if v.odd != nil {
		a = v.odd(q, a)
	}
	if q.Ahead > 0 && a.Ahead == nil {
		tokens := make(chan int32)
		a.Ahead = tokens
		first := len(q.Context)
		if q.Verify == terms.EachChoice && len(a.Audit) > 0 {
			first = a.Audit[0].Pos
		}
		go v.feed(ctx, first+1, q.Ahead, tokens)
	}
	return a, nil
}

// slow makes each of the next tokens ahead take a time.
func (v *verifier) slow(step time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.step = step
}

func (v *verifier) feed(ctx context.Context, pos, most int, tokens chan<- int32) {
	defer func() {
		v.mu.Lock()
		v.ended = append(v.ended, time.Now())
		v.mu.Unlock()
		close(tokens)
	}()
	for i := range most {
		id, more := v.choice(pos+i), true
		if v.next != nil {
			id, more = v.next(i, id)
		}
		v.mu.Lock()
		step := v.step
		v.mu.Unlock()
		if !more || sleep(ctx, step) != nil {
			return
		}
		select {
		case tokens <- id:
			v.mu.Lock()
			v.fed++
			v.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// decode returns the events, and the shown ids.
func (v *verifier) decode(t *testing.T, o Options) (events []Event, ids []int32, sum Summary) {
	v.slots = 1000
	if o.MaxTokens == 0 {
		o.MaxTokens = 8
	}
	if o.Deadline == 0 {
		o.Deadline = -1
	}
	if o.Lookup = -1; o.Verify && o.VerifyEvery == 0 {
		o.VerifyEvery = 64 // no checks
	}
	d, err := New(v, v, v, o)
	require.NoError(t, err)
	sum, err = d.Decode(t.Context(), []int32{0}, func(e Event) bool {
		events = append(events, e)
		if e.Token != nil {
			ids = append(ids, e.Token.ID)
		}
		return true
	})
	require.NoError(t, err)
	require.NoError(t, v.wrong)
	return events, ids, sum
}

// of returns the events of one kind.
func of[T any](events []Event, kind func(e Event) *T) (all []T) {
	for _, e := range events {
		if x := kind(e); x != nil {
			all = append(all, *x)
		}
	}
	return all
}

func both(t *testing.T, test func(t *testing.T, mode Mode)) {
	for name, mode := range map[string]Mode{"serial": Serial, "pipelined": Pipelined} {
		t.Run(name, func(t *testing.T) { bubble.Test(t, func(t *testing.T) { test(t, mode) }) })
	}
}

// TestVerifyAsks: where router and verification ask, with which context, and why.
func TestVerifyAsks(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{3}}}
		how, judge := terms.EachScore, ""
		if mode == Serial {
			how, judge = terms.EachJudged, "j"
		}
		events, ids, sum := v.decode(t, Options{Mode: mode, Verify: true, Margin: 1, Judge: judge, VerifyEvery: 2,
			Branches: 1})
		assert.Equal(t, []int32{10, 20, 30, 40, 50, 60, 70, 80}, ids)
		var at, from []int
		for _, q := range v.asked {
			at, from = append(at, len(q.Context)), append(from, q.AuditFrom)
			assert.Equal(t, how, q.Verify)
			assert.Zero(t, q.Ahead)
			assert.Zero(t, q.Within)
		}
		assert.Equal(t, []int{3, 6, 8}, at)
		assert.Equal(t, []int{1, 4, 7}, from)
		var why []Why
		for _, e := range of(events, func(e Event) *Escalation { return e.Escalation }) {
			why = append(why, e.Why)
		}
		assert.Equal(t, []Why{Routed, LongAgo, EndsHere}, why)
		assert.Equal(t, 1, sum.Needless, "only asks of the router count as needless")
		assert.Equal(t, 5, sum.Audited)
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		for i, to := range at {
			assert.Equal(t, from[i], e[i].AuditedFrom, "escalation %d", i)
			assert.Equal(t, to, e[i].AuditedTo, "escalation %d", i)
		}
	})
}

// TestVerifyNothingToLookAt: a question directly after another one has no tokens to verify.
func TestVerifyNothingToLookAt(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 2}}}
		v.decode(t, Options{Mode: mode, Verify: true, MaxTokens: 3, Branches: 1})
		require.Len(t, v.asked, 3)
		for _, q := range v.asked {
			assert.Equal(t, terms.AsItComes, q.Verify)
			assert.Zero(t, q.AuditFrom)
		}
	})
}

// TestTurn: a token that is not the large model's choice is replaced, or kept within the margin.
func TestTurn(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		for margin, want := range map[float64][]int32{
			0: {10, 21, 30, 40}, 0.75: {10, 21, 30, 40}, 1: {10, 20, 30, 40},
		} {
			v := &verifier{script: script{answers: map[int]int32{2: 21}}, gap: 1}
			events, ids, sum := v.decode(t,
				Options{Mode: mode, Verify: true, Margin: margin, MaxTokens: 4, Branches: 1})
			assert.Equal(t, want, ids, "margin %v", margin)
			turns := of(events, func(e Event) *Turn { return e.Turn })
			missed := 0
			for _, e := range of(events, func(e Event) *Escalation { return e.Escalation }) {
				missed += len(e.Missed)
			}
			if margin == 1 {
				assert.Empty(t, turns)
				assert.Equal(t, 1, missed, "it is kept and counted")
				assert.Equal(t, 1, sum.Missed)
				assert.Zero(t, sum.Turned)
				continue
			}
			require.Len(t, turns, 1)
			assert.Equal(t, terms.Finding{Pos: 2, Token: 21, LogProb: -0.5, Score: -0.5, Stands: -1.5},
				turns[0].Finding)
			assert.Equal(t, int32(20), turns[0].Local)
			assert.Equal(t, 2, turns[0].Wasted, "the evaluation of 20 and 30 is wasted")
			assert.Equal(t, 45*ms+20*ms, turns[0].Exposed, "the answer, and two forward calls")
			assert.Equal(t, 2, sum.Wasted)
			assert.Zero(t, missed)
			tokens := of(events, func(e Event) *Token { return e.Token })
			assert.Equal(t, FromCloud, tokens[1].Origin)
			assert.Equal(t, Edge, tokens[0].Origin)
			assert.Equal(t, float32(0.25), tokens[1].Confidence)
		}
	})
}

// TestAhead: tokens ahead answer the next escalation.
func TestAhead(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 4}}, step: 5 * ms}
		events, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 4, MaxTokens: 6})
		assert.Equal(t, []int32{10, 20, 30, 40, 50, 60}, ids)
		require.Len(t, v.asked, 1)
		assert.Equal(t, 3, v.asked[0].Ahead)
		assert.Equal(t, 1, sum.Known)
		assert.Equal(t, 1, sum.Answered)
		assert.Equal(t, 2, sum.Escalations)
		assert.Equal(t, 1, sum.Asks)
		assert.Equal(t, 2, sum.Cloud)
		assert.Equal(t, 3, sum.Ahead)
		assert.Equal(t, 1, sum.AheadUsed)
		assert.Equal(t, 1, sum.Decoded)
		if mode == Pipelined {
			e := of(events, func(e Event) *Escalation { return e.Escalation })
			assert.Positive(t, e[1].Drafted, "drafting continues meanwhile")
		}
		assert.Equal(t, []Ahead{{Pos: 2, Tokens: 3, Used: 1}}, of(events, func(e Event) *Ahead { return e.Ahead }))
	})
}

// TestAheadLongKnown: a token ahead that arrived early answers at once.
func TestAheadLongKnown(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 8}}, step: ms}
		events, _, sum := v.decode(t, Options{Mode: mode, Ahead: 8, MaxTokens: 9, Branches: 1})
		assert.Len(t, v.asked, 1)
		assert.Equal(t, 1, sum.Known)
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		if mode == Serial {
			assert.Zero(t, e[1].Held)
		}
	})
}

// warmer also accepts text early.
type warmer struct {
	*verifier
	warmed int
}

func (w *warmer) Warm(context.Context, []int32) (up, down int, err error) {
	w.warmed++
	return 0, 0, nil
}

// TestVerifyWarms: the prompt is sent at once, even if only verification asks.
func TestVerifyWarms(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &warmer{verifier: &verifier{}}
		w.slots = 1000
		d, err := New(w, nil, w, Options{Verify: true, MaxTokens: 4, Deadline: -1})
		require.NoError(t, err)
		_, err = d.Decode(t.Context(), []int32{0}, func(Event) bool { return true })
		require.NoError(t, err)
		assert.Equal(t, 1, w.warmed)
	})
}

// TestAheadVerifies: with a margin of 0 tokens ahead verify equal tokens, and replace the first different one.
func TestAheadVerifies(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1}, answers: map[int]int32{3: 31}}, step: 5 * ms}
		events, ids, sum := v.decode(t, Options{Mode: mode, Verify: true, Ahead: 8, MaxTokens: 5})
		assert.Equal(t, []int32{10, 20, 31, 40, 50}, ids)
		require.Len(t, v.asked, 1, "the end token was ahead, too")
		assert.Equal(t, 4, sum.AheadUsed)
		assert.Equal(t, 1, sum.Turned)
		turns := of(events, func(e Event) *Turn { return e.Turn })
		assert.Equal(t, terms.Finding{Pos: 3, Token: 31}, turns[0].Finding)
	})
}

// TestAheadVerified: tokens that were verified by tokens ahead are not asked about again.
func TestAheadVerified(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1}}, step: 2 * ms}
		_, _, sum := v.decode(t, Options{Mode: mode, Verify: true, Ahead: 4, MaxTokens: 12, Branches: 1})
		require.Len(t, v.asked, 2)
		assert.Equal(t, 5, v.asked[1].AuditFrom)
		assert.Equal(t, 3, sum.AheadUsed)
	})
}

// TestAheadOfTurn: after a replaced token, the large model decodes ahead from there.
func TestAheadOfTurn(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{answers: map[int]int32{2: 21, 4: 41}}, step: 2 * ms}
		o := Options{Mode: mode, Verify: true, VerifyEvery: 5, Ahead: 8, MaxTokens: 9, Branches: 1}
		events, ids, sum := v.decode(t, o)
		assert.Equal(t, []int32{10, 21, 30, 41, 50, 60, 70, 80, 90}, ids)
		assert.Equal(t, 2, sum.Turned)
		assert.Equal(t, []Ahead{{Pos: 3, Tokens: 7, Used: 7}}, of(events, func(e Event) *Ahead { return e.Ahead })[:1])
		answered := 0
		for _, e := range of(events, func(e Event) *Escalation { return e.Escalation }) {
			if e.Decoded {
				answered++
			}
		}
		assert.Equal(t, 1, answered, "one answer and the tokens ahead")
	})
}

// TestAheadTooSlow: if tokens ahead arrive much later than an answer would, a question is asked.
func TestAheadTooSlow(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 2, 6}}, step: 500 * ms}
		_, _, sum := v.decode(t, Options{Mode: mode, Ahead: 8, Branches: 1})
		assert.Len(t, v.asked, 3)
		assert.Zero(t, sum.Known)
	})
}

// TestAheadStalls: the decoder waits for missing tokens ahead, but not for long.
func TestAheadStalls(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 5}}, step: 5 * ms}
		v.next = func(i int, id int32) (int32, bool) {
			if i == 2 {
				v.slow(time.Hour)
			}
			return id, true
		}
		began := time.Now()
		events, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 8, Branches: 1})
		assert.Len(t, ids, 8)
		assert.Len(t, v.asked, 2)
		assert.Zero(t, sum.Known)
		assert.Less(t, time.Since(began), 300*ms)
		// decided after 85 ms; the last token arrived after 55, two more would take 10 each, and an answer 45
		if mode == Serial {
			e := of(events, func(e Event) *Escalation { return e.Escalation })
			assert.Equal(t, 25*ms, e[1].Held)
		}
	})
}

// TestByAhead: a late token ahead that arrives before the answer to the question sent instead is used.
func TestByAhead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 5}}, step: 5 * ms}
		v.next = func(i int, id int32) (int32, bool) {
			v.slow(map[int]time.Duration{2: 70 * ms}[i] + 5*ms)
			return id, true
		}
		events, ids, sum := v.decode(t, Options{Mode: Serial, Ahead: 8, MaxTokens: 5})
		assert.Equal(t, []int32{10, 20, 30, 40, 50}, ids)
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.True(t, e[1].ByAhead)
		assert.False(t, e[0].ByAhead)
		assert.Less(t, e[1].Wait, 45*ms)
		assert.Equal(t, Miss, e[1].Outcome)
		assert.Equal(t, 2, sum.Asks)
		assert.Equal(t, 1, sum.AheadUsed)
	})
}

// TestAheadStallsTwice: each question is sent when its own token ahead is overdue.
func TestAheadStallsTwice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 4, 6}}, step: 5 * ms}
		v.next = func(i int, id int32) (int32, bool) {
			if i == 1 {
				v.slow(time.Hour)
			}
			return id, true
		}
		events, _, _ := v.decode(t, Options{Ahead: 8, Branches: 1})
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.Equal(t, 75*ms, e[1].Held, "asked 45 ms after 60, although the other one could wait for 70")
	})
}

// TestAheadBeyond: a question that a stream will not answer is sent at once, even before the stream begins.
func TestAheadBeyond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 5}}, step: 5 * ms}
		events, _, _ := v.decode(t, Options{Ahead: 4, Branches: 1})
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.Zero(t, e[1].Held)
		assert.Equal(t, Hit, e[1].Outcome)
	})
}

// TestAheadSlowFromTheStart: the time of tokens ahead is remembered from the previous stream.
func TestAheadSlowFromTheStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 16, 18}}, step: 60 * ms}
		events, _, _ := v.decode(t, Options{Ahead: 12, Branches: 1, MaxTokens: 20})
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		require.Len(t, e, 3)
		assert.Zero(t, e[2].Held, "its token would arrive 110 ms after its own answer")
	})
}

// TestAheadStallsDeadline: with a deadline, the max wait is half of it.
func TestAheadStallsDeadline(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 2}}, step: 80 * ms}
		events, _, sum := v.decode(t, Options{Mode: mode, Ahead: 8, Branches: 1, Deadline: 60 * ms})
		assert.Len(t, v.asked, 2)
		assert.Zero(t, sum.Late)
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.Equal(t, 30*ms, e[1].Held)
		assert.Equal(t, 60*ms, v.asked[0].Within)
	})
}

// TestAheadOtherWay: a stream that the text contradicts ends, and its later tokens are not used.
func TestAheadOtherWay(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1}}, step: 5 * ms}
		v.next = func(i int, id int32) (int32, bool) { return id + int32(i), true } // its second token is different
		began := time.Now()
		_, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 64, MaxTokens: 60, Branches: 1})
		assert.Len(t, ids, 60)
		require.Len(t, v.ended, 1)
		assert.Less(t, v.ended[0].Sub(began), 120*ms)
		assert.Zero(t, sum.AheadUsed)
		assert.Equal(t, v.fed, sum.Ahead)
	})
}

// TestAheadNonsense: a token outside the vocabulary, or one token too many, ends a stream.
func TestAheadNonsense(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		for _, bad := range []int32{-1, 1000, 1001} {
			v := &verifier{script: script{escalate: []int{1, 3}}, step: 5 * ms}
			v.next = func(i int, id int32) (int32, bool) {
				if i == 1 {
					return bad, true
				}
				return id, true
			}
			_, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 8, MaxTokens: 6, Vocab: 1000})
			assert.Equal(t, []int32{10, 20, 30, 40, 50, 60}, ids)
			assert.Len(t, v.asked, 2)
			assert.Zero(t, sum.Known)
			assert.LessOrEqual(t, sum.Ahead, 6, "tokens before the invalid ones, and those that arrive during a pass")
			assert.LessOrEqual(t, v.fed, 8, "invalid streams are ended")
		}
	})
}

// TestAheadAfterNonsense: tokens after an invalid token are ignored.
func TestAheadAfterNonsense(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 3}}}
		v.odd = func(q Question, a Answer) Answer {
			pos, tokens := len(q.Context), make(chan int32)
			a.Ahead = tokens
			go func() {
				defer close(tokens)
				for _, id := range []int32{v.choice(pos + 1), -1, 333, 444} {
					tokens <- id
					_ = sleep(t.Context(), 1*ms)
				}
			}()
			return a
		}
		_, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 8, MaxTokens: 6, Branches: 1})
		assert.Equal(t, []int32{10, 20, 30, 40, 50, 60}, ids)
		assert.Len(t, v.asked, 2)
		assert.Zero(t, sum.Known)
		assert.Zero(t, sum.AheadUsed)
	})
}

// TestAheadTooMany: tokens that were not requested are ignored, and end the stream.
func TestAheadTooMany(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 5}}, step: 2 * ms}
		v.odd = func(q Question, a Answer) Answer {
			tokens := make(chan int32)
			a.Ahead = tokens
			go v.feed(t.Context(), len(q.Context)+1, 5, tokens)
			return a
		}
		events, _, sum := v.decode(t, Options{Mode: Serial, Ahead: 3, MaxTokens: 7})
		assert.Zero(t, sum.Known)
		assert.Len(t, v.asked, 2)
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.Zero(t, e[1].Held, "no token was expected there")
		for _, a := range of(events, func(e Event) *Ahead { return e.Ahead }) {
			assert.Equal(t, 2, a.Tokens)
		}
	})
}

// TestAheadBurst: tokens that arrive together are processed together, and share the time since the previous one.
func TestAheadBurst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 7}}}
		v.odd = func(q Question, a Answer) Answer {
			if len(q.Context) > 1 {
				return a
			}
			tokens := make(chan int32, 8)
			a.Ahead = tokens
			go func() { // three at once after 50 ms, and the next one 40 ms later
				defer close(tokens)
				_ = sleep(t.Context(), 50*ms)
				for pos := 2; pos <= 4; pos++ {
					tokens <- v.choice(pos)
				}
				_ = sleep(t.Context(), 40*ms)
				tokens <- v.choice(5)
				tokens <- v.choice(6)
				tokens <- v.choice(7)
			}()
			return a
		}
		_, _, sum := v.decode(t, Options{Mode: Serial, Ahead: 8, MaxTokens: 8})
		assert.Equal(t, 1, sum.Known, "expected 50 ms after the burst, not 150")
	})
}

// TestAheadPrematureEnd: if a stream ends early, questions that waited for it are sent.
func TestAheadPrematureEnd(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 4}}, step: 5 * ms}
		v.next = func(i int, id int32) (int32, bool) { return id, i < 2 }
		_, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 8, MaxTokens: 6})
		assert.Len(t, ids, 6)
		assert.Len(t, v.asked, 2)
		assert.Equal(t, 2, sum.Asks)
	})
}

// TestVerifyWithoutCloud: a cloud that does not answer costs one deadline; all tokens are shown and marked.
func TestVerifyWithoutCloud(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{fail: errors.New("gone")}
		began := time.Now()
		events, ids, sum := v.decode(t, Options{
			Mode: mode, Verify: true, VerifyEvery: 3, MaxTokens: 60, Deadline: 400 * ms, Ahead: 4, Branches: 1,
		})
		assert.Len(t, ids, 60)
		assert.Equal(t, 60, sum.Unverified)
		for _, token := range of(events, func(e Event) *Token { return e.Token }) {
			assert.True(t, token.Unverified)
		}
		assert.Zero(t, sum.Audited)
		probes := 0
		for _, q := range v.asked[1:] {
			if q.Ahead == 0 && q.Verify == terms.AsItComes {
				probes++
			}
		}
		assert.Equal(t, len(v.asked)-1, probes, "a probe requests nothing else")
		assert.Positive(t, probes)
		assert.Less(t, time.Since(began), 400*ms+60*10*ms)
	})
}

// TestVerifyIncomplete: an answer without a verdict on each token is an error.
func TestVerifyIncomplete(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		for name, odd := range map[string]func(q Question, a Answer) Answer{
			"less": func(_ Question, a Answer) Answer { a.Audited--; return a },
			"more": func(_ Question, a Answer) Answer { a.Audited++; return a },
		} {
			v := &verifier{odd: odd}
			v.step = 5 * ms
			began := time.Now()
			o := Options{Mode: mode, Verify: true, MaxTokens: 4, Deadline: time.Second, Ahead: 8}
			events, ids, sum := v.decode(t, o)
			require.Len(t, v.ended, 1)
			assert.Less(t, v.ended[0].Sub(began), 100*ms, "the tokens after it are useless")
			assert.Equal(t, []int32{10, 20, 30, 40}, ids, name)
			assert.Equal(t, 4, sum.Unverified, name)
			e := of(events, func(e Event) *Escalation { return e.Escalation })
			require.Len(t, e, 1)
			assert.ErrorIs(t, e[0].Err, ErrVerify)
			assert.Equal(t, Failed, e[0].Outcome)
		}
	})
}

// TestPreview: drafts are shown as previews, and withdrawn when tokens are replaced.
func TestPreview(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{answers: map[int]int32{2: 21}}}
		events, ids, _ := v.decode(t, Options{Mode: Serial, Verify: true, Preview: true, MaxTokens: 4})
		assert.Equal(t, []int32{10, 21, 30, 40}, ids)
		assert.Equal(t, []Preview{
			{Pos: 1, Tokens: []int32{10}}, {Pos: 1, Tokens: []int32{10, 20}}, {Pos: 1, Tokens: []int32{10, 20, 30}},
			{Pos: 3, Turned: 2}, {Pos: 3, Tokens: []int32{30}},
		}, of(events, func(e Event) *Preview { return e.Preview }))
	})
	v := &verifier{}
	_, err := New(v, v, v, Options{Preview: true})
	assert.Error(t, err)
}

// TestVerifyOptions: invalid values are refused.
func TestVerifyOptions(t *testing.T) {
	v := &verifier{}
	for _, o := range []Options{
		{Margin: 1}, {VerifyEvery: 3}, {Preview: true}, {Verify: true, Margin: -1}, {Verify: true, VerifyEvery: -1},
		{Ahead: -1},
	} {
		_, err := New(v, v, v, o)
		assert.Error(t, err, "%+v", o)
	}
	_, err := New(v, nil, nil, Options{Verify: true})
	assert.Error(t, err, "no cloud to verify")
	_, err = New(v, nil, v, Options{Verify: true})
	assert.NoError(t, err, "no router is needed")
}

// turnsOnce is a dial that allows one token to be replaced.
type turnsOnce struct{}

func (turnsOnce) Margin(path uint64) float64 {
	if path > 0 {
		return math.Inf(1)
	}
	return 0.25
}

func (turnsOnce) Count(path uint64, replaced bool) uint64 {
	if replaced {
		path++
	}
	return path
}

// unable is a cloud that cannot verify.
type unable struct{ *verifier }

func (unable) CannotVerify(terms.Sampling, string) error { return errors.New("no audits") }

// able is one that can.
type able struct{ *verifier }

func (able) CannotVerify(terms.Sampling, string) error { return nil }

// TestDial: a dial bounds what verification replaces, and the router asks for nothing. With a cloud that cannot verify,
// or does not say so, the router decides.
func TestDial(t *testing.T) {
	able := func(v *verifier) Cloud { return able{v} }
	for name, c := range map[string]struct {
		cloud    func(v *verifier) Cloud
		gap      float32
		verified bool
		at3, at5 int32
	}{
		"able": {able, 0.5, true, 31, 50}, "preferred by less": {able, 0.1, true, 30, 55}, // asked for at 5
		"unable":             {func(v *verifier) Cloud { return unable{v} }, 0.5, false, 30, 55},
		"of unknown ability": {func(v *verifier) Cloud { return v }, 0.5, false, 30, 55},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, mode Mode) {
				v := &verifier{script: script{escalate: []int{5}, answers: map[int]int32{3: 31, 5: 55}}, gap: c.gap}
				v.slots = 1000
				o := Options{Mode: mode, Dial: turnsOnce{}, VerifyEvery: 4, Lookup: -1, MaxTokens: 8, Deadline: -1}
				d, err := New(v, v, c.cloud(v), o)
				require.NoError(t, err)
				var ids []int32
				_, err = d.Decode(t.Context(), []int32{0}, func(e Event) bool {
					if e.Token != nil {
						ids = append(ids, e.Token.ID)
					}
					return true
				})
				require.NoError(t, err)
				assert.Equal(t, []int32{10, 20, c.at3, 40, c.at5, 60, 70, 80}, ids)
				assert.Equal(t, c.verified, d.Verified())
			})
		})
	}
	v := &verifier{}
	_, err := New(v, v, v, Options{Dial: turnsOnce{}, Margin: 1})
	assert.Error(t, err, "a dial has the margin")
	_, err = New(v, v, nil, Options{Dial: turnsOnce{}})
	assert.Error(t, err, "no cloud to verify")
}

// TestVerifyNoRouter: without a router only verification asks the large model.
func TestVerifyNoRouter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{answers: map[int]int32{7: 71}}}
		v.slots = 1000
		d, err := New(v, nil, v, Options{
			Verify: true, VerifyEvery: 4, MaxTokens: 10, Deadline: -1, Lookup: -1, Mode: Serial,
		})
		require.NoError(t, err)
		var ids []int32
		sum, err := d.Decode(t.Context(), []int32{0}, func(e Event) bool {
			if e.Token != nil {
				ids = append(ids, e.Token.ID)
			}
			return true
		})
		require.NoError(t, err)
		assert.Equal(t, []int32{10, 20, 30, 40, 50, 60, 71, 80, 90, 100}, ids)
		assert.Equal(t, 1, sum.Turned)
		var at []int
		for _, q := range v.asked {
			at = append(at, len(q.Context))
		}
		assert.Equal(t, []int{5, 10, 10}, at, "the second one replaces the token at 7")
	})
}

// TestAgrees: a stream agrees with a place in the draft tree if the path to the place passes through the begin of the
// stream, and equals the tokens of the stream as far as both go.
func TestAgrees(t *testing.T) {
	tip := &node{pos: 3, token: 3}
	r := runOf(Options{Ahead: 8}, []int32{0, 1, 2, 3}, tip)
	grow := func(n *node, tokens ...int32) *node {
		for _, token := range tokens {
			n = &node{pos: n.pos + 1, token: token, parent: n}
		}
		return n
	}
	begin := grow(tip, 4)
	after, early := grow(begin, 5, 6), &node{pos: 1}
	for _, c := range []struct {
		name string
		s    stream
		n    *node
		want bool
	}{
		{"along its tokens", stream{at: begin, pos: 5, tokens: []int32{5, 6}}, after, true},
		{"beyond its tokens", stream{at: begin, pos: 5, tokens: []int32{5}}, after, true},
		{"short of its tokens", stream{at: begin, pos: 5, tokens: []int32{5, 6, 7}}, after, true},
		{"before it has any", stream{at: begin, pos: 5}, after, true},
		{"another last token", stream{at: begin, pos: 5, tokens: []int32{5, 7}}, after, false},
		{"another first token", stream{at: begin, pos: 5, tokens: []int32{4, 6}}, after, false},
		{"another branch", stream{at: grow(tip, 4), pos: 5}, after, false},
		{"a place before it", stream{at: after, pos: 7}, begin, false},
		{"from the tip", stream{at: tip, pos: 4, tokens: []int32{4, 5}}, after, true},
		{"from the tip, another way", stream{at: tip, pos: 4, tokens: []int32{4, 6}}, after, false},
		{"the tip itself", stream{at: tip, pos: 4}, tip, true},
		{"what the tip has not reached", stream{at: begin, pos: 5}, tip, false},
		{"from the text", stream{at: early, pos: 2, tokens: []int32{2, 3, 4}}, after, true},
		{"from the text, another way before the tip",
			stream{at: early, pos: 2, tokens: []int32{2, 9, 4}}, after, false},
		{"from the text, another way after the tip",
			stream{at: early, pos: 2, tokens: []int32{2, 3, 9}}, after, false},
		{"a place at the tip's position that was dropped", stream{at: &node{pos: 3}, pos: 4}, after, false},
	} {
		assert.Equal(t, c.want, r.tree.streamAgrees(&c.s, c.n), c.name)
	}
}

// TestExpected: a stream delivers the tokens after its first one, as far as requested.
func TestExpected(t *testing.T) {
	tip := &node{pos: 3}
	r := runOf(Options{Ahead: 3}, []int32{0, 1, 2, 3}, tip)
	r.lately.pace = 7
	n := tip
	for pos := 4; pos < 8; pos++ {
		n = &node{pos: pos, parent: n}
		s := &stream{of: new(escalation), at: tip, pos: 4, live: true, last: time.Unix(0, 100)}
		e := &escalation{at: n.parent}
		e.Pos = pos
		_, may := r.streams.answerExpectedAt(s, e)
		assert.Equal(t, pos == 5 || pos == 6, may,
			"position %d: the first token is its answer, and two more follow", pos)
		s.live = false
		_, may = r.streams.answerExpectedAt(s, e)
		assert.False(t, may, "it has ended")
	}
	s := &stream{of: new(escalation), at: tip, pos: 4, tokens: []int32{0, 7}, live: true, last: time.Unix(0, 100)}
	for token, want := range map[int32]bool{7: true, 8: false} {
		e := &escalation{at: &node{pos: 4, parent: tip, place: only{token: token}}}
		e.Pos = 5
		_, may := r.streams.answerExpectedAt(s, e)
		assert.Equal(t, want, may, "7 has arrived, and only %d may follow", token)
	}
}

// only is a place that one token may follow.
type only struct {
	Place
	token int32
}

func (o only) Allows(token int32) bool { return token == o.token }

// TestAheadRefused: a stream after an invalid answer ends and is not used.
func TestAheadRefused(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 3}}, step: 5 * ms}
		v.odd = func(q Question, a Answer) Answer {
			if len(q.Context) == 1 {
				a.Token = -1
			}
			return a
		}
		began := time.Now()
		_, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 8, MaxTokens: 6, Branches: 1})
		assert.Len(t, ids, 6)
		assert.Equal(t, 1, sum.Failed)
		assert.Len(t, v.asked, 2)
		assert.Equal(t, 45*ms, v.ended[0].Sub(began), "at once")
	})
}

// TestOfUse: the next token of a stream is useful if a path that agrees with the stream lacks it.
func TestOfUse(t *testing.T) {
	tip := &node{pos: 3, token: 3, evaluated: true}
	leaf := &node{pos: 4, token: 4, parent: tip}
	tip.children = []*node{leaf}
	r := runOf(Options{Ahead: 5}, []int32{0, 1, 2, 3}, tip)
	at := func(tokens ...int32) *stream { return &stream{at: tip, pos: 4, tokens: tokens} }
	assert.True(t, r.tree.isStreamUseful(at(4)))
	assert.True(t, r.tree.isStreamUseful(at(4, 5, 6)))
	assert.False(t, r.tree.isStreamUseful(at(5)), "the tree contradicts it")
	leaf.final = true
	assert.True(t, r.tree.isStreamUseful(at()), "the last token itself")
	assert.False(t, r.tree.isStreamUseful(at(4)), "no token after the last one")
	leaf.final = false
	assert.True(t, r.tree.isStreamUseful(&stream{at: &node{pos: -1}, pos: 0, tokens: []int32{0, 1, 2, 3}}))
	assert.False(t, r.tree.isStreamUseful(&stream{at: &node{pos: -2}, pos: -1, tokens: []int32{0, 1, 2, 3}}),
		"all its tokens are shown")
}

// TestPreviewMoved: a preview of the same tokens at another place is a new preview.
func TestPreviewMoved(t *testing.T) {
	var previews []Preview
	o := outputStream{rules: new(rules), sched: newScheduler(nil), viewed: Preview{Pos: 3, Tokens: []int32{7}}}
	o.emit = func(e Event) bool { previews = append(previews, *e.Preview); return true }
	for range 2 {
		o.emitPreview([]int32{7, 7, 7, 7}, []int32{7})
	}
	assert.Equal(t, []Preview{{Pos: 4, Tokens: []int32{7}}}, previews)
}

// TestLookedAt: a question covers the tokens that are not verified; a question that another answer resolves is still
// sent if an unverified token precedes it.
func TestLookedAt(t *testing.T) {
	tip := &node{pos: 3, fact: new(fact)}
	first := &node{pos: 4, parent: tip, looked: true, since: 4, fact: new(fact)}
	second := &node{pos: 5, parent: first, since: 4, fact: &fact{known: true, token: 9}, evaluated: true}
	r := runOf(Options{Verify: true}, []int32{0, 1, 2, 3}, tip)
	assert.Equal(t, 5, r.tree.firstUnverified(second))
	e := &escalation{at: second}
	second.esc = e
	r.answerFromFacts(e)
	assert.Equal(t, waiting, e.Outcome, "the previous token is not verified")
	second.looked = true
	assert.Zero(t, r.tree.firstUnverified(second))
}

// TestFirstToTell: the first source of a fact counts.
func TestFirstToTell(t *testing.T) {
	f, first := new(fact), new(stream)
	f.recordChoice(7, first)
	f.recordChoice(7, new(stream))
	f.recordChoice(7, nil)
	assert.Same(t, first, f.from)
}

// TestIdle: a question that depends on an unlikely guess waits for other answers if it is for verification, or if the
// guess is at the answer to such a question; and so does one that depends on an unlikely alternative.
func TestIdle(t *testing.T) {
	const alternative Why = "alternative"
	for name, c := range map[string]struct {
		first, second Why
		guess         float64
		want          bool
	}{
		"both routed":                           {Routed, Routed, 0.5, false},
		"a check":                               {Routed, LongAgo, 0.5, true},
		"a check at the end":                    {Routed, EndsHere, 0.5, true},
		"after a check":                         {LongAgo, Routed, 0.5, true},
		"a check after a likely guess":          {Routed, LongAgo, likely, false},
		"after a check with a likely guess":     {LongAgo, Routed, likely, false},
		"after an unlikely alternative":         {alternative, Routed, 0.5, true},
		"a check after an unlikely alternative": {alternative, LongAgo, 0.5, true},
		"after a likely alternative":            {alternative, Routed, likely, false},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(n *node, why Why) *escalation {
				n.esc = &escalation{at: n}
				n.esc.Why, n.esc.Outcome = why, inFlight
				return n.esc
			}
			tip := &node{pos: 3}
			guess := &node{pos: 4, parent: tip, guess: c.guess, alt: c.first == alternative}
			r := runOf(Options{}, []int32{0, 1, 2, 3}, tip)
			if !guess.alt {
				assert.False(t, r.tree.shouldDefer(open(tip, c.first)), "it does not depend on a guess")
			}
			assert.Equal(t, c.want, r.tree.shouldDefer(open(guess, c.second)))
		})
	}
}
