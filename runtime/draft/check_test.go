package draft

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
)

// checked decodes with checks, and returns how long that took.
func checked(t *testing.T, v *verifier, cloud Cloud, o Options) (events []Event, ids []int32, took time.Duration) {
	v.slots = 1000
	o.Verify, o.Deadline, o.Lookup = true, cmp.Or(o.Deadline, -1), -1
	d, err := New(v, v, cloud, o)
	require.NoError(t, err)
	start := time.Now()
	_, err = d.Decode(t.Context(), []int32{0}, func(e Event) bool {
		events = append(events, e)
		if e.Token != nil {
			ids = append(ids, e.Token.ID)
		}
		return true
	})
	require.NoError(t, err)
	require.NoError(t, v.wrong)
	return events, ids, time.Since(start)
}

// TestStreamed: where the large model decodes faster than the small one drafts, one question streams its text, and
// nothing else is asked.
func TestStreamed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{3, 9}, answers: map[int]int32{5: 7, 12: 8}}, step: 4 * ms}
		_, ids, took := checked(t, v, v, Options{MaxTokens: 30})
		for i, id := range ids {
			assert.Equal(t, v.choice(i+1), id)
		}
		require.Len(t, v.asked, 1)
		assert.Equal(t, 63, v.asked[0].Ahead)
		assert.Equal(t, []int32{0}, v.asked[0].Context, "it leaves with the prompt")
		assert.LessOrEqual(t, took, 45*ms+29*4*ms+2*10*ms, "the answer, the tokens after it, and two forward calls")
	})
}

// TestDraftsSkip: where drafting is faster, checks let the large model skip drafted tokens, a few at a time.
func TestDraftsSkip(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{step: 40 * ms}
		events, _, took := checked(t, v, v, Options{MaxTokens: 40})
		assert.Less(t, took, 40*10*ms+3*45*ms, "about as long as drafting; its text alone takes 1605 ms")
		checks := of(events, func(e Event) *Escalation { return e.Escalation })
		checks = slices.DeleteFunc(checks, func(e Escalation) bool { return e.Outcome != Checked })
		assert.Greater(t, len(checks), 4)
		assert.Less(t, v.fed, 15, "a stream ends once another one has more")
		for i, c := range checks[1:] {
			assert.Equal(t, Early, c.Why)
			assert.Greater(t, c.Pos, checks[i].Pos, "none twice")
		}
	})
}

// TestSureDraftsWait: a small model that is sure of its tokens asks seldom. With p = 0.026 a check, which costs half a
// token, is worth it after six.
func TestSureDraftsWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{step: 40 * ms, script: script{sure: 4.3}}
		events, _, took := checked(t, v, v, Options{MaxTokens: 60, InFlight: 20})
		assert.Less(t, took, 60*10*ms+3*45*ms)
		var at []int
		for _, e := range of(events, func(e Event) *Escalation { return e.Escalation }) {
			if e.Outcome == Checked {
				at = append(at, e.Pos)
			}
		}
		require.Greater(t, len(at), 5)
		for i := range at[2 : len(at)-1] {
			assert.InDelta(t, 6, at[i+2]-at[i+1], 1, "%v", at)
		}
	})
}

// noStream answers without tokens ahead.
type noStream struct{ *verifier }

func (n noStream) Ask(ctx context.Context, q Question) (Answer, error) {
	q.Ahead = 0
	return n.verifier.Ask(ctx, q)
}

// TestCertainDrafts: a small model that is certain of every token, and has escalations, is verified all the same.
func TestCertainDrafts(t *testing.T) {
	for window := 1; window < 6; window++ {
		bubble.Test(t, func(t *testing.T) {
			v := &verifier{script: script{sure: 1000, escalate: []int{2, 3, 9}, answers: map[int]int32{5: 7, 9: 8}}}
			_, ids, _ := checked(t, v, noStream{v}, Options{MaxTokens: 20, Window: window, Branches: 3, InFlight: 3})
			for i, id := range ids {
				assert.Equal(t, v.choice(i+1), id)
			}
			assert.Len(t, ids, 20)
		})
	}
}

