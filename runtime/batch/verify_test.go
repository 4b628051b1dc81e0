package batch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/gguf"
	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/backend"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
	"github.com/pilotfish-ai/pilotfish/runtime/sample"
	"github.com/pilotfish-ai/pilotfish/runtime/transformer"
)

// verdicts returns the finding at each position of a question, from a separate evaluation with all logits.
func verdicts(t testing.TB, m *transformer.Model, q terms.Job) (all []terms.Finding) {
	t.Helper()
	c, err := m.NewCache(len(q.Context), gguf.F16)
	require.NoError(t, err)
	rows, err := c.Extend(q.Context)
	require.NoError(t, err)
	want := backend.Want{K: 256, Logits: true, Hidden: true}
	for i := range rows {
		want.Rows = append(want.Rows, i)
	}
	out := make([]backend.Output, len(rows))
	require.NoError(t, m.Forward(t.Context(), c.KV(), rows, out, want))
	s, err := sample.New(q.Sampling)
	require.NoError(t, err)
	for pos := q.AuditFrom; pos < len(rows); pos++ {
		head := &out[pos-1]
		d := terms.Finding{Pos: pos}
		if d.Token, d.Score, d.Stands = s.Choose(pos, head, q.Context[pos]); d.Token == q.Context[pos] {
			continue
		}
		d.LogProb = head.Logits[d.Token] - head.LogSumExp
		switch q.Verify {
		case terms.EachChoice:
			d.Score, d.Stands = 0, 0
		case terms.EachJudged:
			judged(&d, q.Context[pos], head, &out[pos])
		}
		all = append(all, d)
	}
	return all
}

// TestVerdicts: whatever else is asked before or at the same time, with any memory and size of steps, the verdict on a
// position equals the answer to a question for this position alone, and its scores are those of the model's logits, to
// the last bit.
func TestVerdicts(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for name, family := range families {
		t.Run(name, func(t *testing.T) { checkVerdicts(t, rounds, forgetful{modelOf(t, family)}, modelOf(t, family)) })
	}
}

func checkVerdicts(t *testing.T, rounds int, m forgetful, alone *transformer.Model) {
	t.Helper()
	differ, checked := 0, 0
	for _, slots := range []int{40, 64, 500} {
		for _, rows := range []int{3, 16, 50, 128} {
			s := start(t, m, slots, batch.Options{Rows: rows, Context: 40})
			single := start(t, alone, 40, batch.Options{Lookup: -1})
			r := rand.New(rand.NewPCG(uint64(slots), uint64(rows)))
			var before [][]int32
			for range rounds {
				questions := make([]terms.Job, 1+r.IntN(6))
				for i := range questions {
					questions[i] = anyVerified(r, before, 40, 512)
					before = append(before, questions[i].Context)
				}
				askAll(t, s, questions, r.IntN(3) == 0, func(q terms.Job, a batch.Answer) {
					if q.Verify == terms.AsItComes {
						right(t, reference(t, alone, q), a, q, false)
						return
					}
					require.Equal(t, len(q.Context)-q.AuditFrom, a.Audited)
					require.Equal(t, verdicts(t, alone, q), a.Audit, "%+v", q)
					differ += len(a.Audit)
					if pos := q.AuditFrom + r.IntN(len(q.Context)-q.AuditFrom+1); pos < len(q.Context) {
						plain := terms.Job{
							Session:  r.Uint64(),
							Question: terms.Question{Context: q.Context[:pos], K: 1, Sampling: q.Sampling},
						}
						b, err := single.Ask(t.Context(), plain)
						require.NoError(t, err)
						require.Equal(t, b.Token, chosen(q, a, pos), "%+v at %d", q, pos)
						checked++
					}
				})
			}
			s.Close()
			single.Close()
		}
	}
	assert.Positive(t, differ)
	assert.Positive(t, checked)
}

// chosen returns the model's choice at a position, according to the answer to q.
func chosen(q terms.Job, a batch.Answer, pos int) int32 {
	for _, d := range a.Audit {
		if d.Pos == pos {
			return d.Token
		}
	}
	return q.Context[pos]
}

