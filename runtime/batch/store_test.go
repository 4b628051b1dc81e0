package batch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// inBubble runs f over a service in virtual time.
func inBubble(t *testing.T, slots int, o batch.Options, f func(c *crowd, m *counter)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: tick}
		if slots <= 1000 { // checks all slots
			o.Now = m.checks()
		}
		c := &crowd{t: t, s: service(t, m, slots, o)}
		defer c.s.Close()
		m.of = c.s
		f(c, m)
		c.wait.Wait()
		synctest.Wait()
		require.NoError(t, m.wrong)
		require.NoError(t, batch.CheckAtRest(c.s))
	})
}

// TestLongContextsShareSteps: new tokens count for a step, not the lengths of contexts.
func TestLongContextsShareSteps(t *testing.T) {
	racing.Spare(t)
	for _, devices := range []int{1, 4, 64} {
		inBubble(t, 64*700, batch.Options{}, func(c *crowd, m *counter) {
			for _, size := range []int{600, 610} {
				m.calls = nil
				for i := range 64 {
					q := terms.Job{Session: uint64(i), Device: uint64(i % devices),
						Question: terms.Question{Context: text(i, size), K: 4}}
					c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(c.t, err) })
				}
				c.wait.Wait()
			}
			assert.LessOrEqual(c.t, len(m.calls), 640/128+3, "%d devices", devices)
		})
	}
}

// TestPrefillsDoNotBlockEachOther: long questions finish, even if each needs most of the store, and few tokens are
// computed twice.
func TestPrefillsDoNotBlockEachOther(t *testing.T) {
	for _, room := range []int{500, 501, 750, 1100, 2000} {
		inBubble(t, room, batch.Options{Context: 500}, func(c *crowd, m *counter) {
			for i := range 12 {
				q := terms.Job{Session: uint64(i), Device: uint64(i % 6),
					Question: terms.Question{Context: text(i, 300+i*200/11), K: 1}}
				c.askRight(m, q, true)
				c.ask(terms.Job{Session: 100, Device: 100, Question: terms.Question{Context: text(100, 10+i), K: 1}},
					func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(c.t, err) })
			}
			c.wait.Wait()
			assert.Less(c.t, m.rows, 12*400*3/2, "%d slots", room)
		})
	}
}

// TestShortTakesFromPartlyComputed: short questions do not wait for a long one that holds nearly all of the store.
func TestShortTakesFromPartlyComputed(t *testing.T) {
	inBubble(t, 100, batch.Options{Rows: 16}, func(c *crowd, m *counter) {
		ask := func(device, n int, took time.Duration) {
			q := terms.Job{Session: uint64(device), Device: uint64(device),
				Question: terms.Question{Context: text(device, n), K: 1}}
			c.ask(q, func(a batch.Answer, d time.Duration, err error) {
				require.NoError(t, err)
				right(t, m.answer(t, q), a, q, true)
				assert.Equal(t, took, d, "device %d", device)
			})
		}
		ask(1, 100, (6*16+8+8)*tick) // its last 4 tokens, and 4 that were evicted
		time.Sleep(90 * tick)        // in its sixth step, after which 4 slots are free
		ask(2, 4, (6+8)*tick)
		ask(3, 4, (6+8)*tick)
	})
}

// TestEvicts: the order of eviction: the session's own branches, then the device with the most tokens, then the least
// recently used.
func TestEvicts(t *testing.T) {
	inBubble(t, 900, batch.Options{}, func(c *crowd, _ *counter) {
		reused := func(session, device uint64, text []int32) int {
			q := terms.Job{Session: session, Device: device, Domain: session,
				Question: terms.Question{Context: text, K: 1}}
			return c.mustAsk(q).Reused
		}
		branch := func(kind, n int) []int32 { return append(text(4, 100), text(kind, n)...) }
		reused(1, 1, text(1, 100)) // the oldest of all, of a device with few tokens
		reused(2, 2, text(2, 300)) // the device with the most tokens
		reused(3, 2, text(3, 300)) // younger
		reused(4, 3, branch(5, 30))
		reused(4, 3, branch(6, 30))
		reused(4, 3, branch(7, 60)) // 20 too many, evicted from the oldest branch of the same session
		assert.Equal(t, 300, reused(2, 2, text(2, 300)), "no other session has lost tokens")
		assert.Equal(t, 130, reused(4, 3, branch(6, 30)))
		assert.Equal(t, 160, reused(4, 3, branch(7, 60)))
		assert.Equal(t, 300, reused(3, 2, text(3, 300)))
		assert.Equal(t, 300, reused(2, 2, text(2, 300)))
		// the device with the most tokens loses its least recently used ones, not the least recently active device
		reused(5, 5, text(8, 100))
		assert.Equal(t, 100, reused(1, 1, text(1, 100)))
		assert.Equal(t, 300, reused(2, 2, text(2, 300)))
		assert.Equal(t, 200, reused(3, 2, text(3, 300)), "and again, for its own question")
		assert.Equal(t, 200, reused(2, 2, text(2, 300)))
		assert.Equal(t, 110, reused(4, 3, branch(5, 30)))
	})
}

