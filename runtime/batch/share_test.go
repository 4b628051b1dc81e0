package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/internal/racing"
	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// memory is what a store with enough room keeps of some questions: each token once per domain.
type memory map[place]map[uint64]bool // sessions that use each token

func (m memory) add(q terms.Job) {
	text := key(q.Context)
	for n := range text {
		at := place{q.Domain, text[:n+1]}
		if m[at] == nil {
			m[at] = map[uint64]bool{}
		}
		m[at][q.Session] = true
	}
}

func (m memory) forget(session uint64) {
	for at, sessions := range m {
		if delete(sessions, session); len(sessions) == 0 {
			delete(m, at)
		}
	}
}

// counts returns the number of tokens, and of those that several sessions use.
func (m memory) counts() (all, common int) {
	for _, sessions := range m {
		if len(sessions) > 1 {
			common++
		}
	}
	return len(m), common
}

// TestPrefixOnce: the common prefix of 200 sessions is computed and kept once, whether they ask at the same time, one
// after the other or with others, from one device or from many, with any size of steps.
func TestPrefixOnce(t *testing.T) {
	racing.Spare(t)
	const sessions, prefix, own = 200, 400, 10
	for name, c := range map[string]struct {
		o       batch.Options
		devices int
		pause   time.Duration
	}{
		"at once":             {batch.Options{}, sessions, 0},
		"one device":          {batch.Options{}, 1, 0},
		"some devices":        {batch.Options{Rows: 100}, 7, 0},
		"small steps":         {batch.Options{Rows: 8}, sessions, 0},
		"steps of one row":    {batch.Options{Rows: 1}, sessions, 0},
		"in the first step":   {batch.Options{}, sessions, tick},
		"one after the other": {batch.Options{}, sessions, 500 * tick},
		"steps of all":        {batch.Options{Rows: 3000}, sessions, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, prefix+sessions*own, c.o, func(w *crowd, m *counter) {
				kept := memory{}
				for i := range sessions {
					q := terms.Job{
						Session: uint64(i), Device: uint64(i % c.devices), Question: terms.Question{K: 1,
							Context: slices.Concat(
								text(1000, prefix), []int32{int32(i % 40), int32(i / 40)}, text(i, own-2))},
					}
					kept.add(q)
					w.askExact(m, q)
					time.Sleep(c.pause)
				}
				w.wait.Wait()
				all, common := kept.counts()
				st := w.stats()
				assert.Equal(t, all, m.rows)
				assert.EqualValues(t, all, st.Computed)
				assert.Equal(t, all, st.InUse)
				assert.Equal(t, common, st.InCommon)
				assert.Less(t, all, prefix+sessions*own)
				assert.EqualValues(t, sessions*(prefix+own)-all, st.Shared)
				assert.Zero(t, st.Recomputed+st.Evicted)
				assert.Equal(t, sessions, st.Sessions)
			})
		})
	}
}

// TestStepsAreFull: questions that waited for a prefix share calls once it is computed, as do questions with few
// tokens, also next to other short questions.
func TestStepsAreFull(t *testing.T) {
	for others, room := range map[int]int{0: 1400, 3: 10_000} {
		inBubble(t, room, batch.Options{}, func(c *crowd, m *counter) {
			ctx, stop := context.WithCancel(c.t.Context())
			for i := range others {
				c.wait.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						q := terms.Job{
							Session: uint64(1000 + i), Device: uint64(1000 + i),
							Question: terms.Question{Context: text(5000+n, 5), K: 1},
						}
						c.s.Ask(ctx, q)
					}
				})
			}
			time.Sleep(tick)
			var waiting sync.WaitGroup
			for i := range 100 {
				q := terms.Job{
					Session: uint64(i), Device: uint64(i),
					Question: terms.Question{Context: append(text(1, 400), int32(i)), K: 1},
				}
				q.Context = append(q.Context, text(i, 9)...)
				waiting.Add(1)
				c.ask(q, func(_ batch.Answer, _ time.Duration, err error) {
					assert.NoError(c.t, err)
					waiting.Done()
				})
			}
			waiting.Wait()
			stop()
			c.wait.Wait()
			assert.LessOrEqual(t, len(m.calls), 4+100/10+3+4*others, "%d others, %d rows", others, m.rows)
		})
	}
}