// TestVerifyOwn: tokens of a session that were computed without heads are computed again only if their head is wanted
// and not kept.
func TestVerifyOwn(t *testing.T) {
	drawn := terms.Sampling{Temperature: 0.8, Seed: 4}
	for name, c := range map[string]struct {
		sampling     terms.Sampling
		verify       terms.Verify
		first, again []made
	}{
		"choices":       {terms.Sampling{}, terms.EachChoice, []made{{7, 7, 1, false}}, nil},
		"scores":        {terms.Sampling{}, terms.EachScore, []made{{7, 7, 1, true}}, []made{{7, 7, 1, true}}},
		"drawn":         {drawn, terms.EachChoice, []made{{8, 8, 1, true}}, []made{{8, 8, 1, true}}},
		"drawn, scores": {drawn, terms.EachScore, []made{{8, 8, 1, true}}, []made{{8, 8, 1, true}}},
		"drawn from 40": {terms.Sampling{Temperature: 0.8, TopK: 40}, terms.EachScore, []made{{8, 8, 40, false}},
			nil},
		"drawn from four": {terms.Sampling{Temperature: 0.8, TopK: 4}, terms.EachChoice, []made{{8, 8, 4, false}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 100, batch.Options{}, func(c2 *crowd, m *counter) {
				c2.mustAsk(terms.Job{Session: 1, Question: terms.Question{Context: text(1, 20), K: 1}})
				q := terms.Job{Session: 1,
					Question: terms.Question{Context: text(1, 20), K: 1, AuditFrom: 13, Verify: c.verify,
						Sampling: c.sampling}}
				for i, calls := range [][]made{c.first, c.again} {
					m.calls = nil
					a := c2.mustAsk(q)
					require.Equal(t, m.answer(t, q), plain(a))
					require.Equal(t, calls, m.calls, "question %d", i)
					rows := 0
					for _, call := range calls {
						rows += call.rows
					}
					assert.Equal(t, 20, a.Reused)
					assert.Equal(t, rows, a.Computed)
				}
				assert.EqualValues(t, m.rows-20, c2.stats().Repeated)
				assert.Equal(t, 20, c2.stats().InUse)
			})
		})
	}
}

// TestVerifyParts: positions with costly heads are verified in parts, each in one call, with max as many heads as a
// step allows; each row is computed once.
func TestVerifyParts(t *testing.T) {
	for name, c := range map[string]struct {
		sampling terms.Sampling
		k        int
		calls    []made
	}{
		"all logits": {terms.Sampling{Temperature: 0.8}, 1, []made{
			{39 + 32, 32, 1, true}, {32, 32, 1, true}, {17, 17, 1, true},
		}},
		"40 candidates": {terms.Sampling{Temperature: 0.8, TopK: 40}, 1, []made{
			{39 + 25, 25, 40, false}, {25, 25, 40, false}, {25, 25, 40, false}, {6, 6, 40, false},
		}},
		"for many at last": {terms.Sampling{Temperature: 0.8}, 256, []made{{39 + 4, 4, 1, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 300, batch.Options{}, func(crowd *crowd, m *counter) {
				m.vocab = 300
				q := terms.Job{Session: 1,
					Question: terms.Question{Context: text(1, 120), K: c.k, AuditFrom: 40, Verify: terms.EachChoice,
						Sampling: c.sampling}}
				a := crowd.mustAsk(q)
				require.Equal(t, m.answer(t, q), plain(a))
				assert.Equal(t, c.calls, m.calls[:len(c.calls)])
				assert.Equal(t, 120, m.rows)
				assert.Equal(t, 120, a.Computed)
				assert.Zero(t, a.Reused)
				assert.Equal(t, time.Duration(120)*tick, a.Queue+a.Compute)
				for _, call := range m.calls {
					assert.LessOrEqual(t, call.heads*call.depth(), 8*128, "%+v", call)
				}
			})
		})
	}
}

// TestVerifyQueue: the queue time of a question in parts ends with its first step; the rest counts as computing.
func TestVerifyQueue(t *testing.T) {
	inBubble(t, 300, batch.Options{}, func(c *crowd, m *counter) {
		busy := terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(2, 30), K: 1}}
		c.ask(busy, func(batch.Answer, time.Duration, error) {})
		time.Sleep(10 * tick)
		q := terms.Job{Session: 1, Device: 1,
			Question: terms.Question{Context: text(1, 80), K: 1, AuditFrom: 1, Verify: terms.EachScore}}
		c.ask(q, func(a batch.Answer, took time.Duration, err error) {
			require.NoError(t, err)
			assert.Equal(t, 20*tick, a.Queue)
			assert.Equal(t, took, a.Queue+a.Compute)
			assert.Zero(t, a.Reused)
			assert.Equal(t, 80, a.Computed)
		})
		c.wait.Wait()
		assert.Len(t, m.calls, 1+3)
	})
}