// TestRecomputed: only tokens that are computed again after an eviction are counted.
func TestRecomputed(t *testing.T) {
	inBubble(t, 100, batch.Options{}, func(c *crowd, m *counter) {
		want, had := 0, map[string]bool{}
		r := rand.New(rand.NewPCG(1, 1))
		key := func(session uint64, text []int32) string { return fmt.Sprint(session, text) }
		for range 200 {
			q := terms.Job{Session: r.Uint64N(2), Question: terms.Question{Context: text(1, 1+r.IntN(90)), K: 1}}
			q.Domain = q.Session
			if r.IntN(10) == 0 {
				require.NoError(t, c.s.Forget(c.t.Context(), q.Session))
				for n := range 91 {
					delete(had, key(q.Session, text(1, n)))
				}
			}
			a := c.mustAsk(q)
			for n := a.Reused + 1; n <= len(q.Context); n++ {
				if k := key(q.Session, q.Context[:n]); had[k] {
					want++
				} else {
					had[k] = true
				}
			}
		}
		st := c.stats()
		assert.Greater(t, want, 1000)
		assert.EqualValues(t, want, st.Recomputed)
		assert.EqualValues(t, m.rows, st.Computed)
		assert.EqualValues(t, len(m.calls), st.Steps)
		assert.Equal(t, 100, st.Slots)
	})
}

// TestModelFailsForAll: after an error of the model no session keeps tokens of the step.
func TestModelFailsForAll(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		together := func(n, k int, check func(i int, a batch.Answer, err error)) {
			for i := range 4 {
				q := terms.Job{Session: uint64(i), Device: uint64(i),
					Question: terms.Question{Context: text(i, n), K: k}}
				c.ask(q, func(a batch.Answer, _ time.Duration, err error) { check(i, a, err) })
			}
			c.wait.Wait()
		}
		together(10, 1, func(_ int, _ batch.Answer, err error) { assert.NoError(t, err) })
		m.broken.Store(true)
		together(25, 5, func(_ int, _ batch.Answer, err error) { assert.ErrorIs(t, err, errBroken) })
		m.broken.Store(false)
		assert.Equal(t, 40, c.stats().InUse)
		together(25, 5, func(i int, a batch.Answer, err error) {
			require.NoError(t, err)
			assert.Equal(t, 10, a.Reused, "session %d", i)
		})
		// more of the head: the last tokens are computed again, and their slots are undefined during the call
		m.broken.Store(true)
		together(25, 6, func(_ int, _ batch.Answer, err error) { assert.ErrorIs(t, err, errBroken) })
		m.broken.Store(false)
		together(25, 6, func(_ int, a batch.Answer, err error) {
			require.NoError(t, err)
			assert.Equal(t, 24, a.Reused)
		})
	})
}

// TestFailureOfAnother: a question that would have continued tokens of a failed step computes them itself.
func TestFailureOfAnother(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 8}, func(c *crowd, m *counter) {
		q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 12), K: 256}}
		c.askRight(m, q, true)
		time.Sleep(tick)
		other := terms.Job{Session: 1, Device: 2,
			Question: terms.Question{Context: text(1, 12), K: 20}} // it goes first
		c.ask(other, func(_ batch.Answer, _ time.Duration, err error) { assert.ErrorIs(t, err, errBroken) })
		time.Sleep(8 * tick)
		m.broken.Store(true)
		time.Sleep(4 * tick)
		m.broken.Store(false)
		c.wait.Wait()
		assert.Equal(t, []int{8, 4, 4}, []int{m.calls[0].rows, m.calls[1].rows, m.calls[2].rows})
	})
}

