package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

const tick = time.Millisecond // time of a row of the model in these tests

// domain returns the domain of an attacker.
func (c *crowd) domain(n int) uint64 {
	if c.shared {
		return 0
	}
	return uint64(n)
}

// attacks are what n other devices do while a bystander asks.
var attacks = map[string]func(c *crowd, ctx context.Context, device int){
	"32 cold asks of 500 tokens": func(c *crowd, ctx context.Context, device int) {
		for i := range 32 {
			c.wait.Go(func() {
				c.s.Ask(ctx, terms.Job{Session: uint64(1000 + 32*device + i), Device: uint64(device),
					Domain: c.domain(1 + device), Question: terms.Question{Context: text(32*device+i, 500), K: 1}})
			})
		}
	},
	"syncs": func(c *crowd, ctx context.Context, device int) {
		for i := range 4 {
			c.wait.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					q := terms.Job{Session: uint64(1000 + 4*device + i), Device: uint64(device),
						Domain: c.domain(1000 + 4*device + i), Priority: terms.Background,
						Question: terms.Question{Context: text(n, 500), K: 1}}
					if _, err := c.s.Ask(ctx, q); err != nil {
						time.Sleep(50 * tick)
					}
				}
			})
		}
	},
	"a stream of audits with many candidates": func(c *crowd, ctx context.Context, device int) {
		for i := range 4 {
			c.wait.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					session := uint64(1000 + 4*device + i)
					c.s.Ask(ctx, terms.Job{
						Session: session, Device: uint64(device), Domain: c.domain(int(session)),
						Question: terms.Question{Context: text(n, 300), K: 256, AuditFrom: 1},
					})
				}
			})
		}
	},
	"verifying all they say": func(c *crowd, ctx context.Context, device int) {
		for i := range 4 {
			c.wait.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					session := uint64(1000 + 4*device + i)
					c.s.Ask(ctx, terms.Job{
						Session: session, Device: uint64(device), Domain: c.domain(int(session)),
						Question: terms.Question{K: 1,
							Context: text(n, 300), AuditFrom: 1, Verify: terms.EachScore,
							Sampling: terms.Sampling{Temperature: 1}},
					})
				}
			})
		}
	},
	"tokens ahead": func(c *crowd, ctx context.Context, device int) {
		for i := range 4 {
			c.wait.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					session := uint64(1000 + 4*device + i)
					q := terms.Job{Session: session, Device: uint64(device), Domain: c.domain(int(session)),
						Priority: terms.Ahead, Question: terms.Question{Context: text(n, 300), K: 1}}
					if _, err := c.s.Ask(ctx, q); err != nil {
						time.Sleep(50 * tick)
					}
				}
			})
		}
	},
}

// TestBystander: under any load, a device that asks for little waits for at most one bounded step, and then for its own
// step, with a few rows of others. In virtual time.
func TestBystander(t *testing.T) {
	crowds := []int{1, 4, 64}
	if testing.Short() {
		crowds = crowds[1:2]
	}
	for name, attack := range attacks {
		for _, attackers := range crowds {
			t.Run(fmt.Sprint(attackers, " times ", name), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { bystander(t, attack, attackers, false) })
			})
			t.Run(fmt.Sprint(attackers, " times shared ", name), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { bystander(t, attack, attackers, true) })
			})
		}
	}
}

