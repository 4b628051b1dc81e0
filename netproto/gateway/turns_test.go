package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotfish-ai/pilotfish/internal/bubble"
	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func dev(name string) deviceID { return deviceID{client: name} }

// empty wants that nothing of any ask is left.
func empty(t *testing.T, turns *turns, places int) {
	t.Helper()
	assert.Equal(t, places, turns.free)
	assert.Zero(t, turns.open)
	assert.Zero(t, turns.busy)
	assert.Zero(t, turns.next.Len())
	for _, l := range turns.lines {
		assert.Zero(t, l.taken+l.open+len(l.waiting))
	}
}

// Devices share places by tokens, whatever the number of their asks and how many tokens each brings: the asks of a
// modest device are each next when they come, while greedy ones have all of theirs before them.
func TestTurnsAreFair(t *testing.T) {
	for _, greedy := range []int{1, 4, 64} {
		bubble.Test(t, func(t *testing.T) {
			const second = time.Second
			turns := newTurns(Options{MaxAsks: 10000, MaxAsksPerDevice: 1000}, 4)
			var all sync.WaitGroup
			use := func(who deviceID, tokens int) {
				release, err := turns.take(t.Context(), who, tokens, false)
				if !assert.NoError(t, err) {
					return
				}
				time.Sleep(time.Duration(tokens) * second)
				release()
				release() // twice is once
			}
			for n := range greedy {
				for range 100 {
					all.Go(func() { use(deviceID{"greedy", netproto.Device{byte(n)}}, 20) })
				}
			}
			synctest.Wait()
			for range 20 {
				began := time.Now()
				use(dev("modest"), 2)
				assert.LessOrEqual(t, time.Since(began), 22*second, "one ask that holds a place, and its own time")
				time.Sleep(time.Duration(7+greedy) * second) // so it asks for less than its share
			}
			all.Wait()
			empty(t, turns, 4)
		})
	}
}

// Two devices that always have asks waiting get as many tokens, whether these come in few asks or in many.
func TestTurnsShareTokens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 10000, MaxAsksPerDevice: 1000}, 1)
		var all sync.WaitGroup
		var mu sync.Mutex
		served := map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 1000*time.Second)
		defer cancel()
		for _, d := range []struct {
			name   string
			tokens int
		}{{"long", 50}, {"short", 1}, {"middle", 7}} {
			for range 900 {
				all.Go(func() {
					release, err := turns.take(ctx, dev(d.name), d.tokens, false)
					if err != nil {
						return
					}
					time.Sleep(time.Duration(d.tokens) * time.Second)
					mu.Lock()
					served[d.name] += d.tokens
					mu.Unlock()
					release()
				})
			}
		}
		all.Wait()
		for name, tokens := range served {
			assert.InDelta(t, 333, tokens, 51, name)
		}
		empty(t, turns, 1)
	})
}

// Who comes late has no claim to what others had before: from then on all get as much.
func TestTurnsLateComer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 10000, MaxAsksPerDevice: 1000}, 1)
		var all sync.WaitGroup
		var mu sync.Mutex
		served := map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Second)
		defer cancel()
		work := func(name string) {
			for range 300 {
				all.Go(func() {
					release, err := turns.take(ctx, dev(name), 5, false)
					if err != nil {
						return
					}
					time.Sleep(5 * time.Second)
					mu.Lock()
					served[name]++
					mu.Unlock()
					release()
				})
			}
		}
		work("early")
		time.Sleep(1000 * time.Second)
		mu.Lock()
		before := served["early"]
		mu.Unlock()
		work("late")
		all.Wait()
		assert.InDelta(t, 50, served["late"], 2)
		assert.InDelta(t, 50, served["early"]-before, 2)
	})
}