// TestFailureOfRepeat: a partly computed question after a token that is computed again, for its head, keeps this token
// if that fails.
func TestFailureOfRepeat(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 1}, func(c *crowd, m *counter) {
		for device := range 3 {
			q := terms.Job{
				Session: 1, Device: uint64(device),
				Question: terms.Question{Context: append(text(1, 4), text(10+device, 4)...), K: 1},
			}
			c.askRight(m, q, true)
		}
		time.Sleep(8*tick + tick/2) // the first one is done, the second is after the first four tokens
		repeat := terms.Job{Session: 1, Device: 3, Question: terms.Question{Context: text(1, 2), K: 5}}
		c.ask(repeat, func(_ batch.Answer, _ time.Duration, err error) { assert.ErrorIs(t, err, errBroken) })
		time.Sleep(tick)
		m.broken.Store(true)
		time.Sleep(tick)
		m.broken.Store(false)
		synctest.Wait()
		assert.Equal(t, 1, c.stats().InUse, "all tokens after the first are gone")
		c.wait.Wait()
		assert.Equal(t, 9+1+3+8, m.rows)
	})
}

// TestWants: concurrent questions about one text, each with different needs for the head, all get what they want.
func TestWants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		inBubble(t, 100, batch.Options{Rows: []int{1, 2, 8, 50}[r.IntN(4)]}, func(c *crowd, m *counter) {
			m.vocab = 300
			c.ask(terms.Job{Session: 2,
				Question: terms.Question{Context: text(2, 1), K: 1}}, func(batch.Answer, time.Duration, error) {})
			synctest.Wait()
			for device := range uint64(2 + r.IntN(4)) {
				q := terms.Job{Session: 1, Device: device, Question: terms.Question{Context: text(1, 8+r.IntN(2)),
					K: []int{1, 3, 8, 9, 30, 250}[r.IntN(6)]}}
				if r.IntN(3) == 0 {
					q.Sampling = terms.Sampling{Temperature: 1, Seed: r.Uint64()}
				}
				if r.IntN(3) == 0 {
					q.AuditFrom = 1 + r.IntN(8)
				}
				c.askRight(m, q, false)
				synctest.Wait()
			}
		})
	}
}

// TestSharedAudit: a question is audited even if another one of the same step computes its context without an audit.
func TestSharedAudit(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		c.ask(terms.Job{Session: 2,
			Question: terms.Question{Context: text(2, 1), K: 1}}, func(batch.Answer, time.Duration, error) {})
		for i := range 2 {
			synctest.Wait()
			q := terms.Job{Session: 1, Question: terms.Question{Context: text(1, 12), K: 1, AuditFrom: 5 * i}}
			c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
				assert.NoError(c.t, err)
				assert.Equal(c.t, 12*i, a.Reused)
				assert.Equal(c.t, 12*(1-i), a.Computed)
				assert.Equal(c.t, m.answer(c.t, q), plain(a))
			})
		}
		c.wait.Wait()
		assert.Equal(c.t, made{rows: 12, heads: 8, k: 1}, m.calls[1])
	})
}

// TestSharedEnd: if another question of the step computes the last tokens of a question, without room for its head, the
// question is answered in the next step.
func TestSharedEnd(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 8}, func(c *crowd, m *counter) {
		for device, k := range []int{256, 20, 200} {
			q := terms.Job{Session: 1, Device: uint64(device), Question: terms.Question{Context: text(1, 12), K: k}}
			c.askRight(m, q, true)
		}
	})
}

// TestManyCandidates: a question for many candidates, or for all logits, does not make the head of the step more costly
// for others, and gets them, even if fewer were kept.
func TestManyCandidates(t *testing.T) {
	inBubble(t, 3000, batch.Options{}, func(c *crowd, m *counter) {
		m.vocab = 300
		for round, k := range []int{1, 256, 3} {
			for i := range 20 {
				q := terms.Job{Session: uint64(i), Device: uint64(i),
					Question: terms.Question{Context: text(i, 20), K: k}}
				if round == 1 && i%2 == 0 {
					q = terms.Job{
						Session: uint64(100 + i), Device: uint64(i),
						Question: terms.Question{Context: text(i, 25), K: 1, AuditFrom: 1},
					}
				}
				c.askRight(m, q, true)
			}
			c.wait.Wait()
		}
		for _, call := range m.calls {
			assert.LessOrEqual(t, call.heads*call.k, 8*128, "%+v", call)
		}
		_, err := c.s.Ask(c.t.Context(), terms.Job{Session: 1, Question: terms.Question{Context: text(1, 3), K: 257}})
		assert.Error(t, err)
	})
}