// bystander asks next to attackers. Attackers that share their texts finish sooner and keep the texts that they used
// last; then the bystander may lose tokens that it has not used for a while.
func bystander(t *testing.T, attack func(*crowd, context.Context, int), attackers int, shared bool) {
	m := &counter{perRow: tick}
	c := &crowd{t: t, s: service(t, m, 4*600, batch.Options{Context: 600}), shared: shared}
	defer c.s.Close()
	ctx, stop := context.WithCancel(t.Context())
	mine := terms.Job{Session: 1, Device: 9999, Question: terms.Question{Context: text(1, 100), K: 4}}
	c.mustAsk(mine)
	for device := range attackers {
		attack(c, ctx, device)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range seeds(60) {
		time.Sleep(time.Duration(r.IntN(300)) * tick)
		mine.Context = append(mine.Context, text(r.IntN(1000), 1+r.IntN(10))...)
		mine.AuditFrom = len(mine.Context) - r.IntN(10)
		begin := time.Now()
		a := c.mustAsk(mine)
		again := len(mine.Context) - 10 - a.Reused // the number of evicted tokens: none
		if shared {
			most := time.Duration(128+4+10+max(0, again)+16+4) * tick
			require.True(t, again > 32 || time.Since(begin) <= most, "a step, its own step, and their heads")
		} else {
			require.LessOrEqual(t, again, 0)
			require.LessOrEqual(t, time.Since(begin), (128+4+10+16)*tick,
				"a step, its head, and its own step")
		}
		if len(mine.Context) > 580 {
			mine.Context = mine.Context[:100]
		}
	}
	stop()
	c.wait.Wait()
	require.NoError(t, m.wrong)
}

// TestInventedDevices: a client that shows up as a new device for each of its 400 cold questions at a time, whatever
// their length, delays the device of another client by a step in progress and the other client's turn, and takes no
// token of it from memory. That device may have little to ask or much.
func TestInventedDevices(t *testing.T) {
	racing.Spare(t)
	for _, size := range []int{8, 500} {
		for _, cold := range []int{0, 300} {
			t.Run(fmt.Sprintf("%d tokens, and %d", size, cold), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { invented(t, size, cold) })
			})
		}
	}
}

// invented asks next to 400 goroutines of another client, which ask size tokens each time. The bystander asks for a few
// more tokens of its text, or each time for a new text of cold tokens.
func invented(t *testing.T, size, cold int) {
	m := &counter{perRow: tick}
	c := &crowd{t: t, s: service(t, m, 4*600, batch.Options{Context: 600})}
	defer c.s.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	mine := terms.Job{Session: 1, Client: 1, Device: 1, Domain: 1,
		Question: terms.Question{Context: text(1, 100), K: 1}}
	c.mustAsk(mine)
	var devices atomic.Uint64
	for range 400 {
		c.wait.Go(func() {
			for ctx.Err() == nil {
				n := 2 + devices.Add(1)
				c.s.Ask(ctx, terms.Job{Session: n, Client: 2, Device: n, Domain: 2,
					Question: terms.Question{Context: text(int(n), size), K: 1}})
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range seeds(40) {
		time.Sleep(time.Duration(r.IntN(300)) * tick)
		mine.Context = append(mine.Context, text(r.IntN(1000), 1+r.IntN(10))...)
		most := 2 * (128 + 16 + 10) // a step in progress, and its own, which is full of short asks
		if cold > 0 {
			mine.Context = text(int(5000+i), cold)
			most = 150 * (1 + 2 + 2*(cold+127)/128) // a step in progress, the other's lead, and every other step
		}
		begin := time.Now()
		bounded, cancel := context.WithTimeout(t.Context(), time.Minute) // without fairness it waits forever
		a, err := c.s.Ask(bounded, mine)
		cancel()
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begin), time.Duration(most)*tick)
		require.True(t, cold > 0 || a.Reused >= len(mine.Context)-10, "%d of %d tokens", a.Reused, len(mine.Context))
		if len(mine.Context) > 580 {
			mine.Context = mine.Context[:100]
		}
	}
	stop()
	c.wait.Wait()
	require.NoError(t, m.wrong)
}

// TestEqualShares: devices that always wait get equal numbers of tokens, within those of one step, however they split
// their work.
func TestEqualShares(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: tick}
		c := &crowd{t: t, s: service(t, m, 6000, batch.Options{Context: 600, Rows: 64})}
		defer c.s.Close()
		ctx, stop := context.WithCancel(t.Context())
		sizes, tokens := []int{500, 90, 40, 500}, make([]atomic.Int64, 4)
		for device, size := range sizes {
			for i := range 2 + 400/size {
				c.wait.Go(func() {
					for n := 0; ; n++ {
						q := terms.Job{Session: uint64(100*device + i), Device: uint64(device),
							Domain:   uint64(100*device + i),
							Question: terms.Question{Context: text(1000*i+n, size), K: 1}}
						if _, err := c.s.Ask(ctx, q); err != nil {
							return
						}
						tokens[device].Add(int64(size))
					}
				})
			}
		}
		time.Sleep(100_000 * tick)
		for device := range tokens {
			assert.InDelta(t, 25_000, tokens[device].Load(), 500+64, "device %d", device)
		}
		stop()
		c.wait.Wait()
	})
}