// TestApart: sessions of different domains share nothing, and with Apart no sessions do.
func TestApart(t *testing.T) {
	for domains, computed := range map[int]int{1: 60 + 30, 2: 2*60 + 30, 3: 3*60 + 30, 30: 30 * 61} {
		inBubble(t, 3000, batch.Options{Apart: domains == 30}, func(c *crowd, m *counter) {
			for i := range 30 {
				q := terms.Job{Session: uint64(i), Device: uint64(i), Domain: uint64(i % domains % 30),
					Question: terms.Question{K: 1,
						Context: append(text(1000, 60), int32(i))}}
				if domains == 30 {
					q.Domain = 0
				}
				c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			}
			c.wait.Wait()
			st := c.stats()
			assert.Equal(t, computed, m.rows)
			assert.Equal(t, computed, st.InUse)
			assert.EqualValues(t, 30*61-computed, st.Shared)
			assert.Equal(t, domains == 30, st.InCommon == 0)
		})
	}
}

// TestDomainOfSession: a session that changes its domain starts again, and leaves nothing in the old one.
func TestDomainOfSession(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		reused := func(session, domain uint64) int {
			return c.mustAsk(terms.Job{Session: session, Domain: domain,
				Question: terms.Question{Context: text(1, 50), K: 1}}).Reused
		}
		assert.Zero(t, reused(1, 5), "the first question")
		assert.Equal(t, 50, reused(1, 5), "the same again")
		assert.Zero(t, reused(1, 6), "in another domain")
		assert.Equal(t, 50, c.stats().InUse)
		assert.Zero(t, reused(2, 5), "the old domain, which is empty")
		assert.Equal(t, 50, reused(3, 6), "the new domain")
		assert.Equal(t, 50, reused(1, 5), "what session 2 computed in the old domain")
		assert.Equal(t, 100, c.stats().InUse)

		long := terms.Job{Session: 4, Domain: 7, Question: terms.Question{Context: text(2, 300), K: 1}}
		c.ask(long, func(a batch.Answer, _ time.Duration, err error) {
			assert.NoError(t, err)
			assert.Zero(t, a.Reused)
		})
		time.Sleep(tick)
		long.Domain = 8
		assert.Zero(t, c.mustAsk(long).Reused, "the question in the old domain is still open")
		assert.Equal(t, 300, c.mustAsk(long).Reused)
	})
}

// TestDistinctTokens: for any concurrent questions, each token of a domain is computed and kept once; a dropped token
// is freed when no session uses it.
func TestDistinctTokens(t *testing.T) {
	for seed := range seeds(30) {
		r := rand.New(rand.NewPCG(seed, 8))
		rows := []int{1, 3, 8, 50, 200}[r.IntN(5)]
		inBubble(t, 4000, batch.Options{Rows: rows}, func(c *crowd, m *counter) {
			kept, domains := memory{}, 1+r.Uint64N(3)
			for range 4 {
				computed, before := m.rows, len(kept)
				for range 40 {
					q := terms.Job{Session: r.Uint64N(30), Device: r.Uint64N(9),
						Question: terms.Question{K: 1, AuditFrom: 1}}
					q.Domain = q.Session % domains
					q.Context = text(r.IntN(3), 1+r.IntN(60)) // many share a prefix, and some branch off
					q.Context = append(q.Context, text(r.IntN(100), r.IntN(20))...)
					kept.add(q)
					c.askExact(m, q)
					time.Sleep(time.Duration(r.IntN(40)) * tick)
				}
				c.wait.Wait()
				all, common := kept.counts()
				st := c.stats()
				require.Equal(t, all, st.InUse)
				require.Equal(t, common, st.InCommon)
				require.Equal(t, all-before, m.rows-computed)
				for range 20 {
					session := r.Uint64N(30)
					kept.forget(session)
					require.NoError(t, c.s.Forget(c.t.Context(), session))
					all, common := kept.counts()
					require.Equal(t, all, c.stats().InUse)
					require.Equal(t, common, c.stats().InCommon)
				}
			}
			for session := range uint64(30) {
				require.NoError(t, c.s.Forget(c.t.Context(), session))
			}
			assert.Zero(t, c.stats().InUse)
			assert.Zero(t, c.stats().InCommon)
			assert.Zero(t, c.stats().Sessions)
			assert.LessOrEqual(t, batch.Remembered(c.s), 9, "devices that have had work")
		})
	}
}

