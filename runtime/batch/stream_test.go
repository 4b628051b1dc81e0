package batch_test

import (
	"slices"
	"sync/atomic"
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

// TestWhoIsNoStream: a session that does not continue with the answers, wants all logits, or has disabled guesses gets
// none.
func TestWhoIsNoStream(t *testing.T) {
	for name, ask := range map[string]func(c *crowd, q terms.Job, n int) []int32{
		"another token": func(c *crowd, q terms.Job, n int) []int32 {
			a := c.mustAsk(q).Token
			if n%4 == 3 {
				a = (a + 1) % 40
			}
			return append(q.Context, a)
		},
		"two tokens": func(c *crowd, q terms.Job, n int) []int32 {
			return append(q.Context, c.mustAsk(q).Token, int32(n%7))
		},
		"sessions in turn": func(c *crowd, q terms.Job, n int) []int32 {
			q.Session = uint64(n / 4)
			return append(q.Context, c.mustAsk(q).Token)
		},
		"in the background": func(c *crowd, q terms.Job, n int) []int32 {
			q.Priority = terms.Background
			return append(q.Context, c.mustAsk(q).Token)
		},
		"forgotten": func(c *crowd, q terms.Job, n int) []int32 {
			if n%4 == 3 {
				require.NoError(c.t, c.s.Forget(c.t.Context(), q.Session))
			}
			return append(q.Context, c.mustAsk(q).Token)
		},
		"all logits": func(c *crowd, q terms.Job, n int) []int32 {
			q.Sampling = terms.Sampling{Temperature: 0.1, Seed: 1}
			return append(q.Context, c.mustAsk(q).Token)
		},
		"off": func(c *crowd, q terms.Job, n int) []int32 {
			return append(q.Context, c.mustAsk(q).Token)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := batch.Options{}
			if name == "off" {
				o.Lookup = -1
			}
			cheapBubble(t, 3000, o, func(t *testing.T, c *crowd, m *watched) {
				q := terms.Job{Session: 1, Question: terms.Question{Context: slices.Repeat(text(1, 5), 4), K: 1}}
				for n := range 100 {
					q.Context = ask(c, q, n)
					synctest.Wait()
					if streams, _ := batch.Streams(c.s); name != "all logits" {
						require.Zero(t, streams)
					}
				}
				assert.Zero(t, c.stats().Guessed)
				m.rest(t)
			})
		})
	}
}

// TestStreamsAreForgotten: memory for streams does not grow with their number, and nothing is left of a stream that
// ends, is dropped or is evicted.
func TestStreamsAreForgotten(t *testing.T) {
	racing.Spare(t)
	cheapBubble(t, 3000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		streams := func() int {
			synctest.Wait()
			n, _ := batch.Streams(c.s)
			return n
		}
		texts := make([][]int32, 80)
		goOn := func(session, more int) {
			q := terms.Job{Session: uint64(session), Device: uint64(session),
				Question: terms.Question{Context: texts[session], K: 1}}
			texts[session] = c.stream(q, more)
		}
		for session := range 80 {
			texts[session] = text(session, 10)
			goOn(session, 20)
			assert.LessOrEqual(t, streams(), 64)
		}
		assert.Equal(t, 64, streams())
		_, guesses := batch.Streams(c.s)
		assert.LessOrEqual(t, guesses, 64*7)
		assert.Zero(t, batch.Indexed(c.s, 15))
		assert.Equal(t, 29, batch.Indexed(c.s, 16), "the latest streams stay")
		require.NoError(t, c.s.Forget(t.Context(), 70))
		assert.Equal(t, 63, streams())
		texts[71] = texts[71][:3]
		goOn(71, 1)
		assert.Equal(t, 62, streams(), "its text does not continue")
		for range 5 {
			assert.Zero(t, batch.Indexed(c.s, 9), "it starts again")
			goOn(9, 1)
			synctest.Wait()
		}
		assert.Equal(t, 34, batch.Indexed(c.s, 9))
		assert.Equal(t, 63, streams())
		before := c.stats()
		c.mustAsk(terms.Job{Session: 1000, Device: 1000, Question: terms.Question{Context: text(1000, 3000), K: 1}})
		assert.Zero(t, streams(), "others have taken their room")
		_, guesses = batch.Streams(c.s)
		assert.Zero(t, guesses)
		assert.Greater(t, c.stats().Evicted, before.Evicted)
		m.rest(t)
	})
}