// One device alone holds half of the places; when the gateway is full, devices with few asks still get in; one that has
// its fill is refused by name of the limit.
func TestTurnsLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 20, MaxAsksPerDevice: 15}, 8) // places
		var all sync.WaitGroup
		var mu sync.Mutex
		var release []func()
		take := func(who string) error {
			r, err := turns.take(t.Context(), dev(who), 1, false)
			if err == nil {
				mu.Lock()
				release = append(release, r)
				mu.Unlock()
			}
			return err
		}
		for range 4 {
			require.NoError(t, take("greedy"))
		}
		for range 11 {
			all.Go(func() { assert.NoError(t, take("greedy")) })
		}
		synctest.Wait()
		assert.Equal(t, 4, turns.free, "half is left for others")
		assert.ErrorContains(t, take("greedy"), "15 asks of this device are open")
		for _, who := range []string{"other", "other", "third", "fourth"} {
			require.NoError(t, take(who))
		}
		all.Go(func() { assert.NoError(t, take("other")) })
		synctest.Wait()
		assert.Equal(t, 20, turns.open)
		for range 20 / 5 { // its share among the five
			all.Go(func() { assert.NoError(t, take("late")) })
			synctest.Wait()
		}
		err := take("late")
		require.ErrorIs(t, err, netproto.Busy)
		assert.ErrorContains(t, err, "asks of all devices are open")
		for range 24 { // each that is released lets another one in
			mu.Lock()
			for _, r := range release {
				r()
			}
			mu.Unlock()
			synctest.Wait()
		}
		all.Wait()
		empty(t, turns, 8)
	})
}

// A background ask never waits and never takes the last place.
func TestTurnsBackground(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 20, MaxAsksPerDevice: 15}, 4)
		var release []func()
		for range 2 {
			r, err := turns.take(t.Context(), dev("eager"), 5, true)
			require.NoError(t, err)
			release = append(release, r)
		}
		r, err := turns.take(t.Context(), dev("second"), 5, true)
		require.NoError(t, err)
		release = append(release, r)
		_, err = turns.take(t.Context(), dev("other"), 5, true)
		require.ErrorIs(t, err, netproto.Busy)
		r, err = turns.take(t.Context(), dev("other"), 5, false)
		require.NoError(t, err)
		for _, r := range append(release, r) {
			r()
		}
		empty(t, turns, 4)
	})
}

// An ask without a new token counts as one, so that nobody asks for nothing without end.
func TestTurnsOfNothing(t *testing.T) {
	turns := newTurns(Options{MaxAsks: 20, MaxAsksPerDevice: 1}, 4)
	for i := range 3 {
		release, err := turns.take(t.Context(), dev("a"), 0, false)
		require.NoError(t, err)
		_, err = turns.take(t.Context(), dev("a"), 0, false)
		require.ErrorContains(t, err, "1 asks of this device are open")
		release()
		assert.InDelta(t, i+1, turns.now, 1e-9)
		assert.Empty(t, turns.lines, "its past has no influence")
	}
}

// Devices that are gone leave nothing behind.
func TestTurnsForget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 20, MaxAsksPerDevice: 15}, 4)
		stay, err := turns.take(t.Context(), dev("stays"), 1, false)
		require.NoError(t, err)
		for i := range 10000 {
			id := deviceID{"passing", netproto.Device{byte(i), byte(i >> 8)}}
			release, err := turns.take(t.Context(), id, 10, false)
			require.NoError(t, err)
			release()
			if i%50 == 0 {
				more, err := turns.take(t.Context(), dev("stays"), 100, false) // virtual time goes on
				require.NoError(t, err)
				more()
			}
		}
		assert.Less(t, len(turns.lines), 500)
		stay()
		empty(t, turns, 4)
	})
}

// Who gives up leaves no trace, also when the place comes at the same moment, and is behind another of his asks.
func TestTurnsGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		turns := newTurns(Options{MaxAsks: 20, MaxAsksPerDevice: 3}, 1)
		release, err := turns.take(t.Context(), dev("a"), 1, false)
		require.NoError(t, err)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := turns.take(ctx, dev("a"), 1, false)
				assert.ErrorIs(t, err, gone)
			})
		}
		synctest.Wait()
		_, err = turns.take(ctx, dev("a"), 1, false)
		require.ErrorIs(t, err, netproto.Busy)
		cancel(gone)
		all.Wait()
		release()
		empty(t, turns, 1)

		given, end := context.WithCancelCause(t.Context())
		release, err = turns.take(given, dev("a"), 1, false)
		require.NoError(t, err)
		end(gone)
		release()
		empty(t, turns, 1)
	})
}

// A bucket lets a burst through, then its rate.
func TestBucket(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBucket(10, 5)
		for range 5 {
			require.Zero(t, b.take())
		}
		assert.Equal(t, 100*time.Millisecond, b.take().Round(time.Millisecond))
		passed := 0
		for range 1000 {
			if b.take() == 0 {
				passed++
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 100, passed, 1)
		time.Sleep(time.Hour)
		for range 5 {
			require.Zero(t, b.take())
		}
		assert.Positive(t, b.take())
		assert.Zero(t, (*bucket)(nil).take())
	})
}