// TestSharingChangesNothing: questions at the same times have the same answers with and without sharing, to the last
// bit, and the same audits if nothing is evicted.
func TestSharingChangesNothing(t *testing.T) {
	shared, again := uint64(0), 0
	for seed := range seeds(40) {
		var answers [2][]batch.Answer
		var rows [2]int
		for i, apart := range []bool{false, true} {
			r := rand.New(rand.NewPCG(seed, 9))
			inBubble(t, 5000, batch.Options{Rows: 1 + r.IntN(60), Apart: apart}, func(c *crowd, m *counter) {
				m.vocab = 300
				var before [][]int32
				answers[i] = make([]batch.Answer, 100)
				for n := range answers[i] {
					q := anyQuestion(r, before, 60, 40)
					if n%2 != 0 {
						q.Priority = terms.Foreground
					}
					q.Session = uint64(n) // a new session: its memory does not depend on the order of answers
					before = append(before, q.Context)
					c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
						if err == nil && q.Priority == terms.Foreground {
							answers[i][n] = plain(a)
						}
					})
					time.Sleep(time.Duration(r.IntN(30)) * tick)
				}
				c.wait.Wait()
				shared += c.stats().Shared
				rows[i] = m.rows
			})
		}
		require.Equal(t, answers[1], answers[0])
		assert.Less(t, rows[0], rows[1])
		again += rows[0]
	}
	assert.Greater(t, 2*shared, uint64(again), "many tokens are shared")
}

// TestLeavesWhileOthersWait: if a caller computes a common prefix and leaves, the other sessions keep the computed
// tokens, and no question waits for tokens that are no longer computed.
func TestLeavesWhileOthersWait(t *testing.T) {
	for _, leaveAt := range []time.Duration{5, 33, 40, 70, 101, 130} {
		inBubble(t, 10_000, batch.Options{Rows: 32}, func(c *crowd, m *counter) {
			bored := errors.New("bored")
			ctx, leave := context.WithCancelCause(c.t.Context())
			c.wait.Go(func() {
				_, err := c.s.Ask(ctx, terms.Job{Session: 1, Device: 1,
					Question: terms.Question{Context: text(1, 200), K: 1}})
				assert.ErrorIs(t, err, bored)
			})
			time.Sleep(tick)
			for i := range uint64(20) {
				q := terms.Job{Session: 2 + i, Device: 2 + i,
					Question: terms.Question{Context: append(text(1, 200), int32(i)), K: 1}}
				c.askExact(m, q)
			}
			time.Sleep(leaveAt*tick - tick)
			leave(bored)
			c.wait.Wait()
			synctest.Wait()
			lost := 0
			if leaveAt < 32 { // the step was for it alone
				lost = 32
				assert.Equal(t, bored, m.left)
			} else {
				assert.NoError(t, m.left)
			}
			assert.Equal(t, 220+lost, m.rows)
			assert.Equal(t, 220, c.stats().InUse)
		})
	}
}

// TestPrefixFails: a step that fails loses the tokens that it computed, for all sessions; earlier tokens stay.
func TestPrefixFails(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 64}, func(c *crowd, m *counter) {
		ask := func(session uint64, n, k int, check func(batch.Answer, error)) {
			q := terms.Job{Session: session, Device: session,
				Question: terms.Question{Context: append(text(1, n), int32(session)), K: k}}
			c.ask(q, func(a batch.Answer, _ time.Duration, err error) {
				if check(a, err); err == nil {
					require.Equal(t, m.answer(t, q), plain(a))
				}
			})
		}
		fine := func(a batch.Answer, err error) { assert.NoError(t, err) }
		fails := func(_ batch.Answer, err error) { assert.ErrorIs(t, err, errBroken) }
		ask(1, 40, 1, fine)
		c.wait.Wait()
		m.broken.Store(true)
		for session := range uint64(4) { // the others wait for the rows of the first
			ask(10+session, 44, 1, fails)
			synctest.Wait() // the first step is for one of them
		}
		c.wait.Wait()
		synctest.Wait()
		assert.Equal(t, 41, c.stats().InUse)
		ask(20, 120, 1, fails)
		time.Sleep(tick)
		for session := range uint64(4) { // these arrive during the call
			ask(21+session, 120, 1, fine)
		}
		time.Sleep(62 * tick)
		synctest.Wait()
		time.Sleep(2 * tick)
		m.broken.Store(false)
		c.wait.Wait()
		assert.Equal(t, 120+1+4, c.stats().InUse)
		assert.Equal(t, 41+(4+1)+(4+3)+64+(80+4), m.rows)
	})
}