// TestLight: a device with small questions goes first, but does not get more than its share in the long run.
func TestLight(t *testing.T) {
	racing.Spare(t)
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: tick}
		c := &crowd{t: t, s: service(t, m, 6000, batch.Options{Rows: 16})}
		defer c.s.Close()
		ctx, stop := context.WithCancel(t.Context())
		var tokens [3]atomic.Int64
		streams := 0
		stream := func(device uint64, size int) {
			streams++
			first := streams * 1_000_000
			c.wait.Go(func() {
				for n := 0; ; n++ {
					q := terms.Job{Session: uint64(first + n), Device: device, Domain: uint64(first + n),
						Question: terms.Question{Context: text(first+n, size), K: 1}}
					if _, err := c.s.Ask(ctx, q); err != nil {
						return
					}
					tokens[device].Add(int64(size))
				}
			})
		}
		for device := range uint64(2) { // one question of the device always waits while the other one is computed
			stream(device, 4)
			stream(device, 4)
			time.Sleep(6 * tick)
		}
		stream(2, 400)
		time.Sleep(10_000 * tick)
		assert.Greater(t, 2*tokens[0].Load(), 3*tokens[2].Load(), "small questions are ahead at first")
		time.Sleep(90_000 * tick)
		for device := range tokens {
			assert.InDelta(t, tokens[device].Load(), tokens[2].Load(), 128*16+400+16)
		}
		stop()
		c.wait.Wait()
	})
}

// TestDevicesAreForgotten: memory does not grow with the number of devices that no longer wait.
func TestDevicesAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{t: t, s: service(t, &counter{perRow: tick}, 520, batch.Options{})}
		defer c.s.Close()
		for device := range uint64(5000) {
			session := 2 + device
			c.mustAsk(terms.Job{
				Session: session, Device: device, Priority: when(device%2 == 0, terms.Background),
				Question: terms.Question{Context: []int32{1}, K: 1},
			})
			require.NoError(t, c.s.Forget(t.Context(), session))
		}
		assert.Equal(t, 2*1024, batch.Remembered(c.s))
	})
}

// TestBackground: a background question takes neither time nor memory from other questions.
func TestBackground(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: tick}
		c := &crowd{t: t, s: service(t, m, 1000, batch.Options{})}
		defer c.s.Close()
		sync := func(session uint64, text []int32) error {
			_, err := c.s.Ask(t.Context(),
				terms.Job{Session: session, Device: session, Priority: terms.Background,
					Question: terms.Question{Context: text, K: 1}})
			return err
		}
		require.NoError(t, sync(1, text(1, 300)))
		a := c.mustAsk(terms.Job{Session: 1, Device: 1,
			Question: terms.Question{Context: append(text(1, 300), 1), K: 1}})
		assert.Equal(t, 300, a.Reused)
		c.mustAsk(terms.Job{Session: 2, Question: terms.Question{Context: text(2, 500), K: 1}})
		begin := time.Now()
		assert.ErrorIs(t, sync(3, text(3, 300)), batch.ErrShed, "only other sessions have room")
		assert.Zero(t, time.Since(begin), "it fails at once")
		require.NoError(t, sync(1, text(4, 480)), "tokens of its own session make room")
		assert.Equal(t, 500, c.mustAsk(terms.Job{Session: 2,
			Question: terms.Question{Context: text(2, 500), K: 1}}).Reused)
		assert.EqualValues(t, 1, c.stats().Shed)

		require.NoError(t, c.s.Forget(t.Context(), 1))
		var results [4]error
		for i := range 4 { // four of one session: only the last one is computed, in its own steps
			c.wait.Go(func() { results[i] = sync(5, text(5, 300+i)) })
			synctest.Wait()
			time.Sleep(tick)
		}
		c.wait.Go(func() { c.mustAsk(terms.Job{Session: 2, Question: terms.Question{Context: text(6, 100), K: 1}}) })
		c.wait.Wait()
		assert.NoError(t, results[3])
		for i := range 3 {
			assert.ErrorIs(t, results[i], batch.ErrShed)
		}
	})
}

