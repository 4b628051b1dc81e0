package draft

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
)

// verifier is a script whose cloud verifies, and decodes a token every step.
type verifier struct {
	script
	gap  float32 // by how much its choices are better than what stands elsewhere
	step time.Duration
	fail error                                  // of each ask
	odd  func(q Question, a Answer) Answer      // changes an answer
	next func(i int, token int32) (int32, bool) // changes a token ahead; false: there are no more

	mu    sync.Mutex
	asked []Question
	fed   int // tokens ahead that were taken
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

// slow makes the next tokens ahead take so long.
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

// decode returns the events, and the ids shown.
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

// TestVerifyAsks: who asks where, what about, and what for.
func TestVerifyAsks(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{3}}}
		events, ids, sum := v.decode(t, Options{Mode: mode, Verify: true, Margin: 1, VerifyEvery: 2, Branches: 1})
		assert.Equal(t, []int32{10, 20, 30, 40, 50, 60, 70, 80}, ids)
		var at, from []int
		for _, q := range v.asked {
			at, from = append(at, len(q.Context)), append(from, q.AuditFrom)
			assert.Equal(t, terms.EachScore, q.Verify)
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
		assert.Equal(t, 1, sum.Needless, "only the router asks needlessly")
		assert.Equal(t, 5, sum.Audited)
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.Equal(t, []int{1, 3, 4, 6, 7, 8}, []int{
			e[0].AuditedFrom, e[0].AuditedTo, e[1].AuditedFrom, e[1].AuditedTo, e[2].AuditedFrom, e[2].AuditedTo})
	})
}

// TestVerifyNothingToLookAt: a question right behind another one has nothing to verify.
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

// TestTurn: a token that the large model would not have said gives way, by the margin or not.
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
				assert.Equal(t, 1, missed, "it stands, and is counted")
				assert.Equal(t, 1, sum.Missed)
				assert.Zero(t, sum.Turned)
				continue
			}
			require.Len(t, turns, 1)
			assert.Equal(t, terms.Finding{Pos: 2, Token: 21, LogProb: -0.5, Score: -0.5, Stands: -1.5},
				turns[0].Finding)
			assert.Equal(t, int32(20), turns[0].Local)
			assert.Equal(t, 2, turns[0].Wasted, "20 and 30 were evaluated in vain")
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

// TestAhead: tokens ahead answer the escalation that follows.
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
			assert.Positive(t, e[1].Drafted, "drafting goes on meanwhile")
		}
		assert.Equal(t, []Ahead{{Pos: 2, Tokens: 3, Used: 1}}, of(events, func(e Event) *Ahead { return e.Ahead }))
	})
}

// TestAheadLongKnown: what came long before it is wanted answers at once.
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

// warmer also takes text early.
type warmer struct {
	*verifier
	warmed int
}

func (w *warmer) Warm(context.Context, []int32) (up, down int, err error) {
	w.warmed++
	return 0, 0, nil
}

// TestVerifyWarms: the prompt leaves at once also where only verification asks.
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

// TestAheadVerifies: with a margin of 0 tokens ahead verify what they agree with, and turn the first that they do not.
func TestAheadVerifies(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1}, answers: map[int]int32{3: 31}}, step: 5 * ms}
		events, ids, sum := v.decode(t, Options{Mode: mode, Verify: true, Ahead: 8, MaxTokens: 5})
		assert.Equal(t, []int32{10, 20, 31, 40, 50}, ids)
		require.Len(t, v.asked, 1, "the end was known as well")
		assert.Equal(t, 4, sum.AheadUsed)
		assert.Equal(t, 1, sum.Turned)
		turns := of(events, func(e Event) *Turn { return e.Turn })
		assert.Equal(t, terms.Finding{Pos: 3, Token: 31}, turns[0].Finding)
	})
}

// TestAheadVerified: what tokens ahead have verified is not asked about again.
func TestAheadVerified(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1}}, step: 2 * ms}
		_, _, sum := v.decode(t, Options{Mode: mode, Verify: true, Ahead: 4, MaxTokens: 12, Branches: 1})
		require.Len(t, v.asked, 2)
		assert.Equal(t, 5, v.asked[1].AuditFrom)
		assert.Equal(t, 3, sum.AheadUsed)
	})
}

// TestAheadOfTurn: behind a token that takes the place of another, the large model decodes on from there.
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
		assert.Equal(t, 1, answered, "one answer, and what followed it")
	})
}