// TestRepeatsLoseNothing: a shared token that is computed again, because its head is needed, stays for the other
// sessions if that fails or is cancelled, even in a full store.
func TestRepeatsLoseNothing(t *testing.T) {
	for _, room := range []int{150, 100} {
		for name, ends := range map[string]func(m *counter, leave func()){
			"fails": func(m *counter, _ func()) { m.broken.Store(true) },
			"left":  func(_ *counter, leave func()) { leave() },
			"not":   func(*counter, func()) {},
		} {
			for _, q := range []terms.Job{
				{Question: terms.Question{K: 30}}, {Question: terms.Question{K: 1,
					Sampling: terms.Sampling{Temperature: 1}}}, {Question: terms.Question{K: 1, AuditFrom: 1}},
				{Question: terms.Question{K: 30, AuditFrom: 5}},
				{Question: terms.Question{K: 1, AuditFrom: 1, Verify: terms.EachChoice}},
				{Question: terms.Question{K: 1, AuditFrom: 1, Verify: terms.EachScore}},
			} {
				t.Run(fmt.Sprint(room, " slots, ", name, q.K, q.AuditFrom, q.Verify), func(t *testing.T) {
					inBubble(t, room, batch.Options{}, func(c *crowd, m *counter) {
						c.mustAsk(terms.Job{Session: 5, Device: 5,
							Question: terms.Question{Context: text(5, 60), K: 1}}) // the oldest
						mine := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 40), K: 1}}
						c.mustAsk(mine)
						q.Session, q.Device, q.Context = 2, 2, text(1, 20)
						c.mustAsk(terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(1, 1), K: 1}})
						ctx, leave := context.WithCancel(c.t.Context())
						defer leave()
						c.wait.Go(func() {
							a, err := c.s.Ask(ctx, q)
							if assert.Equal(t, name == "not", err == nil); err == nil {
								right(t, m.answer(t, q), a, q, false)
								assert.Equal(t, max(0, min(20-q.AuditFrom, 19)*min(1, q.AuditFrom)), a.Audited)
							}
						})
						time.Sleep(tick / 2)
						ends(m, leave)
						c.wait.Wait()
						synctest.Wait()
						m.broken.Store(false)
						rows := m.rows
						assert.Equal(t, 40, c.mustAsk(mine).Reused)
						assert.Equal(t, rows, m.rows)
						assert.GreaterOrEqual(t, c.stats().InUse, room-60)
					})
				})
			}
		}
	}
}

// TestRepeatInFullStore: if a partly computed question holds the rest of the store, it gives up a slot, so that nothing
// is lost when a shared token is computed again and that fails.
func TestRepeatInFullStore(t *testing.T) {
	inBubble(t, 85, batch.Options{Rows: 16}, func(c *crowd, m *counter) {
		q := terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(1, 20), K: 1}}
		c.mustAsk(q)
		long := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 85), K: 1}}
		c.askExact(m, long)
		time.Sleep(50 * tick) // in its fourth step, after which one slot is free
		fails := func(_ batch.Answer, _ time.Duration, err error) { assert.ErrorIs(t, err, errBroken) }
		c.ask(terms.Job{Session: 3, Device: 3, Question: terms.Question{Context: text(3, 1), K: 1}}, fails)
		synctest.Wait()
		q.K = 30
		c.ask(q, fails)
		time.Sleep(14*tick + tick/2)
		synctest.Wait()
		m.broken.Store(true)
		time.Sleep(2 * tick)
		m.broken.Store(false)
		c.wait.Wait()
		synctest.Wait()
		assert.LessOrEqual(t, m.rows, 20+65+2+2, "%+v", m.calls)
	})
}