// TestGuessesGoFirst: a question for which all guesses must go takes no text from the streams, accepted guesses
// included.
func TestGuessesGoFirst(t *testing.T) {
	const slots = 300
	cheapBubble(t, slots, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		ask := func(session int, context []int32) terms.Job {
			return terms.Job{Session: uint64(session), Device: uint64(session),
				Question: terms.Question{Context: context, K: 1}}
		}
		texts := map[int][]int32{}
		for _, session := range []int{1, 2} {
			texts[session] = c.stream(ask(session, text(session, 10)), 30)
		}
		synctest.Wait()
		_, guesses := batch.Streams(c.s)
		require.Greater(t, guesses, 1)
		before := c.stats()
		require.Greater(t, before.Accepted, uint64(20))
		c.mustAsk(ask(3, text(3, slots-before.InUse+guesses)))
		_, guesses = batch.Streams(c.s)
		assert.Zero(t, guesses)
		assert.Equal(t, before.Evicted, c.stats().Evicted)
		require.NoError(t, c.s.Forget(t.Context(), 3))
		for session, text := range texts {
			assert.Equal(t, len(text)-1, c.mustAsk(ask(session, text)).Reused)
		}
		m.rest(t)
	})
}

// TestBusy: in steps without spare rows no text is indexed, because that takes time, and nothing is guessed.
func TestBusy(t *testing.T) {
	for size, busy := range map[int]bool{0: false, 2: false, 7: true, 200: true} {
		cheapBubble(t, 10_000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
			q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: slices.Repeat(text(1, 5), 4), K: 1}}
			c.mustAsk(q)
			for i := range 30 {
				other := func(session uint64, n int) {
					q := terms.Job{Session: 100*session + uint64(i), Device: session,
						Question: terms.Question{Context: text(i, n), K: 1}}
					q.Domain = q.Session
					c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
					synctest.Wait()
				}
				other(99, 1) // others gather during this call
				if size > 0 {
					other(2, size)
				}
				q.Context = append(q.Context, c.mustAsk(q).Token)
				c.wait.Wait()
			}
			assert.Equal(t, busy, batch.Indexed(c.s, 1) == 0, "%d others", size)
			assert.Equal(t, busy, c.stats().Guessed == 0, "%d others", size)
			m.rest(t)
		})
	}
}

// TestLearnsWhenBusy: a stream learns at every question whether a guess would be accepted, even if none was evaluated.
func TestLearnsWhenBusy(t *testing.T) {
	racing.Spare(t)
	cheapBubble(t, 10_000, batch.Options{}, func(t *testing.T, c *crowd, m *watched) {
		q := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}}
		q.Context = c.stream(q, 20)
		synctest.Wait()
		before, stats := batch.Rate(c.s, 1, 16), c.stats()
		c.wait.Go(func() {
			c.mustAsk(terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(2, 6000), K: 1}})
		})
		synctest.Wait()
		q.Context = c.stream(q, 40)
		c.wait.Wait()
		assert.Greater(t, batch.Rate(c.s, 1, 16), before)
		assert.Equal(t, stats.Guessed, c.stats().Guessed)
		m.rest(t)
	})
}

// TestManyStreams: if more sessions ask at the same time than streams are kept, all are answered, and the others are
// not streams.
func TestManyStreams(t *testing.T) {
	racing.Spare(t)
	cheapBubble(t, 20_000, batch.Options{Context: 500}, func(t *testing.T, c *crowd, m *watched) {
		var wrong atomic.Int64
		for i := range 100 {
			c.wait.Go(func() {
				q := terms.Job{Session: uint64(i), Device: uint64(i),
					Question: terms.Question{Context: text(i, 10), K: 1}}
				for range 40 {
					a := c.mustAsk(q)
					if a.Token != m.answer(t, q).Token {
						wrong.Add(1)
					}
					q.Context = append(q.Context, a.Token)
					time.Sleep(time.Duration(i%7) * 100 * tick)
				}
			})
		}
		c.wait.Wait()
		m.rest(t)
		assert.Zero(t, wrong.Load())
	})
}

// TestLongText: only the end of a text that becomes a stream late is indexed.
func TestLongText(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{t: t, s: service(t, idle{}, 40_000, batch.Options{})}
		defer c.s.Close()
		c.stream(terms.Job{Session: 1, Question: terms.Question{Context: text(1, 30_000), K: 1}}, 10)
		synctest.Wait()
		assert.Equal(t, 16384+5, batch.Indexed(c.s, 1))
	})
}