// TestAheadTooSlow: where tokens ahead come much later than an answer would, a question is asked.
func TestAheadTooSlow(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1, 2, 6}}, step: 500 * ms}
		_, _, sum := v.decode(t, Options{Mode: mode, Ahead: 8, Branches: 1})
		assert.Len(t, v.asked, 3)
		assert.Zero(t, sum.Known)
	})
}

// TestAheadStalls: tokens ahead that do not come are waited for, but not for long.
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
		// decided after 85 ms; the last token came after 55, two more would take 10, and an answer 45
		if mode == Serial {
			e := of(events, func(e Event) *Escalation { return e.Escalation })
			assert.Equal(t, 25*ms, e[1].Held)
		}
	})
}

// TestByAhead: a token ahead that comes after all, before the answer to the question that was asked instead, is used.
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

// TestAheadStallsTwice: each question goes out when its own token should have come.
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
		assert.Equal(t, 75*ms, e[1].Held, "asked 45 ms after 60, though the other one could wait for 70")
	})
}

// TestAheadBeyond: what a stream will not bring is asked at once, also before it has begun.
func TestAheadBeyond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 5}}, step: 5 * ms}
		events, _, _ := v.decode(t, Options{Ahead: 4, Branches: 1})
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		assert.Zero(t, e[1].Held)
		assert.Equal(t, Hit, e[1].Outcome)
	})
}

// TestAheadSlowFromTheStart: how long tokens ahead take is remembered from the stream before.
func TestAheadSlowFromTheStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{1, 16, 18}}, step: 60 * ms}
		events, _, _ := v.decode(t, Options{Ahead: 12, Branches: 1, MaxTokens: 20})
		e := of(events, func(e Event) *Escalation { return e.Escalation })
		require.Len(t, e, 3)
		assert.Zero(t, e[2].Held, "its token would come 110 ms after its own answer")
	})
}

// TestAheadStallsDeadline: with a deadline, half of it is the most.
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

// TestAheadOtherWay: a stream that the text leaves ends, and nothing of it is used.
func TestAheadOtherWay(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		v := &verifier{script: script{escalate: []int{1}}, step: 5 * ms}
		v.next = func(i int, id int32) (int32, bool) { return id + int32(i), true } // its second token is another one
		began := time.Now()
		_, ids, sum := v.decode(t, Options{Mode: mode, Ahead: 64, MaxTokens: 60, Branches: 1})
		assert.Len(t, ids, 60)
		require.Len(t, v.ended, 1)
		assert.Less(t, v.ended[0].Sub(began), 120*ms)
		assert.Zero(t, sum.AheadUsed)
		assert.Equal(t, v.fed, sum.Ahead)
	})
}

// TestAheadNonsense: a token that the vocabulary does not have, or one too many, ends a stream.
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
			assert.LessOrEqual(t, sum.Ahead, 6, "those before the bad ones, and what comes during a pass")
			assert.LessOrEqual(t, v.fed, 8, "streams that go wrong are ended")
		}
	})
}

// TestAheadAfterNonsense: a gateway that goes on behind a token that there is not is not listened to.
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

// TestAheadTooMany: what was not asked for is of no use, and ends a stream.
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
		assert.Zero(t, e[1].Held, "nothing was to be expected there")
		for _, a := range of(events, func(e Event) *Ahead { return e.Ahead }) {
			assert.Equal(t, 2, a.Tokens)
		}
	})
}

// TestAheadBurst: tokens that come together are taken together, and the time between them is shared.
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
		assert.Equal(t, 1, sum.Known, "it is expected 50 ms after the burst, and not 150")
	})
}

// TestAheadPrematureEnd: where a stream ends early, what waited for it is asked.
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

// TestVerifyWithoutCloud: a cloud that does not answer costs one deadline; all is shown, and marked.
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
		assert.Equal(t, len(v.asked)-1, probes, "a probe costs as little as can be")
		assert.Positive(t, probes)
		assert.Less(t, time.Since(began), 400*ms+60*10*ms)
	})
}