// TestRepeatsMeet: tokens that several questions of a step need again are computed again once, and each question gets
// what it wants.
func TestRepeatsMeet(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 13), K: 1}})
		c.ask(terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(9, 1), K: 1}},
			func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
		synctest.Wait() // others gather during this call
		for i, q := range []terms.Job{
			{Question: terms.Question{K: 1, AuditFrom: 6, Sampling: terms.Sampling{Temperature: 1, Seed: 3}}},
			{Question: terms.Question{K: 1, AuditFrom: 1}},
			{Question: terms.Question{K: 7, AuditFrom: 9}},
		} {
			q.Session, q.Device, q.Context = uint64(2+i), uint64(2+i), text(1, 12)
			c.askExact(m, q)
			synctest.Wait()
		}
		c.wait.Wait()
		last := m.calls[len(m.calls)-1]
		assert.Equal(t, 12, last.rows, "%+v", m.calls)
		assert.Equal(t, 12, last.heads, "%+v", m.calls)
		assert.Equal(t, 13+1, c.stats().InUse)
	})
}

// TestGoesOnBehindRepeat: tokens after a token that is computed again in the same step see its old copy, because the
// new one may be in a later call.
func TestGoesOnBehindRepeat(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 16}, func(c *crowd, m *counter) {
		m.vocab = 300
		for session := range uint64(2) {
			c.mustAsk(terms.Job{Session: session, Device: session,
				Question: terms.Question{Context: text(1, 10), K: 1}})
		}
		c.ask(terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(9, 1), K: 1}},
			func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
		synctest.Wait() // others gather during this call
		for i, q := range []terms.Job{{Question: terms.Question{K: 120, Context: text(1, 10)}},
			{Question: terms.Question{K: 1, Context: append(text(1, 10), 5)}}} {
			q.Session, q.Device = 1, uint64(10+i)
			c.askExact(m, q)
			synctest.Wait()
		}
		c.wait.Wait()
		assert.Equal(t, []made{{1, 1, 1, false}, {1, 1, 120, false}}, m.calls[len(m.calls)-2:])
	})
}

// TestHostileMemory: a device that uses tokens of another one cannot evict more of it than with a text of its own, and
// nothing by dropping sessions.
func TestHostileMemory(t *testing.T) {
	for _, shares := range []bool{false, true} {
		inBubble(t, 1200, batch.Options{}, func(c *crowd, m *counter) {
			reused := func(session, device uint64, text []int32) int {
				return c.mustAsk(terms.Job{Session: session, Device: device,
					Question: terms.Question{Context: text, K: 1}}).Reused
			}
			mine := text(1, 1000)
			reused(1, 1, mine)
			for range 3 {
				if shares {
					reused(2, 2, mine)
				}
				reused(3, 2, text(3, 400))
				require.NoError(t, c.s.Forget(c.t.Context(), 2))
				require.NoError(t, c.s.Forget(c.t.Context(), 3))
			}
			assert.GreaterOrEqual(t, reused(1, 1, mine), 800-16, "shares: %v", shares)
		})
	}
}

// TestHostilePays: tokens that a device uses count for it as if they were not shared: it is evicted before devices that
// hold less.
func TestHostilePays(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		reused := func(session, device uint64, text []int32) int {
			return c.mustAsk(terms.Job{Session: session, Device: device,
				Question: terms.Question{Context: text, K: 1}}).Reused
		}
		reused(1, 1, text(1, 600))
		reused(3, 3, text(3, 200))
		assert.Equal(t, 600, reused(2, 2, text(1, 600)))
		require.NoError(t, c.s.Forget(c.t.Context(), 1)) // only the second device has it now
		reused(4, 4, text(4, 250))
		assert.Equal(t, 200, reused(3, 3, text(3, 200)))
		assert.Equal(t, 550, reused(2, 2, text(1, 600)))
	})
}