// TestBackgroundWaits: a background question waits for a bounded number of steps of other questions.
func TestBackgroundWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{t: t, s: service(t, &counter{perRow: tick}, 10_000, batch.Options{})}
		defer c.s.Close()
		c.wait.Go(func() { c.mustAsk(terms.Job{Session: 1, Question: terms.Question{Context: text(1, 5000), K: 1}}) })
		time.Sleep(tick)
		q := terms.Job{Session: 2, Device: 2, Priority: terms.Background,
			Question: terms.Question{Context: text(2, 10), K: 1}}
		c.ask(q, func(_ batch.Answer, took time.Duration, err error) {
			assert.ErrorIs(t, err, batch.ErrShed)
			assert.Equal(t, (17*128-1)*tick, took, "the first step and 16 more")
		})
		c.wait.Wait()
		assert.Zero(t, c.stats().Waiting)
	})
}

// TestBackgroundLosesRoom: a background question fails if others have taken its room meanwhile, also if it is partly
// computed. It evicts nothing of others.
func TestBackgroundLosesRoom(t *testing.T) {
	inBubble(t, 100, batch.Options{Rows: 16}, func(c *crowd, _ *counter) {
		reused := func(session uint64, n int) int {
			q := terms.Job{Session: session, Device: session,
				Question: terms.Question{Context: text(int(session), n), K: 1}}
			return c.mustAsk(q).Reused
		}
		background := func(session uint64, n int, took time.Duration) {
			q := terms.Job{
				Session: session, Device: session, Priority: terms.Background,
				Question: terms.Question{Context: text(int(session), n), K: 1},
			}
			c.ask(q, func(_ batch.Answer, d time.Duration, err error) {
				assert.ErrorIs(t, err, batch.ErrShed)
				assert.Equal(t, took, d)
			})
			synctest.Wait()
		}
		reused(1, 40)
		c.wait.Go(func() { reused(2, 50) })
		time.Sleep(tick) // in its first step, with 44 slots free
		background(3, 30, (49+10)*tick)
		c.wait.Wait()
		assert.Zero(t, c.stats().Evicted)
		assert.Equal(t, 40, reused(1, 40))
		assert.Equal(t, 50, reused(2, 50))
		assert.Equal(t, 100, c.stats().InUse)

		require.NoError(t, c.s.Forget(c.t.Context(), 2))
		require.NoError(t, c.s.Forget(c.t.Context(), 3))
		background(4, 30, (12+3*16)*tick)
		time.Sleep(9 * tick) // in its third step
		reused(5, 55)
		c.wait.Wait()
		assert.EqualValues(t, 7, c.stats().Evicted)
		assert.Equal(t, 33, reused(1, 40))
		assert.Equal(t, 5, reused(4, 5), "its tokens are kept like other tokens")
		assert.EqualValues(t, 2, c.stats().Shed)
	})
}

// TestForgetBackground: a background question ends with its session; other questions of the session are answered.
func TestForgetBackground(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 16}, func(c *crowd, m *counter) {
		for _, back := range []bool{true, false} {
			q := terms.Job{Session: 1, Priority: when(back, terms.Background),
				Question: terms.Question{Context: text(1, 50), K: 1}}
			c.ask(q, func(_ batch.Answer, took time.Duration, err error) {
				if back {
					assert.ErrorIs(t, err, batch.ErrShed)
					assert.Equal(t, 4*tick, took, "after the end of its step")
				} else {
					assert.NoError(t, err)
				}
			})
			time.Sleep(tick / 4)
		}
		assert.NoError(t, c.s.Forget(c.t.Context(), 1))
		c.wait.Wait()
		assert.Zero(t, c.stats().InUse)
	})
}

// TestBackgroundSteps: steps of background questions are small, because a new question waits for the current one.
func TestBackgroundSteps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: tick}
		c := &crowd{t: t, s: service(t, m, 1000, batch.Options{Rows: 100})}
		defer c.s.Close()
		q := terms.Job{Session: 2, Device: 2, Priority: terms.Background,
			Question: terms.Question{Context: text(2, 500), K: 1}}
		c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
		time.Sleep(tick)
		begin := time.Now()
		c.mustAsk(terms.Job{Session: 1, Device: 1, Question: terms.Question{Context: text(1, 10), K: 1}})
		assert.LessOrEqual(t, time.Since(begin), (25+10)*tick)
		c.wait.Wait()
		for _, call := range m.calls {
			assert.LessOrEqual(t, call.rows, 25)
		}
		assert.Len(t, m.calls, 21)
	})
}