// TestVerifyFails: if the model fails to compute tokens again, others keep their tokens, and a repeated question has
// the same answer. The same holds if the caller leaves between two parts or during one.
func TestVerifyFails(t *testing.T) {
	for _, sampling := range []terms.Sampling{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 40}} {
		for _, leaves := range []bool{false, true} {
			inBubble(t, 300, batch.Options{}, func(c *crowd, m *counter) {
				c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 90), K: 1}})
				c.mustAsk(terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(1, 80), K: 1}})
				q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 85), K: 1, AuditFrom: 5,
					Verify:   terms.EachScore,
					Sampling: sampling}}
				ctx, leave := context.WithCancel(c.t.Context())
				c.wait.Go(func() {
					_, err := c.s.Ask(ctx, q)
					if leaves {
						assert.ErrorIs(t, err, context.Canceled)
					} else {
						assert.ErrorIs(t, err, errBroken)
					}
				})
				time.Sleep(33*tick + tick/2)
				if leaves {
					leave()
				} else {
					m.broken.Store(true)
				}
				c.wait.Wait()
				synctest.Wait()
				m.broken.Store(false)
				leave()
				assert.Equal(t, 80, c.mustAsk(terms.Job{Session: 2, Device: 2,
					Question: terms.Question{Context: text(1, 80), K: 1}}).Reused)
				require.Equal(t, m.answer(t, q), plain(c.mustAsk(q)))
				assert.Zero(t, batch.Lent(c.s))
			})
		}
	}
}

// TestVerifyInFullStore: if the text fills the store, alone or shared, its positions are verified in place.
func TestVerifyInFullStore(t *testing.T) {
	for _, sessions := range []uint64{1, 2, 3} {
		for _, sampling := range []terms.Sampling{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 9}} {
			for _, verify := range []terms.Verify{terms.EachChoice, terms.EachScore} {
				inBubble(t, 40, batch.Options{}, func(c *crowd, m *counter) {
					for session := range sessions {
						c.mustAsk(terms.Job{Session: session, Device: session,
							Question: terms.Question{Context: text(1, 40), K: 1}})
					}
					q := terms.Job{Question: terms.Question{Context: text(1, 40), K: 1, AuditFrom: 1, Verify: verify,
						Sampling: sampling}}
					a := c.mustAsk(q)
					require.Equal(t, m.answer(t, q), plain(a))
					assert.LessOrEqual(t, m.rows, 40+2*40)
				})
			}
		}
	}
}

// TestVerifyTogether: questions of one step that verify the same positions share their rows.
func TestVerifyTogether(t *testing.T) {
	for _, sampling := range []terms.Sampling{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 9}} {
		inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
			c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 30), K: 1}})
			busy := terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(9, 1), K: 1}}
			c.ask(busy, func(batch.Answer, time.Duration, error) {})
			synctest.Wait() // others gather during this call
			var total atomic.Int64
			for session := range uint64(2) {
				q := terms.Job{Session: session, Device: session,
					Question: terms.Question{Context: text(1, 30), K: 1, AuditFrom: 16,
						Verify: terms.EachChoice, Sampling: sampling}}
				c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
					require.NoError(t, err)
					require.Equal(t, m.answer(t, q), plain(a))
					total.Add(int64(a.Computed))
				})
				synctest.Wait()
			}
			c.wait.Wait()
			assert.Len(t, m.calls, 3)
			assert.EqualValues(t, m.calls[2].rows, total.Load())
			assert.LessOrEqual(t, m.calls[2].rows, 15)
		})
	}
}

// TestVerifyComputed: answers count the rows of all calls.
func TestVerifyComputed(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		o := batch.Options{Rows: []int{2, 8, 128}[r.IntN(3)], Context: 30, Lookup: -1}
		inBubble(t, []int{30, 45, 300}[r.IntN(3)], o, func(c *crowd, m *counter) {
			var total, reused atomic.Int64
			var before [][]int32
			for range 60 {
				q := anyVerified(r, before, 30, 40)
				q.Priority, q.K = terms.Foreground, 1
				if q.Sampling = (terms.Sampling{}); q.Verify.Scored() {
					q.Verify = terms.EachChoice // heads are cheap, so that none has its own call
				}
				before = append(before, q.Context)
				c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
					require.NoError(t, err)
					total.Add(int64(a.Computed))
					reused.Add(int64(a.Reused))
				})
				time.Sleep(time.Duration(r.IntN(20)) * tick)
			}
			c.wait.Wait()
			assert.EqualValues(t, m.rows, total.Load())
			assert.EqualValues(t, reused.Load(), c.stats().Reused)
		})
	}
}