// TestVerifyIncomplete: an answer that does not say of each token whether it holds is none.
func TestVerifyIncomplete(t *testing.T) {
	both(t, func(t *testing.T, mode Mode) {
		for name, odd := range map[string]func(q Question, a Answer) Answer{
			"less":    func(_ Question, a Answer) Answer { a.Audited--; return a },
			"sampled": func(q Question, a Answer) Answer { a.Sampled = q.AuditFrom; return a },
		} {
			v := &verifier{odd: odd}
			v.step = 5 * ms
			began := time.Now()
			o := Options{Mode: mode, Verify: true, MaxTokens: 4, Deadline: time.Second, Ahead: 8}
			events, ids, sum := v.decode(t, o)
			require.Len(t, v.ended, 1)
			assert.Less(t, v.ended[0].Sub(began), 100*ms, "the tokens after it are of no use")
			assert.Equal(t, []int32{10, 20, 30, 40}, ids, name)
			assert.Equal(t, 4, sum.Unverified, name)
			e := of(events, func(e Event) *Escalation { return e.Escalation })
			require.Len(t, e, 1)
			assert.ErrorIs(t, e[0].Err, ErrVerify)
			assert.Equal(t, Failed, e[0].Outcome)
		}
	})
}

// TestPreview: drafts are shown as they stand, and taken back where they turn.
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

// TestVerifyOptions: values that make no sense are refused.
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
	assert.Error(t, err, "no cloud that could verify")
	_, err = New(v, nil, v, Options{Verify: true})
	assert.NoError(t, err, "it takes no router")
}

// TestVerifyNoRouter: without a router the large model is asked for the sake of verification alone.
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
		assert.Equal(t, []int{5, 10, 10}, at, "the second one turns the token at 7")
	})
}

// TestAgrees: a stream and a place in the draft tree agree where the path there goes through the place where the stream
// begins, and on with its tokens.
func TestAgrees(t *testing.T) {
	tip := &node{pos: 3, token: 3}
	r := &run{Options: Options{Ahead: 8}, text: []int32{0, 1, 2, 3}, tip: tip}
	grow := func(n *node, tokens ...int32) *node {
		for _, token := range tokens {
			n = &node{pos: n.pos + 1, token: token, parent: n}
		}
		return n
	}
	begin := grow(tip, 4)
	behind, early := grow(begin, 5, 6), &node{pos: 1}
	for _, c := range []struct {
		name string
		s    stream
		n    *node
		want bool
	}{
		{"along its tokens", stream{at: begin, pos: 5, tokens: []int32{5, 6}}, behind, true},
		{"beyond its tokens", stream{at: begin, pos: 5, tokens: []int32{5}}, behind, true},
		{"short of its tokens", stream{at: begin, pos: 5, tokens: []int32{5, 6, 7}}, behind, true},
		{"before it has any", stream{at: begin, pos: 5}, behind, true},
		{"another last token", stream{at: begin, pos: 5, tokens: []int32{5, 7}}, behind, false},
		{"another first token", stream{at: begin, pos: 5, tokens: []int32{4, 6}}, behind, false},
		{"another branch", stream{at: grow(tip, 4), pos: 5}, behind, false},
		{"a place before it", stream{at: behind, pos: 7}, begin, false},
		{"from the tip", stream{at: tip, pos: 4, tokens: []int32{4, 5}}, behind, true},
		{"from the tip, another way", stream{at: tip, pos: 4, tokens: []int32{4, 6}}, behind, false},
		{"the tip itself", stream{at: tip, pos: 4}, tip, true},
		{"what the tip has not reached", stream{at: begin, pos: 5}, tip, false},
		{"from the text", stream{at: early, pos: 2, tokens: []int32{2, 3, 4}}, behind, true},
		{"from the text, another way before the tip",
			stream{at: early, pos: 2, tokens: []int32{2, 9, 4}}, behind, false},
		{"from the text, another way behind the tip",
			stream{at: early, pos: 2, tokens: []int32{2, 3, 9}}, behind, false},
		{"a place at the tip's position that was dropped", stream{at: &node{pos: 3}, pos: 4}, behind, false},
	} {
		assert.Equal(t, c.want, r.agrees(&c.s, c.n), c.name)
	}
}

// TestExpected: a stream brings what is behind its first token, as far as it was asked for.
func TestExpected(t *testing.T) {
	tip := &node{pos: 3}
	r := &run{Options: Options{Ahead: 3}, text: []int32{0, 1, 2, 3}, tip: tip, lately: new(Waits)}
	r.lately.pace = 7
	n := tip
	for pos := 4; pos < 8; pos++ {
		n = &node{pos: pos, parent: n}
		s := &stream{of: new(escalation), at: tip, pos: 4, live: true, last: time.Unix(0, 100)}
		e := &escalation{at: n.parent}
		e.Pos = pos
		_, may := r.expected(s, e)
		assert.Equal(t, pos == 5 || pos == 6, may,
			"position %d: the first is its answer, and it ends with two more", pos)
		s.live = false
		_, may = r.expected(s, e)
		assert.False(t, may, "it has ended")
	}
}