// TestBackgroundGoesOn: a background question is computed between the steps of others.
func TestBackgroundGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &crowd{t: t, s: service(t, &counter{perRow: tick}, 10_000, batch.Options{})}
		defer c.s.Close()
		q := terms.Job{Session: 2, Device: 2, Priority: terms.Background,
			Question: terms.Question{Context: text(2, 128*40), K: 1}}
		c.ask(q, func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
		for i := range 40 {
			c.mustAsk(terms.Job{Session: 1, Question: terms.Question{Context: text(i, 10), K: 1}})
			time.Sleep(tick)
		}
		c.wait.Wait()
	})
}

// TestLeaving: a call of the model is cancelled when all of its callers have left, and not before. Nothing of a
// cancelled call is kept.
func TestLeaving(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: tick}
		c := &crowd{t: t, s: service(t, m, 1000, batch.Options{})}
		defer c.s.Close()
		bored := errors.New("bored")
		c.ask(terms.Job{Session: 7, Question: terms.Question{Context: text(7, 5), K: 1}},
			func(_ batch.Answer, _ time.Duration, err error) { assert.NoError(t, err) })
		time.Sleep(tick) // others gather during this call
		var leave [3]context.CancelCauseFunc
		for i := range leave {
			var ctx context.Context
			ctx, leave[i] = context.WithCancelCause(t.Context())
			c.wait.Go(func() {
				_, err := c.s.Ask(ctx, terms.Job{Session: uint64(i),
					Question: terms.Question{Context: text(i, 20), K: 1}})
				if i < 2 {
					assert.ErrorIs(t, err, bored)
				} else {
					assert.NoError(t, err)
				}
			})
		}
		time.Sleep(10 * tick)
		leave[0](bored)
		leave[1](bored)
		c.wait.Wait()
		assert.NoError(t, m.left)

		ctx, cancel := context.WithCancelCause(t.Context())
		c.wait.Go(func() {
			_, err := c.s.Ask(ctx, terms.Job{Session: 9, Question: terms.Question{Context: text(9, 300), K: 1}})
			assert.ErrorIs(t, err, bored)
		})
		time.Sleep(200 * tick) // in its second step
		before := c.stats().InUse
		cancel(bored)
		c.wait.Wait()
		synctest.Wait()
		assert.Equal(t, bored, m.left)
		assert.Equal(t, before, c.stats().InUse, "the tokens of the first step stay")
		assert.Equal(t, 128, c.mustAsk(terms.Job{Session: 9,
			Question: terms.Question{Context: text(9, 300), K: 1}}).Reused)
		require.NoError(t, m.wrong)
	})
}

// TestLeavingBefore: a caller that leaves while a step is planned does not count as waiting.
func TestLeavingBefore(t *testing.T) {
	for _, others := range []int{0, 1, 2} {
		bubble.Test(t, func(t *testing.T) {
			m, bored, tired := &counter{perRow: tick}, errors.New("bored"), errors.New("tired")
			first, leave := context.WithCancelCause(t.Context())
			then, leaveThen := context.WithCancelCause(t.Context())
			c := &crowd{t: t, s: service(t, m, 1000, batch.Options{Now: beforeSteps(func(step int) {
				if step == 2 {
					leave(bored)
					time.Sleep(tick)
				}
			})})}
			defer c.s.Close()
			c.wait.Go(func() { c.mustAsk(terms.Job{Session: 9, Question: terms.Question{Context: text(9, 5), K: 1}}) })
			time.Sleep(tick) // others gather during this call
			ask := func(ctx context.Context, session int, want error) {
				c.wait.Go(func() {
					_, err := c.s.Ask(ctx, terms.Job{Session: uint64(session),
						Question: terms.Question{Context: text(session, 20), K: 1}})
					assert.ErrorIs(t, err, want)
				})
			}
			ask(first, 0, bored)
			for i := range others {
				ask(then, 1+i, tired)
			}
			time.Sleep(15 * tick)
			leaveThen(tired)
			c.wait.Wait()
			synctest.Wait()
			assert.Equal(t, 5, c.stats().InUse)
			assert.Zero(t, c.stats().Waiting)
			assert.Equal(t, 1+min(1, others), len(m.calls), "no call without a caller")
			if others > 0 {
				assert.Equal(t, tired, m.left)
			}
			require.NoError(t, batch.CheckAtRest(c.s))
		})
	}
}