// TestEvictedForOne: tokens that one session loses stay for others, and it gets them back without computing.
func TestEvictedForOne(t *testing.T) {
	inBubble(t, 590, batch.Options{}, func(c *crowd, m *counter) {
		reused := func(session, device uint64, text []int32) int {
			return c.mustAsk(terms.Job{Session: session, Device: device,
				Question: terms.Question{Context: text, K: 1}}).Reused
		}
		reused(1, 1, text(1, 300))
		reused(2, 2, text(1, 300))
		reused(1, 1, append(text(1, 10), text(2, 300)...)) // its own branch is evicted first, which frees nothing
		assert.Equal(t, 290, reused(2, 2, text(1, 300)))
		assert.Equal(t, 300, reused(1, 1, text(1, 300)))
	})
}

// TestNodesAreBounded: the number of nodes of sessions that share a text is bounded; devices with few sessions lose
// nothing.
func TestNodesAreBounded(t *testing.T) {
	racing.Spare(t)
	inBubble(t, 2000, batch.Options{}, func(c *crowd, m *counter) {
		mine := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 20), K: 1}}
		c.mustAsk(mine)
		_, limit := batch.Nodes(c.s)
		assert.Equal(t, 1<<18, limit)
		for i := range uint64(150) {
			q := terms.Job{Session: 2 + i, Device: 2 + i%4, Question: terms.Question{Context: text(2, 1900), K: 1}}
			assert.Equal(t, 1900*int(min(i, 1)), c.mustAsk(q).Reused)
			synctest.Wait()
			nodes, _ := batch.Nodes(c.s)
			assert.LessOrEqual(t, nodes, limit)
			if i > 140 {
				assert.Greater(t, nodes, limit-1900)
			}
		}
		assert.Equal(t, 20, c.mustAsk(mine).Reused)
		assert.Equal(t, 1920, m.rows)
		assert.Equal(t, 1920, c.stats().InUse)
	})
	s := service(t, idle{}, 20_000, batch.Options{})
	defer s.Close()
	_, limit := batch.Nodes(s)
	assert.Equal(t, 16*20_000, limit)
}

// TestWorkOfSharing: a device pays for the tokens that its questions compute, and little for reused ones.
func TestWorkOfSharing(t *testing.T) {
	inBubble(t, 2000, batch.Options{}, func(c *crowd, m *counter) {
		work := func(device uint64, context []int32) uint64 {
			before := batch.Tag(c.s, device)
			c.mustAsk(terms.Job{Session: device, Client: device, Device: device,
				Question: terms.Question{Context: context, K: 1}})
			synctest.Wait()
			return batch.Tag(c.s, device) - before
		}
		assert.EqualValues(t, 4*400+1, work(1, text(1, 400)))
		assert.EqualValues(t, 4*10+1, work(2, append(text(1, 400), text(2, 10)...)))
		assert.EqualValues(t, 4, work(3, text(1, 400)), "all tokens are in memory")

		c.ask(terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(9, 1), K: 1}},
			func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
		synctest.Wait() // the two gather during this call
		paid := batch.Tag(c.s, 5) + batch.Tag(c.s, 6)
		for device := range uint64(2) {
			q := terms.Job{Session: 5 + device, Client: 5 + device, Device: 5 + device,
				Question: terms.Question{Context: text(5, 12), K: 1, AuditFrom: 1}}
			c.askExact(m, q)
		}
		c.wait.Wait()
		synctest.Wait()
		assert.EqualValues(t, 12*(4+1)+1+4, batch.Tag(c.s, 5)+batch.Tag(c.s, 6)-paid,
			"one uses the rows of the other")
	})
}

// TestGuessesOfOthers: a question may use a guess for another session. For that session it stays a guess, and counts as
// accepted when its own question arrives.
func TestGuessesOfOthers(t *testing.T) {
	for _, comes := range []bool{true, false} {
		cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
			q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}}
			guesses := 0
			for n := 0; guesses < 3; n++ {
				require.Less(t, n, 200)
				q.Context = append(q.Context, c.mustAsk(q).Token)
				synctest.Wait()
				_, guesses = batch.Streams(c.s)
			}
			before := c.stats()
			other := terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: q.Context, K: 1}}
			other.Context = append(slices.Clone(other.Context), c.mustAsk(other).Token)
			a := c.mustAsk(other)
			require.Equal(t, m.answer(t, other).Token, a.Token)
			assert.Equal(t, len(other.Context), a.Reused)
			after := c.stats()
			assert.Equal(t, before.Accepted, after.Accepted)
			_, still := batch.Streams(c.s)
			assert.Equal(t, guesses, still)
			if comes {
				c.mustAsk(q)
				assert.Equal(t, before.Accepted+1, c.stats().Accepted)
				c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: other.Context, K: 1}})
				assert.Equal(t, before.Accepted+2, c.stats().Accepted)
			} else {
				require.NoError(t, c.s.Forget(t.Context(), 1))
				assert.Equal(t, len(other.Context), c.stats().InUse)
				assert.Equal(t, len(other.Context), c.mustAsk(other).Reused)
			}
			m.rest(t)
		})
	}
}