// TestVerifyRefused: invalid questions are refused.
func TestVerifyRefused(t *testing.T) {
	s := service(t, &counter{}, 20, batch.Options{})
	defer s.Close()
	for _, q := range []terms.Job{
		{Priority: terms.Background, Question: terms.Question{AuditFrom: 1}}, {Priority: terms.Ahead,
			Question: terms.Question{AuditFrom: 1}}, {Question: terms.Question{AuditFrom: 0}},
		{Question: terms.Question{AuditFrom: 6}}, {Question: terms.Question{AuditFrom: -1}},
	} {
		want := "those from 1 to 5 can"
		if q.Priority != terms.Foreground {
			want = "cannot verify its context"
		}
		q.Context, q.K, q.Verify = text(1, 5), 1, terms.EachChoice
		_, err := s.Ask(t.Context(), q)
		assert.ErrorContains(t, err, want, "%+v", q)
	}
	a, err := s.Ask(t.Context(), terms.Job{Question: terms.Question{Context: text(1, 5), K: 1, Verify: terms.EachChoice,
		AuditFrom: 5}})
	require.NoError(t, err)
	assert.Zero(t, a.Audited)
}

// TestLogitsAreBounded: a step with logits waits while callers use as many logits as one step has; other steps do not
// wait.
func TestLogitsAreBounded(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		batch.Lend(c.s, 33)
		done := [2]bool{}
		for i, sampling := range []terms.Sampling{{Temperature: 0.8}, {}} {
			q := terms.Job{Session: uint64(i), Device: uint64(i),
				Question: terms.Question{Context: text(i, 5), K: 1, Sampling: sampling}}
			c.ask(q, func(a batch.Answer, _ time.Duration, err error) { done[i] = assert.NoError(t, err) })
			time.Sleep(time.Hour)
			synctest.Wait()
			if i == 0 {
				assert.False(t, done[0])
				batch.Lend(c.s, -1)
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.True(t, done[0], "the logits of one step may be in use")
				batch.Lend(c.s, 100)
			}
		}
		assert.True(t, done[1], "it wants no logits")
		batch.Lend(c.s, -132)
		assert.Zero(t, batch.Lent(c.s))
	})
}

// TestLogitsOfLeavers: a caller that leaves just when its answer is ready keeps no logits from others. One that stays
// counts with a row for each position that has logits.
func TestLogitsOfLeavers(t *testing.T) {
	s := service(t, &counter{}, 20, batch.Options{})
	defer s.Close()
	batch.LeaveReady(s)
	assert.Zero(t, batch.Lent(s))
	assert.Equal(t, 0, batch.Hand(s, 0, 0))
	assert.Equal(t, 1, batch.Hand(s, 0, 9))
	assert.Equal(t, 2, batch.Hand(s, 2, 0))
	assert.Equal(t, 3, batch.Hand(s, 2, 9))
	assert.Zero(t, batch.Lent(s))
}

// TestVerifyShared: a token of another session counts as shared, unless it is computed again for its head.
func TestVerifyShared(t *testing.T) {
	inBubble(t, 100, batch.Options{Lookup: -1}, func(c *crowd, m *counter) {
		q := terms.Job{Session: 1, Question: terms.Question{Context: text(1, 10), K: 1}}
		c.mustAsk(q)
		q.Session, q.AuditFrom, q.Verify = 2, 6, terms.EachChoice
		computed := c.mustAsk(q).Computed
		assert.Equal(t, 4, computed)
		assert.EqualValues(t, 10-computed, c.stats().Shared)
	})
}