// TestAheadRefused: a stream after an answer that is no token ends, and is of no use.
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

// TestOfUse: what a stream brings next is of use where a path that agrees with it has no such token yet.
func TestOfUse(t *testing.T) {
	tip := &node{pos: 3, token: 3, evaluated: true}
	leaf := &node{pos: 4, token: 4, parent: tip}
	tip.children = []*node{leaf}
	r := &run{Options: Options{Ahead: 5}, text: []int32{0, 1, 2, 3}, tip: tip}
	at := func(tokens ...int32) *stream { return &stream{at: tip, pos: 4, tokens: tokens} }
	assert.True(t, r.ofUse(at(4)))
	assert.True(t, r.ofUse(at(4, 5, 6)))
	assert.False(t, r.ofUse(at(5)), "the tree goes another way")
	leaf.final = true
	assert.True(t, r.ofUse(at()), "the last token itself")
	assert.False(t, r.ofUse(at(4)), "nothing follows the last token")
	leaf.final = false
	assert.True(t, r.ofUse(&stream{at: &node{pos: -1}, pos: 0, tokens: []int32{0, 1, 2, 3}}))
	assert.False(t, r.ofUse(&stream{at: &node{pos: -2}, pos: -1, tokens: []int32{0, 1, 2, 3}}),
		"all that was asked for is shown")
}

// TestPreviewMoved: a preview of the same tokens at another place is another preview.
func TestPreviewMoved(t *testing.T) {
	var told []Preview
	next := &node{token: 7, pos: 4}
	r := &run{
		Options: Options{Preview: true}, text: []int32{7, 7, 7, 7}, viewed: Preview{Pos: 3, Tokens: []int32{7}},
		tip:  &node{pos: 3, token: 7, evaluated: true, children: []*node{next}},
		emit: func(e Event) bool { told = append(told, *e.Preview); return true },
	}
	r.preview()
	r.preview()
	assert.Equal(t, []Preview{{Pos: 4, Tokens: []int32{7}}}, told)
}

// TestLookedAt: a question is about what is not verified, and one that another answer tells is asked where there
// is such a token before it.
func TestLookedAt(t *testing.T) {
	tip := &node{pos: 3, fact: new(fact)}
	first := &node{pos: 4, parent: tip, looked: true, since: 4, fact: new(fact)}
	second := &node{pos: 5, parent: first, since: 4, fact: &fact{known: true, token: 9}, evaluated: true}
	r := &run{Options: Options{Verify: true}, tip: tip, text: []int32{0, 1, 2, 3}}
	from, _ := r.auditFrom(second)
	assert.Equal(t, 5, from)
	e := &escalation{at: second}
	second.esc = e
	r.answerKnown(e)
	assert.Equal(t, waiting, e.Outcome, "the token before is not verified")
	second.looked = true
	from, _ = r.auditFrom(second)
	assert.Zero(t, from)
}

// TestFirstToTell: the first source of a fact counts.
func TestFirstToTell(t *testing.T) {
	f, first := new(fact), new(stream)
	f.learn(7, first)
	f.learn(7, new(stream))
	f.learn(7, nil)
	assert.Same(t, first, f.from)
}

// TestIdle: what rests on an unlikely guess is asked at once where the router wants to know, unless the guess is about
// a token that only verification asks for.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		first, second Why
		guess         float64
		want          bool
	}{
		{Routed, Routed, 0.5, false},
		{Routed, LongAgo, 0.5, true},
		{Routed, EndsHere, 0.5, true},
		{LongAgo, Routed, 0.5, true},
		{Routed, LongAgo, likely, false},
		{LongAgo, Routed, likely, false},
	} {
		open := func(n *node, why Why) *escalation {
			n.esc = &escalation{at: n}
			n.esc.Why, n.esc.Outcome = why, inFlight
			return n.esc
		}
		tip := &node{pos: 3}
		guess := &node{pos: 4, parent: tip, guess: c.guess}
		r := &run{tip: tip}
		assert.False(t, r.idle(open(tip, c.first)), "it rests on no guess")
		assert.Equal(t, c.want, r.idle(open(guess, c.second)), "%+v", c)
	}
}