// TestLeavingBeside: a caller that leaves while a step for others runs does not end the step.
func TestLeavingBeside(t *testing.T) {
	inBubble(t, 1000, batch.Options{Rows: 1}, func(c *crowd, m *counter) {
		ctx, leave := context.WithCancelCause(c.t.Context())
		bored := errors.New("bored")
		c.wait.Go(func() {
			_, err := c.s.Ask(ctx, terms.Job{Session: 1, Device: 1,
				Question: terms.Question{Context: text(1, 9), K: 1}})
			assert.ErrorIs(t, err, bored)
		})
		time.Sleep(tick / 2)
		c.wait.Go(func() {
			c.mustAsk(terms.Job{Session: 2, Device: 2, Question: terms.Question{Context: text(2, 1), K: 1}})
		})
		time.Sleep(tick) // in the step of the other
		leave(bored)
		c.wait.Wait()
		synctest.Wait()
		assert.NoError(t, m.left)
		assert.Len(t, m.calls, 2)
		assert.Equal(t, 2, c.stats().InUse)
	})
}

// TestForgetInPassing: a session is dropped even if the caller of Forget does not wait; a question with an ended
// context does nothing.
func TestForgetInPassing(t *testing.T) {
	inBubble(t, 1000, batch.Options{}, func(c *crowd, m *counter) {
		bored := errors.New("bored")
		ask := func(session, n int) {
			c.mustAsk(terms.Job{Session: uint64(session), Question: terms.Question{Context: text(session, n), K: 1}})
		}
		ask(1, 10)
		c.wait.Go(func() { ask(2, 20) })
		time.Sleep(tick)
		ctx, leave := context.WithCancelCause(c.t.Context())
		c.wait.Go(func() { assert.ErrorIs(t, c.s.Forget(ctx, 1), bored) })
		synctest.Wait()
		assert.Equal(t, 1, c.stats().Waiting, "only the question that waits")
		leave(bored)
		c.wait.Wait()
		synctest.Wait()
		assert.Equal(t, 20, c.stats().InUse)
		assert.ErrorIs(t, c.s.Forget(ctx, 2), bored)
		_, err := c.s.Ask(ctx, terms.Job{Session: 3, Question: terms.Question{Context: text(3, 5), K: 1}})
		assert.ErrorIs(t, err, bored)
		synctest.Wait()
		assert.Equal(t, 20, c.stats().InUse)
		assert.Len(t, m.calls, 2)
	})
}

// TestCloseIsSoon: Close does not wait for the model, and all callers get an error.
func TestCloseIsSoon(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &counter{perRow: time.Hour}
		c := &crowd{t: t, s: service(t, m, 1000, batch.Options{Rows: 10})}
		ask := func(session, n int, took time.Duration) {
			q := terms.Job{Session: uint64(session), Priority: when(session%10 == 9, terms.Background),
				Question: terms.Question{Context: text(session, n), K: 1}}
			c.ask(q, func(_ batch.Answer, d time.Duration, err error) {
				assert.ErrorIs(t, err, batch.ErrClosed)
				assert.Equal(t, took, d)
			})
		}
		for i := range 10 {
			ask(i, 15, 11*time.Hour)
		}
		time.Sleep(10*time.Hour + 30*time.Minute) // in the second step
		for i := range 10 {
			ask(10+i, 15, 30*time.Minute)
		}
		synctest.Wait()
		assert.Equal(t, 20, c.stats().Waiting)
		time.Sleep(30 * time.Minute)
		c.s.Close()
		assert.Error(t, m.left, "no call runs after Close")
		c.wait.Wait()
		assert.Zero(t, c.stats().Waiting)
		assert.ErrorIs(t, c.s.Forget(t.Context(), 1), batch.ErrClosed)
		c.s.Close() // a second call does nothing
	})
}