// TestNeverSlower: verification takes hardly longer than the large model's own text, as it is streamed, whatever is
// faster and however often drafts are wrong.
func TestNeverSlower(t *testing.T) {
	for _, step := range []time.Duration{ms, 3 * ms, 8 * ms, 12 * ms, 40 * ms, 100 * ms} {
		for _, wrong := range []float64{0, 0.1, 0.4, 1} {
			t.Run(fmt.Sprintf("%v, %v wrong", step, wrong), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(1, uint64(step)))
					v := &verifier{step: step, script: script{answers: map[int]int32{}}}
					for pos := 1; pos <= 60; pos++ {
						if r.Float64() < 0.3 {
							v.escalate = append(v.escalate, pos)
						}
						if r.Float64() < wrong {
							v.answers[pos] = int32(10*pos + 1 + r.IntN(9)) // two of nine are among the best tokens
						}
					}
					events, ids, took := checked(t, v, v, Options{MaxTokens: 60, Branches: AutoBranches, Trace: true})
					hides(t, events)
					for i, id := range ids {
						require.Equal(t, v.choice(i+1), id)
					}
					assert.LessOrEqual(t, took, 45*ms+59*step+3*10*ms)
				})
			})
		}
	}
}

// hides checks what the events of checks say of their time: hidden is what was not waited for anything.
func hides(t *testing.T, events []Event) {
	waits := of(events, func(e Event) *Waited { return e.Waited })
	for _, e := range of(events, func(e Event) *Escalation { return e.Escalation }) {
		if e.Outcome != Checked {
			continue
		}
		hidden := e.Wait
		for _, w := range waits {
			if w.Began >= e.Decided && w.Began < e.Decided+e.Wait {
				hidden -= w.Took
			}
		}
		assert.Equal(t, max(0, hidden), e.Hidden, "the check at %d", e.Pos)
	}
}

// TestNoChecksWithoutCloud: after the cloud has failed there are only probes.
func TestNoChecksWithoutCloud(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{3, 9}}, fail: errFake}
		failed := new(Breaker)
		failed.recordFailure(time.Now(), time.Now(), errFake)
		_, ids, _ := checked(t, v, v, Options{MaxTokens: 40, Deadline: 400 * ms, Breaker: failed})
		assert.Len(t, ids, 40)
		require.NotEmpty(t, v.asked)
		for _, q := range v.asked {
			assert.Zero(t, q.Ahead, "%d tokens", len(q.Context))
		}
	})
}

// firstFails fails the first question.
type firstFails struct {
	*verifier
	asks int
}

func (f *firstFails) Ask(ctx context.Context, q Question) (Answer, error) {
	if f.asks++; f.asks == 1 {
		return Answer{}, errFake
	}
	return f.verifier.Ask(ctx, q)
}

// TestCheckFails: without an answer to a check, escalations are asked as without checks, and the text is the same.
func TestCheckFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{step: 5 * ms, script: script{escalate: []int{2, 6}, answers: map[int]int32{4: 7}}}
		events, ids, _ := checked(t, v, &firstFails{verifier: v}, Options{MaxTokens: 8})
		assert.Equal(t, []int32{10, 20, 30, 7, 50, 60, 70, 80}, ids)
		asked := of(events, func(e Event) *Escalation { return e.Escalation })
		require.NotEmpty(t, asked)
		assert.Equal(t, Dropped, asked[0].Outcome)
		require.ErrorIs(t, asked[0].Err, errFake)
		for _, e := range asked[1:] {
			assert.NotEqual(t, Checked, e.Outcome)
		}
		for _, e := range of(events, func(e Event) *Token { return e.Token }) {
			assert.False(t, e.Unverified)
		}
	})
}

// silent never answers.
type silent struct{ *verifier }

func (silent) Ask(ctx context.Context, _ Question) (Answer, error) {
	<-ctx.Done()
	return Answer{}, context.Cause(ctx)
}

// TestChecksDeadline: without an answer, tokens are shown unverified in time, also where checks are to bring it.
func TestChecksDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{script: script{escalate: []int{3}}}
		events, ids, took := checked(t, v, silent{v}, Options{MaxTokens: 8, Deadline: 400 * ms})
		assert.Equal(t, []int32{10, 20, 30, 40, 50, 60, 70, 80}, ids)
		assert.LessOrEqual(t, took, 700*ms, "half a deadline, and one")
		for _, token := range of(events, func(e Event) *Token { return e.Token }) {
			assert.True(t, token.Unverified)
		}
	})
}