// TestVerifyPrices: a device that verifies many positions has fewer turns than one that asks for the same number of
// tokens.
func TestVerifyPrices(t *testing.T) {
	inBubble(t, 5000, batch.Options{Rows: 32}, func(c *crowd, m *counter) {
		bored := errors.New("enough")
		ctx, enough := context.WithCancelCause(c.t.Context())
		var answered [2]atomic.Int64
		for device := range 2 {
			for i := range 2 {
				c.wait.Go(func() {
					for n := 0; ; n++ {
						q := terms.Job{Session: uint64(100*device + i), Device: uint64(device),
							Question: terms.Question{K: 1,
								Context: text(10*device+i+100*n, 40)}}
						if device == 1 {
							q.AuditFrom, q.Verify, q.Sampling = 1, terms.EachScore, terms.Sampling{Temperature: 1}
						}
						if _, err := c.s.Ask(ctx, q); err != nil {
							return
						}
						answered[device].Add(int64(len(q.Context)))
					}
				})
			}
		}
		time.Sleep(40_000 * tick)
		enough(bored)
		c.wait.Wait()
		// cost of a row without its head and with all logits
		assert.InDelta(t, 4.0/(4+5), float64(answered[1].Load())/float64(answered[0].Load()), 0.1)
	})
}

// TestVerifyStreams: a session that continues with each answer, and sometimes verifies its last tokens, in parts or
// not, is a stream: questions use guesses, and all verdicts are right.
func TestVerifyStreams(t *testing.T) {
	for _, rows := range []int{8, 16, 128} {
		for _, sampling := range []terms.Sampling{
			{}, {Temperature: 0.3, TopK: 5, Seed: 2}, {Temperature: 0.3, TopK: 20, Seed: 2},
		} {
			bubble.Test(t, func(t *testing.T) {
				w := cheap(0, 8)
				c := w.over(t, 500, batch.Options{Rows: rows})
				defer w.of.Close()
				q := terms.Job{Session: 1, Question: terms.Question{Context: text(1, 6), K: 1, Sampling: sampling}}
				for n := range 80 {
					q.AuditFrom, q.Verify = max(1, len(q.Context)-5), terms.EachChoice
					if n%2 == 0 {
						q.Verify = terms.EachScore
					}
					a := c.mustAsk(q)
					require.Equal(t, w.answer(t, q), plain(a))
					q.Context = append(q.Context, a.Token)
				}
				synctest.Wait()
				require.NoError(t, w.wrong)
				require.NoError(t, batch.CheckAtRest(w.of))
				if sampling.TopK < 20 { // a head for 20 candidates is costly
					assert.Positive(t, c.stats().Accepted, "%d rows, %+v", rows, sampling)
				}
			})
		}
	}
}

// TestVerifyMixed: questions about a position with and without logits are answered in one step.
func TestVerifyMixed(t *testing.T) {
	for _, kinds := range [][2]terms.Verify{
		{terms.EachChoice, terms.EachScore}, {terms.EachScore, terms.EachChoice}, {terms.AsItComes, terms.EachScore},
	} {
		inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
			busy := terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(9, 1), K: 1}}
			c.ask(busy, func(batch.Answer, time.Duration, error) {})
			synctest.Wait() // others gather during this call
			for i, kind := range kinds {
				q := terms.Job{
					Session: uint64(i), Device: uint64(i),
					Question: terms.Question{Context: text(1, 12), K: 1, AuditFrom: 4, Verify: kind},
				}
				c.askExact(m, q)
				synctest.Wait()
			}
			c.wait.Wait()
			assert.Equal(t, []made{{1, 1, 1, false}, {12, 9, 1, true}}, m.calls)
		})
	}
}

// TestVerifyKnownEnd: if most of what a question verifies is in memory, it ends earlier than planned; its head must
// still fit into the step.
func TestVerifyKnownEnd(t *testing.T) {
	inBubble(t, 200, batch.Options{Rows: 8}, func(c *crowd, m *counter) {
		m.vocab = 300
		c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}})
		c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 20), K: 1, AuditFrom: 11}})
		busy := terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(9, 1), K: 1}}
		c.ask(busy, func(batch.Answer, time.Duration, error) {})
		synctest.Wait() // others gather during this call
		for _, q := range []terms.Job{
			{Session: 2, Device: 2, Question: terms.Question{Context: text(2, 3), K: 201}},
			{Session: 1, Device: 1,
				Question: terms.Question{Context: text(1, 20), K: 200, AuditFrom: 9, Verify: terms.EachChoice}},
		} {
			c.askExact(m, q)
			synctest.Wait()
		}
		c.wait.Wait()
		for _, call := range m.calls {
			assert.LessOrEqual(t, call.heads*call.depth(), 256, "%+v", call)
		}
	})
}