// TestGuessesBehindOthers: a device with a question that its own guess answers owes nothing. It is not lost when
// further guesses are added after that guess, while another session has the token computed again.
func TestGuessesBehindOthers(t *testing.T) {
	cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		q, added := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}}, uint64(0)
		for n := range uint64(60) {
			q.Context = append(q.Context, c.mustAsk(q).Token)
			synctest.Wait()
			if _, guesses := batch.Streams(c.s); guesses == 0 {
				continue
			}
			c.mustAsk(terms.Job{Session: 8, Device: 8,
				Question: terms.Question{Context: text(int(n), 40), K: 1}}) // time passes
			c.ask(terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(int(n), 41), K: 1}},
				func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			synctest.Wait() // the two gather during this call
			other := q
			other.Session, other.Device, other.K = 2, 2, 9
			before := c.stats()
			for _, q := range []terms.Job{other, q} {
				c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			}
			c.wait.Wait()
			m.rest(t)
			added += c.stats().Guessed - before.Guessed
		}
		assert.Greater(t, added, uint64(20))
	})
}

// TestGuessesMeet: two streams with equal next guesses after different questions of one step have these once.
func TestGuessesMeet(t *testing.T) {
	cheapBubble(t, 2000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		q := terms.Job{Session: 1, Client: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 5}}
		for range 60 {
			other := q
			other.Session, other.Client, other.Device = 2, 2, 2
			a := c.mustAsk(q)
			require.Equal(t, a.Token, c.mustAsk(other).Token)
			q.Context = append(q.Context, a.Token)
		}
		synctest.Wait()
		for k := 9; k < 30; k += 10 { // the first asks again and the second continues: each wants more than is kept
			before := q
			before.Context, before.K = q.Context[:len(q.Context)-1], k
			ahead := q // the first has the next token, too, but has not asked for it
			ahead.Priority, ahead.K = terms.Background, k+1
			c.mustAsk(ahead)
			q.Session, q.Client, q.Device, q.K = 2, 2, 2, k+1
			c.mustAsk(q)
			c.ask(terms.Job{Session: 9, Device: 9, Question: terms.Question{Context: text(k, 1), K: 1}},
				func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
			synctest.Wait() // the two gather during this call
			paid := batch.Tag(c.s, 1) + batch.Tag(c.s, 2)
			q.K = k + 2
			for _, q := range []terms.Job{before, q} {
				c.askExact(m.counter, q)
			}
			c.wait.Wait()
			m.rest(t)
			_, guesses := batch.Streams(c.s)
			assert.Positive(t, guesses)
			head := uint64(1 + k/8)
			assert.Equal(t, 4+4+uint64(guesses)*(4+head), batch.Tag(c.s, 1)+batch.Tag(c.s, 2)-paid)
			q.Session, q.Client, q.Device = 1, 1, 1
		}
	})
}

// TestStreamsAlike: sessions that write the same text at the same time need the rows of one.
func TestStreamsAlike(t *testing.T) {
	cheapBubble(t, 4000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		texts := make([][]int32, 6)
		for i := range texts {
			c.wait.Go(func() {
				q := terms.Job{Session: uint64(i), Device: uint64(i),
					Question: terms.Question{Context: text(1, 10), K: 1}}
				texts[i] = c.stream(q, 150)
			})
		}
		c.wait.Wait()
		m.rest(t)
		for _, text := range texts {
			assert.Equal(t, texts[0], text)
		}
		assert.LessOrEqual(t, c.stats().InUse, 160+7)
		assert.Less(t, m.rows, 2*160)
	})
}