// fallsSilent answers the first question, and counts those that are open.
type fallsSilent struct {
	*verifier
	mu               sync.Mutex
	asks, open, most int
}

func (f *fallsSilent) Ask(ctx context.Context, q Question) (Answer, error) {
	f.mu.Lock()
	f.asks, f.open = f.asks+1, f.open+1
	f.most = max(f.most, f.open)
	first := f.asks == 1
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	}()
	if first {
		return f.verifier.Ask(ctx, q)
	}
	return silent{f.verifier}.Ask(ctx, q)
}

// TestChecksAreInFlight: checks without an answer count as open questions, for further checks and for escalations. An
// escalation that a check was to answer is asked when half of its deadline is over, or when one of them ends.
func TestChecksAreInFlight(t *testing.T) {
	for inFlight, held := range map[int]time.Duration{2: 386 * ms, 3: 386 * ms, 8: 210 * ms} {
		bubble.Test(t, func(t *testing.T) {
			v := &verifier{script: script{escalate: []int{12}}, step: 43 * ms}
			v.next = func(i int, id int32) (int32, bool) { return id, i < 2 }
			f := &fallsSilent{verifier: v}
			events, ids, _ := checked(t, v, f, Options{MaxTokens: 14, InFlight: inFlight, Deadline: 406 * ms})
			assert.Len(t, ids, 14)
			assert.LessOrEqual(t, f.most, inFlight)
			routed := slices.DeleteFunc(of(events, func(e Event) *Escalation { return e.Escalation }),
				func(e Escalation) bool { return e.Pos != 12 || e.Why != Routed })
			require.NotEmpty(t, routed)
			assert.Equal(t, Late, routed[0].Outcome)
			assert.Equal(t, held, routed[0].Held, "in flight: %d", inFlight)
		})
	}
}

// TestCovered: an escalation waits for a check or for a stream until half of its deadline, when the decoder wakes up to
// ask it; without a deadline until the check or the stream tells more.
func TestCovered(t *testing.T) {
	now := time.Unix(100, 0)
	tip := &node{pos: 3}
	e := &escalation{at: tip, wanted: now}
	e.Pos = 4
	begun := &stream{of: &escalation{sent: now, checks: true}, at: tip, pos: 4, live: true}
	for name, streams := range map[string][]*stream{"the next check": nil, "a stream": {begun}} {
		o := Options{Deadline: 60 * ms, Ahead: 8, InFlight: 2, Breaker: new(Breaker), auto: true}
		r := runOf(o, []int32{0, 1, 2, 3}, tip)
		r.streams.all, r.questions.unsent = streams, []*escalation{e}
		for after, waits := range map[time.Duration]bool{0: true, 29 * ms: true, 30 * ms: false, 90 * ms: false} {
			until, ok := r.streams.waitsForStream(e, now.Add(after), r.Deadline)
			assert.Equal(t, waits, ok, "%s after %v", name, after)
			assert.Equal(t, now.Add(30*ms), until, "%s after %v", name, after)
			if waits {
				assert.Equal(t, until, r.nextWakeup(now.Add(after)), name)
			} else {
				assert.Zero(t, r.nextWakeup(now.Add(after)), "it is asked")
			}
		}
		r.Deadline = -1
		until, ok := r.streams.waitsForStream(e, now.Add(time.Hour), r.Deadline)
		assert.True(t, ok, name)
		assert.Zero(t, until, name)
	}
}

// TestAlternatives: where the large model takes the small one's second token, that is drafted on from already.
func TestAlternatives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := &verifier{step: 60 * ms, script: script{answers: map[int]int32{6: 61, 14: 149}}}
		events, ids, took := checked(t, v, v, Options{MaxTokens: 20})
		assert.Equal(t, []int32{50, 61, 70}, ids[4:7])
		assert.EqualValues(t, 149, ids[13])
		fans := of(events, func(e Event) *Fan { return e.Fan })
		require.Len(t, fans, 1)
		assert.Equal(t, 1, fans[0].Taken, "149 is none of the best tokens")
		assert.Positive(t, fans[0].Wasted)
		v = &verifier{step: 60 * ms, script: script{answers: map[int]int32{6: 69, 14: 149}}}
		_, _, without := checked(t, v, v, Options{MaxTokens: 20})
		assert.Less(t, took, without)
	})
}

