package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotfish-ai/pilotfish/netproto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients take turns, whatever the number of their asks: all asks of the modest one are served while the greedy one
// still has most of its own before it.
func TestTurnsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 1000)
		var mu sync.Mutex
		served := map[string]int{}
		var all sync.WaitGroup
		use := func(who string) {
			release, err := turns.take(t.Context(), who)
			assert.NoError(t, err)
			time.Sleep(time.Second)
			mu.Lock()
			served[who]++
			mu.Unlock()
			release()
			release() // twice is once
		}
		for range 100 {
			all.Go(func() { use("greedy") })
		}
		synctest.Wait()
		for range 10 {
			all.Go(func() { use("modest") })
		}
		time.Sleep(11*time.Second + time.Millisecond)
		mu.Lock()
		assert.Equal(t, 10, served["modest"])
		assert.InDelta(t, 11, served["greedy"], 1)
		mu.Unlock()
		all.Wait()
		assert.Empty(t, turns.waiting)
		assert.Empty(t, turns.order)
		assert.Empty(t, turns.held)
		assert.Equal(t, 2, turns.free)
	})
}

// Who gives up leaves no trace, also when the place comes at the same moment; too many that wait are refused.
func TestTurnsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 2)
		release, err := turns.take(t.Context(), "a")
		require.NoError(t, err)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := turns.take(ctx, "a")
				assert.ErrorIs(t, err, gone)
			})
		}
		synctest.Wait()
		_, err = turns.take(ctx, "a")
		require.ErrorIs(t, err, netproto.Busy)
		cancel(gone)
		all.Wait()
		release()
		assert.Equal(t, 1, turns.free)
		assert.Empty(t, turns.order)

		given, end := context.WithCancelCause(t.Context())
		release, err = turns.take(given, "a")
		require.NoError(t, err)
		end(gone)
		release()
		assert.Equal(t, 1, turns.free)
	})
}

// A bucket lets a burst through, then its rate.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