// TestForgetBeside: a session that is dropped while its questions wait or are partly computed still answers them, and
// is then gone.
func TestForgetBeside(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		for i := range 6 {
			q := terms.Job{Session: 1, Device: uint64(i % 2),
				Question: terms.Question{Context: append(text(1, 200), text(i, 10)...), K: 1}}
			c.askRight(m, q, true)
			synctest.Wait()
			time.Sleep(60 * tick)
			require.NoError(t, c.s.Forget(c.t.Context(), 1))
		}
		c.wait.Wait()
		synctest.Wait()
		assert.Zero(t, c.stats().InUse)
		assert.Zero(t, c.stats().Sessions)
		err := c.s.Forget(c.t.Context(), 77)
		assert.NoError(t, err)
	})
}

// TestLinear: the work of a step grows with its own tokens, not with those in memory, counted in comparisons of
// eviction candidates.
func TestLinear(t *testing.T) {
	for _, size := range []int{2_000, 32_000} {
		inBubble(t, size, batch.Options{Rows: 512}, func(c *crowd, _ *counter) {
			for i := range size / 100 {
				c.mustAsk(terms.Job{Session: uint64(i), Device: uint64(i % 50),
					Question: terms.Question{Context: text(i, 100), K: 1}})
			}
			n := batch.CountComparisons(c.s)
			before := c.stats().Evicted
			for i := range 20 {
				c.mustAsk(terms.Job{Session: 1_000_000, Question: terms.Question{Context: text(size+i, 1000), K: 1}})
			}
			evicted := c.stats().Evicted - before
			assert.GreaterOrEqual(t, evicted, uint64(19_000))
			assert.Less(t, *n, 40*20_000, "%d slots, %d evicted", size, evicted)
		})
	}
}

// TestFewSpans: a context continues in the slots after its last one, even if earlier slots are free.
func TestFewSpans(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		ask := func(session uint64, n int) {
			c.mustAsk(terms.Job{Session: session, Question: terms.Question{Context: text(int(session), n), K: 1}})
		}
		ask(1, 10)
		ask(2, 10)
		require.NoError(c.t, c.s.Forget(c.t.Context(), 1))
		ask(2, 20)
		assert.Equal(c.t, 1, m.spans)
		ask(3, 15)
		assert.Equal(c.t, 2, m.spans, "10 slots were free earlier")
	})
}

// TestStar: eviction finds as many branches of one token as there are slots without a search.
func TestStar(t *testing.T) {
	inBubble(t, 5000, batch.Options{}, func(c *crowd, m *counter) {
		for i := range int32(3000) {
			c.mustAsk(terms.Job{Session: 1, Question: terms.Question{Context: []int32{1, 2, i}, K: 1}})
		}
		for _, i := range []int32{0, 1, 2999} {
			assert.Equal(t, 3, c.mustAsk(terms.Job{Session: 1,
				Question: terms.Question{Context: []int32{1, 2, i}, K: 1}}).Reused)
		}
		assert.Equal(t, 3002, m.rows)
	})
}

// BenchmarkFifthBranch asks for the fifth full-length context of one session, which evicts others, with a model that
// does nothing.
func BenchmarkFifthBranch(b *testing.B) {
	const context = 4096
	m := &counter{vocab: 1}
	s := service(b, idle{}, 4*context, batch.Options{Context: context})
	defer s.Close()
	branch := func(i int) {
		q := slices.Concat(text(0, 100), text(i, context-100))
		_, err := s.Ask(b.Context(), terms.Job{Session: 1, Question: terms.Question{Context: q, K: 1}})
		require.NoError(b, errors.Join(err, m.wrong))
	}
	for i := range 4 {
		branch(1 + i)
	}
	for i := 5; b.Loop(); i++ {
		branch(i)
	}
}