// memory is a model with room for some nodes.
type memory struct {
	Model
	room    int
	dropped []ID
}

func (m *memory) Room() int        { return m.room }
func (m *memory) Drop(nodes ...ID) { m.dropped = append(m.dropped, nodes...); m.room += len(nodes) }

// TestRoomOfAlternatives: alternatives leave room for a whole forward call. When there is no more than that, all of
// them are dropped.
func TestRoomOfAlternatives(t *testing.T) {
	o := Options{auto: true, Ahead: 8, InFlight: 2, Window: 32, MaxTokens: 100, Verify: true, Lookup: -1}
	o.End = func(int32) bool { return false }
	for _, c := range []struct{ rows, room, leaves int }{
		{8, 100, 4}, {8, 13, 4}, {8, 12, 4}, {8, 11, 3}, {8, 10, 2}, {8, 9, 1}, {8, 8, 1}, {8, 1, 1},
		{3, 100, 3}, {3, 6, 3}, {3, 5, 2}, {3, 4, 1}, {3, 3, 1}, {1, 100, 1}, {1, 1, 1},
	} {
		m := &memory{room: c.room}
		o.Rows = c.rows
		r := runOf(o, []int32{0}, nil)
		r.model, r.tree.model, r.tree.tip.others = m, m, []guess{{1, 0.3}, {2, 0.2}, {3, 0.1}}
		r.tree.addChild(r.tree.tip, 7, 1).sure = 0.4
		leaves := r.chooseLeaves()
		require.Len(t, leaves, c.leaves, "%+v", c)
		assert.EqualValues(t, 7, leaves[0].token)
		for i, n := range leaves[1:] {
			assert.EqualValues(t, i+1, n.token, "the likeliest first")
			n.evaluated, n.pass = true, &pass{live: 1}
		}
		m.room = c.rows + 1
		assert.Len(t, r.tree.tip.alts, c.leaves-1)
		r.chooseLeaves()
		assert.Empty(t, m.dropped, "%+v", c)
		m.room = c.rows
		r.chooseLeaves()
		assert.Len(t, m.dropped, c.leaves-1, "%+v", c)
		assert.Empty(t, r.tree.tip.alts)
		assert.Empty(t, r.tree.tip.others)
	}
}

// TestWide: no other set of further rows drafts more than the one that is chosen.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		curve := []float64{1}
		for len(curve) < 8 {
			curve = append(curve, curve[len(curve)-1]+r.Float64()*r.Float64()*0.5)
		}
		rows := make([]float64, 1+r.IntN(3))
		sum := 0.0
		for i := range rows {
			rows[i] = r.Float64()
			sum += rows[i]
		}
		others := make([]float64, r.IntN(8))
		for i := range others {
			others[i] = r.Float64() * r.Float64()
		}
		slices.Sort(others)
		slices.Reverse(others)
		value := func(set uint) float64 {
			p, n := sum, len(rows)
			for i, o := range others {
				if set>>i&1 == 1 {
					p, n = p+o, n+1
				}
			}
			if n > len(curve) {
				return 0
			}
			return p / curve[n-1]
		}
		best := 0.0
		for set := range uint(1) << len(others) {
			best = max(best, value(set))
		}
		n := chooseExtraRows(rows, others, curve)
		require.InEpsilon(t, best, value(1<<n-1), 1e-12, "%v %v %v", rows, others, curve)
	}
}

// TestDelay: asking when waiting has cost as much as a check does costs hardly more than the best fixed number of
// tokens.
func TestDelay(t *testing.T) {
	for _, p := range []float64{0.01, 0.03, 0.1, 0.3, 1} {
		for _, c := range []float64{0.1, 0.5, 2, 10} {
			cost := func(w float64) float64 { return p*(w+1)/2 + c/w }
			best := math.Inf(1)
			for w := 1.0; w < 1000; w++ {
				best = min(best, cost(w))
			}
			var d delay
			w := 0.0
			for ; d.lost < c; w++ {
				d.addToken(p)
			}
			assert.LessOrEqual(t, cost(w), 1.1*best, "%v %v: after %v", p, c, w)
		}
	}
}
