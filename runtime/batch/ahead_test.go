package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pilotfish-ai/pilotfish/netproto/terms"
	"github.com/pilotfish-ai/pilotfish/runtime/batch"
)

// TestAhead: tokens ahead equal those of plain questions, also with sampling. While no other question waits, none is
// dropped: neither two texts of a session nor a background question replace each other.
func TestAhead(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		for i, sampling := range []terms.Sampling{
			{}, {Temperature: 0.9, Seed: 3}, {Temperature: 0.9, Seed: 3, TopK: 7},
		} {
			c.wait.Go(func() {
				q := terms.Job{Session: 1, Priority: terms.Ahead,
					Question: terms.Question{Context: text(i, 20), K: 1, Sampling: sampling}}
				for range 20 {
					a, err := c.s.Ask(c.t.Context(), q)
					require.NoError(t, err)
					require.Equal(t, m.answer(t, q), plain(a))
					q.Context = append(q.Context, a.Token)
				}
			})
		}
		c.wait.Go(func() {
			_, err := c.s.Ask(c.t.Context(), terms.Job{Session: 1, Priority: terms.Background,
				Question: terms.Question{Context: text(9, 300), K: 1}})
			assert.NoError(t, err)
		})
		c.wait.Wait()
		st := c.stats()
		assert.EqualValues(t, 60, st.Ahead)
		assert.Zero(t, st.AheadShed)
		assert.Zero(t, st.Shed)
		assert.Equal(t, 3*(20+19)+300, m.rows)
	})
}

// TestAheadTakesNothing: a question waits for at most one step with one token ahead. Decoding ahead waits while other
// questions do, but not forever.
func TestAheadTakesNothing(t *testing.T) {
	inBubble(t, 10_000, batch.Options{}, func(c *crowd, m *counter) {
		ctx, end := context.WithCancel(c.t.Context())
		c.wait.Go(func() {
			q := terms.Job{Session: 1, Device: 1, Priority: terms.Ahead,
				Question: terms.Question{Context: text(1, 20), K: 1}}
			for {
				a, err := c.s.Ask(ctx, q)
				if err != nil {
					assert.ErrorIs(t, err, context.Canceled)
					return
				}
				q.Context = append(q.Context, a.Token)
			}
		})
		time.Sleep(100*tick + tick/2)
		for i := range 50 {
			a := c.mustAsk(terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(i, 10), K: 1}})
			assert.LessOrEqual(t, a.Queue, tick, "one step of one row")
			assert.LessOrEqual(t, a.Compute, 10*tick)
		}
		end()
		c.wait.Wait()

		begin := time.Now()
		for range 2 {
			c.wait.Go(func() {
				c.mustAsk(terms.Job{Session: 3, Device: 3, Question: terms.Question{Context: text(3, 4000), K: 1}})
			})
		}
		time.Sleep(tick)
		q := terms.Job{Session: 1, Device: 1, Priority: terms.Ahead,
			Question: terms.Question{Context: text(1, 5), K: 1}}
		c.ask(q, func(_ batch.Answer, _ time.Duration, err error) {
			assert.ErrorIs(t, err, batch.ErrShed)
			assert.Equal(t, 17*128*tick, time.Since(begin), "the first step, and 16 more")
		})
		c.wait.Wait()
		assert.EqualValues(t, 1, c.stats().AheadShed)
		assert.EqualValues(t, 1, c.stats().Shed)
	})
}

// TestForgetAhead: dropping a session ends all of its decoding ahead, and that of no other session.
func TestForgetAhead(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 16}, func(c *crowd, m *counter) {
		for session := range uint64(2) {
			for i := range 3 {
				q := terms.Job{Session: session, Priority: []terms.Priority{terms.Background, terms.Ahead}[min(i, 1)],
					Question: terms.Question{Context: text(i, 50), K: 1}}
				c.ask(q, func(_ batch.Answer, took time.Duration, err error) {
					if session == 0 {
						assert.ErrorIs(t, err, batch.ErrShed)
						assert.Equal(t, 4*tick, took, "after the end of its step")
					} else {
						assert.NoError(t, err)
					}
				})
			}
		}
		time.Sleep(tick / 4)
		assert.NoError(t, c.s.Forget(c.t.Context(), 0))
		c.wait.Wait()
		synctest.Wait()
		assert.EqualValues(t, 2, c.stats().Ahead)
		assert.EqualValues(t, 2, c.stats().AheadShed)
		assert.EqualValues(t, 3, c.stats().Shed)
		assert.Equal(t, 1, c.stats().Sessions)
	})
}

// TestAheadRoom: tokens ahead take free slots and slots of their own session, never those of other sessions.
func TestAheadRoom(t *testing.T) {
	inBubble(t, 100, batch.Options{}, func(c *crowd, m *counter) {
		mine := terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 40), K: 1}}
		other := terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(2, 58), K: 1}}
		c.mustAsk(mine)
		c.mustAsk(other)
		ahead := mine
		ahead.Priority = terms.Ahead
		for i := range 3 {
			ahead.Context = append(ahead.Context, int32(i))
			_, err := c.s.Ask(c.t.Context(), ahead)
			if i < 2 {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, batch.ErrShed, "the store is full")
			}
		}
		assert.Equal(t, 58, c.mustAsk(other).Reused)
		ahead.Context = append(mine.Context[:39:39], 5)
		_, err := c.s.Ask(c.t.Context(), ahead)
		assert.NoError(t, err, "its own session has another branch to evict")
		assert.Equal(t, 58, c.mustAsk(other).Reused)
		assert.Equal(t, 100, c.stats().InUse)
	})
}
